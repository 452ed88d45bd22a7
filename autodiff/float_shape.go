package autodiff

import (
	"cmp"

	"github.com/isobit-ml/isobit/tensor"
)

// Reshape gives the elements another shape; one extent may be -1.
func (x Float[B]) Reshape(shape ...int) Float[B] { return Float[B]{x.reshape(shape)} }

// Flatten joins all dimensions from axis on.
func (x Float[B]) Flatten(axis int) Float[B] {
	switch {
	case x.Err() != nil:
		return x
	case axisOf(&axis, x.Rank()) != nil:
		return Float[B]{failed(x.be, "flatten: axis %d is out of range for %v", axis, x)}
	}
	shape := x.v.Shape()
	return Float[B]{x.run(OpReshape, &Attr{Shape: append(shape[:axis:axis], tensor.NumElements(shape[axis:]))})}
}

// Permute reorders the dimensions: dimension i of the result is axes[i] of x.
func (x Float[B]) Permute(axes ...int) Float[B] { return Float[B]{x.permute(axes)} }

// Transpose swaps two dimensions.
func (x Float[B]) Transpose(a, b int) Float[B] { return Float[B]{x.transpose(a, b)} }

// Expand repeats extents of 1.
func (x Float[B]) Expand(shape ...int) Float[B] { return Float[B]{x.expand(shape)} }

// Squeeze removes a dimension of extent 1.
func (x Float[B]) Squeeze(axis int) Float[B] { return Float[B]{x.squeeze(axis)} }

// Unsqueeze inserts a dimension of extent 1.
func (x Float[B]) Unsqueeze(axis int) Float[B] { return Float[B]{x.unsqueeze(axis)} }

// Slice takes elements lo to hi, exclusive, along an axis; negative numbers
// count from the end.
func (x Float[B]) Slice(axis, lo, hi int) Float[B] { return Float[B]{x.slice(axis, lo, hi, 1)} }

// SliceStep is Slice that takes every step-th element.
func (x Float[B]) SliceStep(axis, lo, hi, step int) Float[B] {
	return Float[B]{x.slice(axis, lo, hi, step)}
}

// maxParts is how many tensors Chunk makes at most, and how many steps a recurrent layer takes.
const maxParts = 1 << 24

// Chunk cuts an axis into n equal parts, such as the gates of a recurrent cell.
func (x Float[B]) Chunk(axis, n int) []Float[B] {
	extent := x.extent(axis)
	if x.Err() == nil && (n < 1 || n > maxParts || extent%n != 0) {
		x = Float[B]{failed(x.be, "chunk: %d parts of axis %d of %v; want a number that its extent is a multiple of, at most %d", n, axis, x, maxParts)}
	}
	if n < 1 || n > maxParts {
		n = 1
	}
	parts := make([]Float[B], n)
	each := extent / len(parts)
	for i := range parts {
		parts[i] = x.Slice(axis, i*each, (i+1)*each)
	}
	return parts
}

// SliceAssign returns x with the part's elements at lo and on, along an axis; a negative
// lo counts from the end. All other extents are equal.
func (x Float[B]) SliceAssign(axis, lo int, part Float[B]) Float[B] {
	if err := cmp.Or(x.Err(), part.Err()); err != nil {
		return Float[B]{Tensor[B]{be: x.be, err: err}}
	}
	if err := axisOf(&axis, x.Rank()); err != nil {
		return Float[B]{failed(x.be, "slice_assign: x is %v: %w", x, err)}
	}
	if !matches(x.v.Shape(), part.v.Shape(), axis) {
		return Float[B]{failed(x.be, "slice_assign: the part is %v; want %v but for axis %d", part, x, axis)}
	}
	from, n, count := lo, x.extent(axis), part.extent(axis)
	if lo < 0 {
		from += n
	}
	if from < 0 || from > n-count {
		return Float[B]{failed(x.be, "slice_assign: elements from %d on of axis %d of %v; want at least -%d, and room for the part %v", lo, axis, x, n, part)}
	}
	at, err := x.part(axis, from, from+count, 1)
	if err != nil {
		return Float[B]{Tensor[B]{be: x.be, err: err}}
	}
	return Float[B]{x.run(OpSliceAssign, at, part.Tensor)}
}

// Flip reverses an axis.
func (x Float[B]) Flip(axis int) Float[B] { return Float[B]{x.flip(axis)} }

// Cat joins tensors along an axis.
func Cat[B Backend](axis int, first Float[B], rest ...Float[B]) Float[B] {
	all := make([]Tensor[B], len(rest))
	for i, r := range rest {
		all[i] = r.Tensor
	}
	return Float[B]{catAll(axis, first.Tensor, all)}
}

// Stack joins tensors of one shape along a new axis.
func Stack[B Backend](axis int, first Float[B], rest ...Float[B]) Float[B] {
	made := temporaries[B]{first.Unsqueeze(axis)}
	defer made.release()
	for _, r := range rest {
		made.add(r.Unsqueeze(axis))
	}
	return Cat(axis, made[0], made[1:]...)
}

// Gather picks, at every position of the indices, the element of x that the
// index there names along the axis. All other extents are equal.
func (x Float[B]) Gather(axis int, indices Int[B]) Float[B] {
	return Float[B]{x.run(OpGather, &Attr{Axis: axis}, indices.Tensor)}
}

// ScatterAdd returns x with y's elements added where Gather would pick them.
// Sums are in the order of y, whatever the number of threads.
func (x Float[B]) ScatterAdd(axis int, indices Int[B], y Float[B]) Float[B] {
	return Float[B]{x.run(OpScatterAdd, &Attr{Axis: axis}, indices.Tensor, y.Tensor)}
}

// Select picks whole rows along an axis; the indices have one dimension.
func (x Float[B]) Select(axis int, indices Int[B]) Float[B] {
	return Float[B]{x.run(OpSelect, &Attr{Axis: axis}, indices.Tensor)}
}

// SelectAdd returns x with y's rows added where Select would pick them.
func (x Float[B]) SelectAdd(axis int, indices Int[B], y Float[B]) Float[B] {
	return Float[B]{x.run(OpSelectAdd, &Attr{Axis: axis}, indices.Tensor, y.Tensor)}
}

// Where takes x where the condition holds, else y, with broadcasting.
func Where[B Backend](condition Bool[B], x, y Float[B]) Float[B] {
	return Float[B]{condition.run(OpWhere, nil, x.Tensor, y.Tensor)}
}

// MaskFill puts v where the mask holds.
func (x Float[B]) MaskFill(mask Bool[B], v float64) Float[B] {
	y := Float[B]{x.scalar(v)}
	defer y.Release()
	return Where(mask, y, x)
}

func (x Float[B]) compare(op Op, y Float[B]) Bool[B] { return Bool[B]{x.run(op, nil, y.Tensor)} }

// compareNumber is to comparisons what number is to arithmetic.
func (x Float[B]) compareNumber(op Op, v float64) Bool[B] {
	if !holds(x.DType(), v) {
		wide := x.Cast(tensor.F32)
		defer wide.Release()
		return wide.compareNumber(op, v)
	}
	y := Float[B]{x.scalar(v)}
	defer y.Release()
	return x.compare(op, y)
}

// Equal compares element by element; NaN equals nothing.
func (x Float[B]) Equal(y Float[B]) Bool[B] { return x.compare(OpEqual, y) }

// NotEqual compares element by element.
func (x Float[B]) NotEqual(y Float[B]) Bool[B] { return x.compare(OpNotEqual, y) }

// Less compares element by element.
func (x Float[B]) Less(y Float[B]) Bool[B] { return x.compare(OpLess, y) }

// LessEqual compares element by element.
func (x Float[B]) LessEqual(y Float[B]) Bool[B] { return x.compare(OpLessEqual, y) }

// Greater compares element by element.
func (x Float[B]) Greater(y Float[B]) Bool[B] { return x.compare(OpGreater, y) }

// GreaterEqual compares element by element.
func (x Float[B]) GreaterEqual(y Float[B]) Bool[B] { return x.compare(OpGreaterEqual, y) }

// EqualScalar compares with a number.
func (x Float[B]) EqualScalar(v float64) Bool[B] { return x.compareNumber(OpEqual, v) }

// NotEqualScalar compares with a number.
func (x Float[B]) NotEqualScalar(v float64) Bool[B] { return x.compareNumber(OpNotEqual, v) }

// LessScalar compares with a number.
func (x Float[B]) LessScalar(v float64) Bool[B] { return x.compareNumber(OpLess, v) }

// LessEqualScalar compares with a number.
func (x Float[B]) LessEqualScalar(v float64) Bool[B] { return x.compareNumber(OpLessEqual, v) }

// GreaterScalar compares with a number.
func (x Float[B]) GreaterScalar(v float64) Bool[B] { return x.compareNumber(OpGreater, v) }

// GreaterEqualScalar compares with a number.
func (x Float[B]) GreaterEqualScalar(v float64) Bool[B] { return x.compareNumber(OpGreaterEqual, v) }

// IsNaN tells where x is not a number.
func (x Float[B]) IsNaN() Bool[B] { return x.NotEqual(x) }
