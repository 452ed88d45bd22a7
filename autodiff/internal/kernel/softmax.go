package kernel

import "github.com/isobit-ml/isobit/autodiff/internal/detmath"

// overRows calls row for every sequence x[o, :, i] of n elements, in place
// where inner is 1, else through a copy of the sequences.
func overRows[T Float](t Threads, cost int, z []T, xs [2][]T, outer, n, inner int, row func(z, x, y []T)) {
	if n == 0 {
		return
	}
	t.For(outer*inner, n*cost, 1, func(lo, hi int) {
		var tmp [3][]T
		if inner > 1 {
			all := make([]T, 3*n)
			tmp = [3][]T{all[:n], all[n : 2*n], all[2*n:]}
		}
		for r := lo; r < hi; r++ {
			if inner == 1 {
				var y []T
				if xs[1] != nil {
					y = xs[1][r*n : (r+1)*n]
				}
				row(z[r*n:(r+1)*n], xs[0][r*n:(r+1)*n], y)
				continue
			}
			at := r/inner*n*inner + r%inner
			for k, x := range xs {
				if x != nil {
					for i := range n {
						tmp[k][i] = x[at+i*inner]
					}
				}
			}
			row(tmp[2], tmp[0], tmp[1])
			for i := range n {
				z[at+i*inner] = tmp[2][i]
			}
		}
	})
}

// maxOf has four maxima, as each waits for the one before.
func maxOf[T Float](x []T) T {
	a, b, c, d := x[0], x[0], x[0], x[0]
	for ; len(x) >= 4; x = x[4:] {
		a, b, c, d = max(a, x[0]), max(b, x[1]), max(c, x[2]), max(d, x[3])
	}
	for _, v := range x {
		a = max(a, v)
	}
	return max(a, b, c, d)
}

// expSum writes exp(x - m), m being the largest x, and returns m and the sum.
func expSum[T Float](z, x []T) (m, sum T) {
	m = maxOf(x)
	for i, v := range x {
		z[i] = v - m
	}
	Exp(z, z, nil)
	var s Stripe[T]
	s.Add(z)
	return m, s.Sum()
}

// Softmax writes exp(x - max) / sum(exp(x - max)) along the middle dimension.
func Softmax[T Float](t Threads, z, x []T, outer, n, inner int) {
	overRows(t, 16, z, [2][]T{x}, outer, n, inner, func(z, x, _ []T) {
		_, sum := expSum(z, x)
		divVS(z, z, sum)
	})
}

// LogSoftmax writes (x - max) - log(sum(exp(x - max))) along the middle dimension.
func LogSoftmax[T Float](t Threads, z, x []T, outer, n, inner int) {
	overRows(t, 16, z, [2][]T{x}, outer, n, inner, func(z, x, _ []T) {
		m, sum := expSum(z, x)
		log := T(detmath.Log(float64(sum)))
		for i, v := range x {
			z[i] = (v - m) - log
		}
	})
}

// SoftmaxGrad writes y * (g - sum(g * y)) along the middle dimension.
func SoftmaxGrad[T Float](t Threads, z, g, y []T, outer, n, inner int) {
	overRows(t, 4, z, [2][]T{g, y}, outer, n, inner, func(z, g, y []T) {
		for i := range z {
			z[i] = g[i] * y[i]
		}
		var s Stripe[T]
		s.Add(z)
		sum := s.Sum()
		for i := range z {
			z[i] = y[i] * (g[i] - sum)
		}
	})
}

// LogSoftmaxGrad writes g - exp(y) * sum(g) along the middle dimension.
func LogSoftmaxGrad[T Float](t Threads, z, g, y []T, outer, n, inner int) {
	overRows(t, 16, z, [2][]T{g, y}, outer, n, inner, func(z, g, y []T) {
		var s Stripe[T]
		s.Add(g)
		sum := s.Sum()
		Exp(z, y, nil)
		for i := range z {
			z[i] = g[i] - T(z[i]*sum)
		}
	})
}
