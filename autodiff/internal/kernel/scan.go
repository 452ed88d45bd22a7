package kernel

import (
	"cmp"
	"slices"
)

// along calls row with the start and the step of every sequence x[o, :, i].
func along(t Threads, outer, n, inner, cost int, row func(at, step int)) {
	t.For(outer*inner, n*cost, 1, func(lo, hi int) {
		for r := lo; r < hi; r++ {
			row(r/inner*n*inner+r%inner, inner)
		}
	})
}

// Best writes the largest element along the middle dimension, or the
// smallest, and its position: the first of equals, the first NaN before all.
func Best[T Number](t Threads, z []T, at []int64, x []T, outer, n, inner int, smallest bool) {
	t.For(outer*inner, 2*n, 1, func(lo, hi int) {
		for r := lo; r < hi; r++ {
			from := r/inner*n*inner + r%inner
			best, pos := x[from], 0
			for i := 1; i < n && best == best; i++ {
				v := x[from+i*inner]
				if v != v || v > best && !smallest || v < best && smallest {
					best, pos = v, i
				}
			}
			at[r] = int64(pos)
			if z != nil {
				z[r] = best
			}
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

// SumInts adds whole numbers along the middle dimension.
func SumInts[T Integer](t Threads, z, x []T, outer, n, inner int) {
	t.For(outer*inner, n, 1, func(lo, hi int) {
		for r := lo; r < hi; r++ {
			at := r/inner*n*inner + r%inner
			var s T
			for i := range n {
				s += x[at+i*inner]
			}
			z[r] = s
		}
	})
}

// Prod multiplies along the middle dimension, from left to right.
func Prod[T Number](t Threads, z, x []T, outer, n, inner int) {
	t.For(outer*inner, n, 1, func(lo, hi int) {
		for r := lo; r < hi; r++ {
			at := r/inner*n*inner + r%inner
			p := T(1)
			for i := range n {
				p *= x[at+i*inner]
			}
			z[r] = p
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

// Sort writes the elements in ascending order along the middle dimension and
// where each was: equals keep their order, NaN comes last.
func Sort[T Number](t Threads, z []T, at []int64, x []T, outer, n, inner int, descending bool) {
	t.For(outer*inner, 16*n, 1, func(lo, hi int) {
		order := make([]int, n)
		for r := lo; r < hi; r++ {
			from := r/inner*n*inner + r%inner
			for i := range order {
				order[i] = i
			}
			slices.SortStableFunc(order, func(a, b int) int {
				va, vb := x[from+a*inner], x[from+b*inner]
				// cmp.Compare puts a NaN first, and it belongs last.
				c := cmp.Compare(va, vb)
				if va != va || vb != vb {
					c = -c
				}
				if descending {
					return -c
				}
				return c
			})
			for i, o := range order {
				z[from+i*inner] = x[from+o*inner]
				at[from+i*inner] = int64(o)
			}
		}
	})
}
