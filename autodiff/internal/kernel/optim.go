package kernel

import "math"

// Descend writes p - rate*g to p.
func Descend[T Float](p, g []T, rate T) {
	g = g[:len(p)]
	for i := fastBy(descendZXA, p, g, g, rate, 0); i < len(p); i++ {
		p[i] -= T(rate * g[i])
	}
}

// SGD holds the numbers of gradient descent with momentum, as PyTorch does it.
type SGD[T Float] struct {
	Rate, Momentum, Decay T
	Share                 T // of a gradient, that the momentum takes
	Nesterov              bool
}

// Step changes p, and v where there is one. It takes some numbers at a time, whose steps stay in the cache.
func (o SGD[T]) Step(p, g, v []T) {
	const block = 512
	var memory [2][block]T
	for ; len(p) > 0; p, g = p[min(block, len(p)):], g[min(block, len(p)):] {
		n := min(block, len(p))
		p, d, next := p[:n], memory[0][:n], memory[1][:n]
		mulVS(d, p, o.Decay)
		addVV(d, g[:n], d)
		if v != nil {
			m := v[:n]
			mulVS(m, m, o.Momentum)
			if o.Share != 1 {
				mulVS(next, d, o.Share)
				addVV(m, m, next)
			} else {
				addVV(m, m, d)
			}
			if o.Nesterov {
				mulVS(next, m, o.Momentum)
				addVV(d, d, next)
			} else {
				d = m
			}
			v = v[n:]
		}
		Descend(p, d, o.Rate)
	}
}

// Adam holds the numbers of a step: what p is multiplied by first, and what the square root of v is divided by.
type Adam[T Float] struct{ Keep, Decay, OneLessBeta1, Beta2, OneLessBeta2, Rate, Root, Eps T }

// Step changes p and its moments.
func (o *Adam[T]) Step(p, g, m, v []T) {
	g, m, v = g[:len(p)], m[:len(p)], v[:len(p)]
	for i := fastAdam(o, p, g, m, v); i < len(p); i++ {
		d := g[i] + T(o.Decay*p[i])
		m[i] += T((d - m[i]) * o.OneLessBeta1)
		v[i] = T(v[i]*o.Beta2) + T(T(d*d)*o.OneLessBeta2)
		p[i] = T(p[i]*o.Keep) - T(o.Rate*m[i])/(T(math.Sqrt(float64(v[i])))/o.Root+o.Eps)
	}
}

// StepMost is Step by the largest v so far.
func (o *Adam[T]) StepMost(p, g, m, v, most []T) {
	for i := range p {
		d := g[i] + T(o.Decay*p[i])
		m[i] += T((d - m[i]) * o.OneLessBeta1)
		v[i] = T(v[i]*o.Beta2) + T(T(d*d)*o.OneLessBeta2)
		most[i] = max(most[i], v[i])
		p[i] = T(p[i]*o.Keep) - T(o.Rate*m[i])/(root(most[i])/o.Root+o.Eps)
	}
}

func root[T Float](x T) T { return T(math.Sqrt(float64(x))) }
