package autodiff

import (
	"fmt"
	"slices"

	"github.com/isobit-ml/isobit/tensor"
)

// The rules of operations that move elements.

func reshape(at *Attr, in []Info) ([3]Info, error) {
	n, shape, rest := tensor.NumElements(in[0].Shape), slices.Clone(at.Shape), slices.Index(at.Shape, -1)
	if rest >= 0 {
		shape[rest] = 1
	}
	known := tensor.NumElements(shape)
	switch {
	case known < 0:
		return fail("shape %s is not one; want extents of which at most one is -1", tensor.ShapeText(at.Shape))
	case rest >= 0 && known > 0:
		shape[rest] = n / known
		known *= shape[rest]
	case rest >= 0:
		known = -1 // any extent would do
	}
	if known != n {
		return fail("the input is %v with %d elements, which do not fit shape %s", in[0], n, tensor.ShapeText(at.Shape))
	}
	at.Shape = shape
	return one(in[0].DType, shape)
}

func permute(at *Attr, in []Info) ([3]Info, error) {
	if len(at.Axes) != len(in[0].Shape) {
		return fail("the input is %v; want as many axes, not %v", in[0], at.Axes)
	}
	at.Axes = slices.Clone(at.Axes)
	shape := make([]int64, len(at.Axes))
	for i := range at.Axes {
		if err := axisOf(&at.Axes[i], len(shape)); err != nil {
			return fail("%w", err)
		}
		if slices.Contains(at.Axes[:i], at.Axes[i]) {
			return fail("axis %d is named twice", at.Axes[i])
		}
		shape[i] = in[0].Shape[at.Axes[i]]
	}
	return one(in[0].DType, shape)
}

func expand(at *Attr, in []Info) ([3]Info, error) {
	if err := isShape(at.Shape); err != nil { // that of extents 0 and -1 has as few elements as a right one
		return fail("%w", err)
	}
	shape, err := broadcast(in[0].Shape, at.Shape)
	if err == nil && !slices.Equal(shape, at.Shape) {
		err = fmt.Errorf("shape %s does not broadcast to %s", tensor.ShapeText(in[0].Shape), tensor.ShapeText(at.Shape))
	}
	return [3]Info{{in[0].DType, shape}}, err
}

// within checks that a part begins and ends inside a tensor.
func within(at *Attr, whole, part []int64) error {
	if len(at.Starts) != len(whole) || len(at.Steps) != len(whole) || len(part) != len(whole) {
		return fmt.Errorf("has %d starts, %d steps and %d extents; want %d of each", len(at.Starts), len(at.Steps), len(part), len(whole))
	}
	for i, n := range part {
		first, step, room := int64(at.Starts[i]), uint64(at.Steps[i]), whole[i]-1-int64(at.Starts[i])
		if at.Steps[i] < 0 {
			step, room = -step, first
		}
		if n < 0 || step == 0 || n > 0 && (first < 0 || first >= whole[i] || uint64(n-1) > uint64(room)/step) {
			return fmt.Errorf("%d elements from %d in steps of %d leave axis %d of extent %d", n, first, at.Steps[i], i, whole[i])
		}
	}
	return nil
}

func slice(at *Attr, in []Info) ([3]Info, error) {
	return [3]Info{{in[0].DType, at.Shape}}, within(at, in[0].Shape, at.Shape)
}

func sliceAssign(at *Attr, in []Info) ([3]Info, error) {
	if in[0].DType != in[1].DType {
		return fail("inputs are %v and %v; want one type", in[0], in[1])
	}
	return [3]Info{in[0]}, within(at, in[0].Shape, in[1].Shape)
}

// sliceAdd is sliceAssign in place.
func sliceAdd(at *Attr, in []Info) ([3]Info, error) {
	if _, err := sliceAssign(at, in); err != nil {
		return [3]Info{}, err
	}
	return update(at, in)
}

func cat(at *Attr, in []Info) ([3]Info, error) {
	if err := axisOf(&at.Axis, len(in[0].Shape)); err != nil {
		return fail("%w", err)
	}
	shape := slices.Clone(in[0].Shape)
	for i, x := range in[1:] {
		fits := x.DType == in[0].DType && len(x.Shape) == len(shape)
		for d := 0; fits && d < len(shape); d++ {
			fits = d == at.Axis || x.Shape[d] == shape[d]
		}
		if !fits {
			return fail("input %d is %v; want %v but for axis %d", i+1, x, in[0], at.Axis)
		}
		if shape[at.Axis] += x.Shape[at.Axis]; shape[at.Axis] < 0 {
			break // the result is refused
		}
	}
	return one(in[0].DType, shape)
}

// matches checks that shapes are equal but for one axis.
func matches(x, y []int64, axis int) bool {
	return len(x) == len(y) && slices.Equal(x[:axis], y[:axis]) && slices.Equal(x[axis+1:], y[axis+1:])
}

func gather(at *Attr, in []Info) ([3]Info, error) {
	if err := isIndex(in[1]); err != nil {
		return fail("%w", err)
	}
	if err := axisOf(&at.Axis, len(in[0].Shape)); err != nil {
		return fail("%w", err)
	}
	if !matches(in[0].Shape, in[1].Shape, at.Axis) {
		return fail("indices are %v; want %v but for axis %d", in[1], in[0], at.Axis)
	}
	return one(in[0].DType, in[1].Shape)
}

func scatter(at *Attr, in []Info) ([3]Info, error) {
	if _, err := gather(at, in[:2]); err != nil {
		return fail("%w", err)
	}
	if !in[0].DType.IsFloat() || in[2].DType != in[0].DType || !slices.Equal(in[2].Shape, in[1].Shape) {
		return fail("x is %v and y %v; want floats, the latter of the indices' shape %v", in[0], in[2], in[1])
	}
	return [3]Info{in[0]}, nil
}

func selectRows(at *Attr, in []Info) ([3]Info, error) {
	if err := isIndex(in[1]); err != nil {
		return fail("%w", err)
	}
	if len(in[1].Shape) != 1 {
		return fail("indices are %v; want one dimension", in[1])
	}
	if err := axisOf(&at.Axis, len(in[0].Shape)); err != nil {
		return fail("%w", err)
	}
	shape := slices.Clone(in[0].Shape)
	shape[at.Axis] = in[1].Shape[0]
	return one(in[0].DType, shape)
}

func selectAdd(at *Attr, in []Info) ([3]Info, error) {
	part, err := selectRows(at, in[:2])
	if err != nil {
		return part, err
	}
	if !in[0].DType.IsFloat() || in[2].DType != in[0].DType || !slices.Equal(in[2].Shape, part[0].Shape) {
		return fail("y is %v; want %v, a float type", in[2], part[0])
	}
	return [3]Info{in[0]}, nil
}

func cast(at *Attr, in []Info) ([3]Info, error) {
	if !converts(in[0].DType) {
		return fail("the input is %v; want floats, whole numbers or bools (codes of 8-bit floats are dequantized)", in[0])
	}
	if !converts(at.DType) {
		return fail("the result would be %v; want floats, whole numbers or bools", at.DType)
	}
	return one(at.DType, in[0].Shape)
}

// converts reports whether a type's elements are numbers of their own.
func converts(d tensor.DType) bool {
	return computes(d) || d == tensor.S8 || d == tensor.U8 || d == tensor.Bool
}
