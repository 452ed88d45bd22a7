package autodiff

import (
	"fmt"
	"slices"

	"github.com/isobit-ml/isobit/tensor"
)

// The rules of operations along and over dimensions.

// axisOf completes an axis that counts from the end.
func axisOf(axis *int, rank int) error {
	if *axis < -rank || *axis >= rank {
		return fmt.Errorf("axis %d is out of range for %d dimensions", *axis, rank)
	}
	if *axis < 0 {
		*axis += rank
	}
	return nil
}

// removed returns the shape without an axis, or with extent 1 there.
func removed(shape []int64, axis int, keep bool) []int64 {
	if keep {
		shape = slices.Clone(shape)
		shape[axis] = 1
		return shape
	}
	return slices.Delete(slices.Clone(shape), axis, axis+1)
}

// What along makes of the axis.
const keepsAxis, reducesAxis = false, true

func along(reduces bool) infer {
	return func(at *Attr, in []Info) ([3]Info, error) {
		out, err := each(at, in)
		if err != nil {
			return out, err
		}
		if err := axisOf(&at.Axis, len(in[0].Shape)); err != nil {
			return fail("%w", err)
		}
		if reduces {
			out[0].Shape = removed(in[0].Shape, at.Axis, at.KeepDim)
		}
		return out, nil
	}
}

func pairAlong(at *Attr, in []Info) ([3]Info, error) {
	out, err := pair(at, in)
	if err == nil {
		err = axisOf(&at.Axis, len(in[0].Shape))
	}
	return out, err
}

func normalize(at *Attr, in []Info) ([3]Info, error) {
	if len(in[0].Shape) == 0 {
		return fail("x is %v; want [..., n]", in[0])
	}
	if !(at.Floats[0] >= 0) {
		return fail("eps is %g; want 0 or more", at.Floats[0])
	}
	return one(in[0].DType, in[0].Shape)
}

func normalizeGrad(at *Attr, in []Info) ([3]Info, error) {
	out, err := pair(at, in)
	if err == nil {
		_, err = normalize(at, in)
	}
	return out, err
}

func prodGrad(at *Attr, in []Info) ([3]Info, error) {
	if err := axisOf(&at.Axis, len(in[1].Shape)); err != nil {
		return fail("%w", err)
	}
	if wanted := removed(in[1].Shape, at.Axis, at.KeepDim); in[0].DType != in[1].DType || !slices.Equal(in[0].Shape, wanted) {
		return fail("the gradient is %v; want %v", in[0], Info{in[1].DType, wanted})
	}
	return [3]Info{in[1]}, nil
}

// picks is what an operation has that picks elements along an axis: their values beside their
// positions, and one of each row or all of them.
type picks struct{ values, reduces bool }

// best is the rule of operations that pick elements.
func best(p picks) infer {
	return func(at *Attr, in []Info) ([3]Info, error) {
		out, err := along(p.reduces)(at, in)
		if err != nil {
			return out, err
		}
		if in[0].Shape[at.Axis] == 0 && p.reduces {
			return fail("the input is %v: axis %d is empty", in[0], at.Axis)
		}
		positions := Info{tensor.I64, out[0].Shape}
		if !p.values {
			return [3]Info{positions}, nil
		}
		return [3]Info{out[0], positions}, nil
	}
}

func reduce(at *Attr, in []Info) ([3]Info, error) {
	out, err := each(at, in)
	if err != nil {
		return out, err
	}
	rank := len(in[0].Shape)
	if at.Axes == nil {
		at.Axes = make([]int, rank)
		for i := range at.Axes {
			at.Axes[i] = i
		}
	} else if at.Axes, err = axesOf(at.Axes, rank); err != nil {
		return fail("%w", err)
	}
	shape := []int64{}
	for i, n := range in[0].Shape {
		switch {
		case !slices.Contains(at.Axes, i):
			shape = append(shape, n)
		case at.KeepDim:
			shape = append(shape, 1)
		}
	}
	return one(in[0].DType, shape)
}

// axesOf completes axes that count from the end, and sorts them.
func axesOf(axes []int, rank int) ([]int, error) {
	axes = slices.Clone(axes)
	for i := range axes {
		if err := axisOf(&axes[i], rank); err != nil {
			return nil, err
		}
	}
	slices.Sort(axes)
	for i := 1; i < len(axes); i++ {
		if axes[i] == axes[i-1] {
			return nil, fmt.Errorf("axis %d is named twice", axes[i])
		}
	}
	return axes, nil
}
