package kernel

// Axis is a dimension of N elements that an operation works along: those before it have Outer elements
// together, those behind it Inner.
type Axis struct{ Outer, N, Inner int }

// sequences is how many there are along the axis.
func (a Axis) sequences() int { return a.Outer * a.Inner }

// start is where the sequence with a number begins, whose elements lie Inner apart.
func (a Axis) start(number int) int { return number/a.Inner*a.N*a.Inner + number%a.Inner }

// each calls row with the start of every sequence.
func (a Axis) each(t Threads, cost int, row func(at int)) {
	t.For(a.sequences(), a.N*cost, 1, func(lo, hi int) {
		for r := lo; r < hi; r++ {
			row(a.start(r))
		}
	})
}

// CumSum writes running sums along an axis, from its end where
// backwards is true.
func CumSum[T Number](t Threads, z, x []T, a Axis, backwards bool) {
	a.each(t, 1, func(at int) {
		step := a.Inner
		if backwards {
			at, step = at+(a.N-1)*step, -step
		}
		var s T
		for range a.N {
			s += x[at]
			z[at] = s
			at += step
		}
	})
}

// ProdGrad writes, for every element, g times the product of all others
// along an axis, which needs no division by a zero.
func ProdGrad[T Float](t Threads, z, g, x []T, a Axis) {
	n, step := a.N, a.Inner
	if n == 0 {
		return
	}
	a.each(t, 3, func(at int) {
		left := g[at/(n*step)*step+at%step]
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
