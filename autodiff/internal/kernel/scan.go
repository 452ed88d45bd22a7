package kernel

// along calls row with the start and the step of every sequence x[o, :, i].
func along(t Threads, outer, n, inner, cost int, row func(at, step int)) {
	t.For(outer*inner, n*cost, 1, func(lo, hi int) {
		for r := lo; r < hi; r++ {
			row(r/inner*n*inner+r%inner, inner)
		}
	})
}

// CumSum writes running sums along the middle dimension, from its end where
// backwards is true.
func CumSum[T Number](t Threads, z, x []T, outer, n, inner int, backwards bool) {
	along(t, outer, n, inner, 1, func(at, step int) {
		if backwards {
			at, step = at+(n-1)*step, -step
		}
		var s T
		for range n {
			s += x[at]
			z[at] = s
			at += step
		}
	})
}

// ProdGrad writes, for every element, g times the product of all others
// along the middle dimension, which needs no division by a zero.
func ProdGrad[T Float](t Threads, z, g, x []T, outer, n, inner int) {
	if n == 0 {
		return
	}
	along(t, outer, n, inner, 3, func(at, step int) {
		left := g[at/(n*inner)*inner+at%inner]
		for i := range n {
			z[at+i*step] = left
			left *= x[at+i*step]
		}
		right := T(1)
		for i := n - 1; i >= 0; i-- {
			z[at+i*step] *= right
			right *= x[at+i*step]
		}
	})
}
