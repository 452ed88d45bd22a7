package autodiff

import "fmt"

// The shape operations that tensors of every type have.

func (t Tensor[B]) reshape(shape []int) Tensor[B] {
	return t.run(OpReshape, &Attr{Shape: wide(shape)})
}

func (t Tensor[B]) permute(axes []int) Tensor[B] { return t.run(OpPermute, &Attr{Axes: axes}) }

func (t Tensor[B]) expand(shape []int) Tensor[B] {
	return t.run(OpExpand, &Attr{Shape: wide(shape)})
}

// transpose swaps two dimensions.
func (t Tensor[B]) transpose(a, b int) Tensor[B] {
	axes := make([]int, t.Rank())
	for i := range axes {
		axes[i] = i
	}
	if axisOf(&a, len(axes)) != nil || axisOf(&b, len(axes)) != nil {
		if err := t.Err(); err != nil {
			return Tensor[B]{be: t.be, err: err}
		}
		return failed(t.be, "transpose: axes %d and %d are out of range for %v", a, b, t)
	}
	axes[a], axes[b] = b, a
	return t.permute(axes)
}

// part returns the attributes that name elements lo to hi along an axis.
func (t Tensor[B]) part(axis, lo, hi, step int) (*Attr, error) {
	if err := t.Err(); err != nil {
		return nil, err
	}
	rank := t.Rank()
	if err := axisOf(&axis, rank); err != nil {
		return nil, fmt.Errorf("autodiff: slice: %w", err)
	}
	at := &Attr{Starts: make([]int, rank), Steps: make([]int, rank), Shape: wide(t.Shape())}
	for i := range at.Steps {
		at.Steps[i] = 1
	}
	n := int(at.Shape[axis])
	if lo < 0 {
		lo += n
	}
	if hi < 0 {
		hi += n
	}
	if lo < 0 || hi > n || lo > hi || step < 1 {
		return nil, fmt.Errorf("autodiff: slice: elements %d to %d in steps of %d of axis %d of %v; want 0 <= from <= to <= %d and a positive step", lo, hi, step, axis, t, n)
	}
	at.Starts[axis], at.Steps[axis], at.Shape[axis] = lo, step, 0
	if hi > lo {
		at.Shape[axis] = 1 + int64((hi-lo-1)/step)
	}
	return at, nil
}

func (t Tensor[B]) slice(axis, lo, hi, step int) Tensor[B] {
	at, err := t.part(axis, lo, hi, step)
	if err != nil {
		return Tensor[B]{be: t.be, err: err}
	}
	return t.run(OpSlice, at)
}

// flip reverses an axis.
func (t Tensor[B]) flip(axis int) Tensor[B] {
	if axisOf(&axis, t.Rank()) != nil && t.Err() == nil {
		return failed(t.be, "flip: axis %d is out of range for %v", axis, t)
	}
	at, err := t.part(axis, 0, t.extent(axis), 1)
	if err != nil {
		return Tensor[B]{be: t.be, err: err}
	}
	at.Starts[axis], at.Steps[axis] = max(0, int(at.Shape[axis])-1), -1
	return t.run(OpSlice, at)
}

// extent returns the extent of an axis, 0 where there is none.
func (t Tensor[B]) extent(axis int) int {
	if axisOf(&axis, t.Rank()) != nil {
		return 0
	}
	return int(t.v.Shape()[axis])
}

func (t Tensor[B]) unsqueeze(axis int) Tensor[B] {
	shape := t.Shape()
	if err := axisOf(&axis, len(shape)+1); err != nil && t.Err() == nil {
		return failed(t.be, "unsqueeze: %v", err)
	}
	if t.Err() == nil {
		shape = append(shape[:axis:axis], append([]int{1}, shape[axis:]...)...)
	}
	return t.reshape(shape)
}

func (t Tensor[B]) squeeze(axis int) Tensor[B] {
	if t.extent(axis) != 1 && t.Err() == nil {
		return failed(t.be, "squeeze: axis %d of %v has not extent 1", axis, t)
	}
	axisOf(&axis, t.Rank())
	shape := t.Shape()
	if t.Err() == nil {
		shape = append(shape[:axis:axis], shape[axis+1:]...)
	}
	return t.reshape(shape)
}

func catAll[B Backend](axis int, first Tensor[B], rest []Tensor[B]) Tensor[B] {
	return first.run(OpCat, &Attr{Axis: axis}, rest...)
}
