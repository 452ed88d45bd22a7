package kernel

// Numbers are those of an optimizer's step, in the order in which its loop names them.
type Numbers[T Float] [10]T

// Step changes parameters p by gradients g, and what is remembered of them, of which some may be absent.
type Step[T Float] func(n *Numbers[T], p, g, a, b, c []T)

// Steps are the loops of optimizers, by name. They follow PyTorch, with each step rounded.
func Steps[T Float]() map[string]Step[T] {
	return map[string]Step[T]{
		"adagrad": adagrad[T], "rmsprop": rmsprop[T], "adamax": adamax[T], "nadam": nadam[T], "radam": radam[T], "adadelta": adadelta[T], "rprop": rprop[T],
	}
}

func adagrad[T Float](n *Numbers[T], p, g, sum, _, _ []T) {
	decay, rate, eps := n[0], n[1], n[2]
	for i := range p {
		d := g[i] + T(decay*p[i])
		sum[i] += T(d * d)
		p[i] -= T(rate*d) / (root(sum[i]) + eps)
	}
}

// rmsprop takes a momentum and a mean of gradients where they are remembered.
func rmsprop[T Float](n *Numbers[T], p, g, square, momentum, mean []T) {
	decay, rate, alpha, rest, eps, inert := n[0], n[1], n[2], n[3], n[4], n[5]
	for i := range p {
		d := g[i] + T(decay*p[i])
		square[i] = T(square[i]*alpha) + T(T(d*d)*rest)
		variance := square[i]
		if mean != nil {
			mean[i] += T((d - mean[i]) * rest)
			variance -= T(mean[i] * mean[i])
		}
		by := root(variance) + eps
		if momentum == nil {
			p[i] -= T(rate*d) / by
			continue
		}
		momentum[i] = T(momentum[i]*inert) + d/by
		p[i] -= T(rate * momentum[i])
	}
}

func adamax[T Float](n *Numbers[T], p, g, mean, most, _ []T) {
	decay, rate, oneLessBeta1, beta2, eps := n[0], n[1], n[2], n[3], n[4]
	for i := range p {
		d := g[i] + T(decay*p[i])
		mean[i] += T((d - mean[i]) * oneLessBeta1)
		most[i] = max(T(most[i]*beta2), max(d, -d)+eps)
		p[i] -= T(rate*mean[i]) / most[i]
	}
}

func nadam[T Float](n *Numbers[T], p, g, mean, square, _ []T) {
	keep, decay, oneLessBeta1, beta2, oneLessBeta2, fix, eps, ofGradient, ofMean := n[0], n[1], n[2], n[3], n[4], n[5], n[6], n[7], n[8]
	for i := range p {
		kept := T(p[i] * keep)
		d := g[i] + T(decay*p[i])
		mean[i] += T((d - mean[i]) * oneLessBeta1)
		square[i] = T(square[i]*beta2) + T(T(d*d)*oneLessBeta2)
		by := root(square[i]/fix) + eps
		p[i] = kept - T(ofGradient*d)/by - T(ofMean*mean[i])/by
	}
}

// radam leaves the squares out where nothing is rectified yet.
func radam[T Float](n *Numbers[T], p, g, mean, square, _ []T) {
	keep, decay, oneLessBeta1, beta2, oneLessBeta2, fix, rate, eps, top, rectify := n[0], n[1], n[2], n[3], n[4], n[5], n[6], n[7], n[8], n[9]
	for i := range p {
		kept := T(p[i] * keep)
		d := g[i] + T(decay*p[i])
		mean[i] += T((d - mean[i]) * oneLessBeta1)
		square[i] = T(square[i]*beta2) + T(T(d*d)*oneLessBeta2)
		step := T(mean[i] / fix * rate)
		if rectify != 0 {
			step = T(T(step*(top/(root(square[i])+eps))) * rectify)
		}
		p[i] = kept - step
	}
}

func adadelta[T Float](n *Numbers[T], p, g, square, steps, _ []T) {
	decay, rate, rho, rest, eps := n[0], n[1], n[2], n[3], n[4]
	for i := range p {
		d := g[i] + T(decay*p[i])
		square[i] = T(square[i]*rho) + T(T(d*d)*rest)
		step := T(root(steps[i]+eps) / root(square[i]+eps) * d)
		steps[i] = T(steps[i]*rho) + T(T(step*step)*rest)
		p[i] -= T(rate * step)
	}
}

// rprop goes by the signs of gradients alone.
func rprop[T Float](n *Numbers[T], p, g, last, size, _ []T) {
	shrink, grow, least, most := n[0], n[1], n[2], n[3]
	for i := range p {
		d := g[i]
		turned := T(d * last[i])
		switch {
		case turned > 0:
			size[i] *= grow
		case turned < 0:
			size[i] *= shrink
			d = 0
		}
		size[i] = min(max(size[i], least), most)
		last[i] = d
		switch {
		case d > 0:
			p[i] -= size[i]
		case d < 0:
			p[i] += size[i]
		default: // 0, or NaN
			p[i] += d
		}
	}
}
