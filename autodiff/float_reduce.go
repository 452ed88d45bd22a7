package autodiff

// Sums start from +0 and are in the numeric contract's Stripe order.

// orAll returns axes, or nil for all, of which an empty list is one name, too.
func orAll(axes []int) []int {
	if len(axes) == 0 {
		return nil
	}
	return axes
}

// Sum adds over the axes, or over all without any, and removes them.
func (x Float[B]) Sum(axes ...int) Float[B] { return Float[B]{x.run(OpSum, &Attr{Axes: orAll(axes)})} }

// SumKeep is Sum that leaves extents of 1.
func (x Float[B]) SumKeep(axes ...int) Float[B] {
	return Float[B]{x.run(OpSum, &Attr{Axes: orAll(axes), KeepDim: true})}
}

// Mean divides the sum over the axes by the number of elements in it.
func (x Float[B]) Mean(axes ...int) Float[B] {
	return Float[B]{x.run(OpMean, &Attr{Axes: orAll(axes)})}
}

// MeanKeep is Mean that leaves extents of 1.
func (x Float[B]) MeanKeep(axes ...int) Float[B] {
	return Float[B]{x.run(OpMean, &Attr{Axes: orAll(axes), KeepDim: true})}
}

// Prod multiplies along an axis, and removes it.
func (x Float[B]) Prod(axis int) Float[B] { return Float[B]{x.run(OpProd, &Attr{Axis: axis})} }

// Max returns the largest elements along an axis, and where they are: the
// first of equals, which alone gets the gradient. The first NaN is largest.
func (x Float[B]) Max(axis int) (Float[B], Int[B]) {
	out := x.runAll(OpMax, &Attr{Axis: axis})
	return Float[B]{out[0]}, Int[B]{out[1]}
}

// Min returns the smallest elements; see Max. The first NaN is smallest.
func (x Float[B]) Min(axis int) (Float[B], Int[B]) {
	out := x.runAll(OpMin, &Attr{Axis: axis})
	return Float[B]{out[0]}, Int[B]{out[1]}
}

// MaxAll returns the largest element of all.
func (x Float[B]) MaxAll() Float[B] { return x.extreme(OpMax) }

// MinAll returns the smallest element of all.
func (x Float[B]) MinAll() Float[B] { return x.extreme(OpMin) }

func (x Float[B]) extreme(op Op) Float[B] {
	row := x.Reshape(-1)
	defer row.Release()
	out := row.runAll(op, &Attr{})
	out[1].Release() // the graph holds the positions, if it needs them
	return Float[B]{out[0]}
}

// ArgMax returns where the largest elements are: the first of equals.
func (x Float[B]) ArgMax(axis int) Int[B] { return Int[B]{x.run(OpArgMax, &Attr{Axis: axis})} }

// ArgMin returns where the smallest elements are: the first of equals.
func (x Float[B]) ArgMin(axis int) Int[B] { return Int[B]{x.run(OpArgMin, &Attr{Axis: axis})} }

// CumSum returns running sums along an axis, from left to right.
func (x Float[B]) CumSum(axis int) Float[B] { return Float[B]{x.run(OpCumSum, &Attr{Axis: axis})} }

// Sort returns the elements in ascending order along an axis, and where they
// were. Equals keep their order and NaN comes last.
func (x Float[B]) Sort(axis int) (Float[B], Int[B]) {
	out := x.runAll(OpSort, &Attr{Axis: axis})
	return Float[B]{out[0]}, Int[B]{out[1]}
}

// SortDescending is Sort from the largest down; equals keep their order.
func (x Float[B]) SortDescending(axis int) (Float[B], Int[B]) {
	out := x.runAll(OpSort, &Attr{Axis: axis, Descending: true})
	return Float[B]{out[0]}, Int[B]{out[1]}
}

// Softmax returns exp(x) / sum(exp(x)) along an axis, without overflow.
func (x Float[B]) Softmax(axis int) Float[B] { return Float[B]{x.run(OpSoftmax, &Attr{Axis: axis})} }

// LogSoftmax returns the logarithm of Softmax, without its rounding.
func (x Float[B]) LogSoftmax(axis int) Float[B] {
	return Float[B]{x.run(OpLogSoftmax, &Attr{Axis: axis})}
}
