package kernel

import "math"

// normalizer divides the rows of n elements, less their mean unless around zero, by the root of their
// mean square and eps.
type normalizer[T Float] struct {
	n          int
	eps        T
	aroundZero bool
	squares    []T
	root       T
}

func sumOf[T Float](x []T) T {
	var s Stripe[T]
	s.Add(x)
	return s.Sum()
}

func subVS[T Number](z, x []T, y T) {
	sub := Sub[T]()
	sub.VS(z, x, y)
}

// measure finds what row x is divided by, and returns x less the mean, for which z has room.
func (r *normalizer[T]) measure(z, x []T) (centered []T) {
	if centered = x; !r.aroundZero {
		centered = z
		subVS(z, x, sumOf(x)/T(r.n))
	}
	mulVV(r.squares, centered, centered)
	r.root = T(math.Sqrt(float64(sumOf(r.squares)/T(r.n) + r.eps)))
	return centered
}

// Normalize writes (x - mean) / sqrt(mean of (x - mean)^2 + eps) for rows of n elements; around zero
// the mean counts as 0.
func Normalize[T Float](t Threads, scratch Scratch[T], z, x []T, n int, eps float64, aroundZero bool) {
	t.For(len(z)/n, 8*n, 1, func(lo, hi int) {
		squares, done := scratch(n)
		defer done()
		r := normalizer[T]{n: n, eps: T(eps), aroundZero: aroundZero, squares: squares}
		for at := lo * n; at < hi*n; at += n {
			z := z[at : at+n]
			centered := r.measure(z, x[at:at+n])
			divVS(z, centered, r.root)
		}
	})
}

// NormalizeGrad writes the gradient of Normalize by x, from that of its result: c being x - mean and s
// the root, dc = g/s + ds/(2s)/n * 2c, with ds the sum of -(g * c/s)/s, and dx = dc - mean(dc).
func NormalizeGrad[T Float](t Threads, scratch Scratch[T], z, g, x []T, n int, eps float64, aroundZero bool) {
	t.For(len(z)/n, 16*n, 1, func(lo, hi int) {
		more, done := scratch(n)
		defer done()
		r := normalizer[T]{n: n, eps: T(eps), aroundZero: aroundZero, squares: more}
		for at := lo * n; at < hi*n; at += n {
			z, g := z[at:at+n], g[at:at+n]
			centered := r.measure(z, x[at:at+n])
			divVS(more, centered, r.root)
			mulVV(more, g, more)
			divVS(more, more, r.root)
			Neg(more, more, nil)
			slope := sumOf(more) / T(r.root*2) / T(n)
			mulVS(more, centered, 2)
			mulVS(more, more, slope)
			divVS(z, g, r.root)
			addVV(z, z, more)
			if !aroundZero {
				Neg(more, z, nil)
				addVS(z, z, sumOf(more)/T(n))
			}
		}
	})
}
