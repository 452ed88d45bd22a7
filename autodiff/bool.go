package autodiff

import "github.com/isobit-ml/isobit/tensor"

// Bool is a tensor of truth values on backend B. It carries no gradient.
type Bool[B Backend] struct{ Tensor[B] }

// Bools copies a slice to a tensor; without a shape, of one dimension.
func Bools[B Backend](be B, data []bool, shape ...int) Bool[B] {
	return Bool[B]{fromSlice(be, data, shape)}
}

// Values copies the elements out.
func (x Bool[B]) Values() ([]bool, error) {
	v, err := x.View()
	if err != nil {
		return nil, err
	}
	return append([]bool(nil), tensor.Slice[bool](v)...), nil
}

// And holds where x and y do.
func (x Bool[B]) And(y Bool[B]) Bool[B] { return Bool[B]{x.run(OpAnd, nil, y.Tensor)} }

// Or holds where x or y does.
func (x Bool[B]) Or(y Bool[B]) Bool[B] { return Bool[B]{x.run(OpOr, nil, y.Tensor)} }

// Xor holds where one of x and y does.
func (x Bool[B]) Xor(y Bool[B]) Bool[B] { return Bool[B]{x.run(OpXor, nil, y.Tensor)} }

// Not holds where x does not.
func (x Bool[B]) Not() Bool[B] { return Bool[B]{x.run(OpNot, nil)} }

// ToFloat converts to f32: 1 where x holds, else 0.
func (x Bool[B]) ToFloat() Float[B] { return Float[B]{x.run(OpCast, &Attr{DType: tensor.F32})} }

// ToInt converts to i64: 1 where x holds, else 0.
func (x Bool[B]) ToInt() Int[B] { return Int[B]{x.run(OpCast, &Attr{DType: tensor.I64})} }

// Count returns how many elements hold.
func (x Bool[B]) Count() (int, error) {
	each := x.ToInt()
	defer each.Release()
	sum := each.Sum()
	defer sum.Release()
	n, err := sum.Int64s()
	if err != nil {
		return 0, err
	}
	return int(n[0]), nil
}

// Any holds where x does anywhere along the axis, which it removes.
func (x Bool[B]) Any(axis int) Bool[B] { return x.any("any", axis) }

// All holds where x does everywhere along the axis, which it removes.
func (x Bool[B]) All(axis int) Bool[B] {
	not := x.Not()
	defer not.Release()
	some := not.any("all", axis)
	defer some.Release()
	return some.Not()
}

func (x Bool[B]) any(name string, axis int) Bool[B] {
	if err := axisOf(&axis, x.Rank()); err != nil && x.Err() == nil {
		return Bool[B]{failed(x.be, "%s: x is %v: %w", name, x, err)}
	}
	each := x.ToInt()
	defer each.Release()
	n := each.Sum(axis)
	defer n.Release()
	return Bool[B]{n.number(OpGreater, 0)}
}

// Reshape gives the elements another shape; one extent may be -1.
func (x Bool[B]) Reshape(shape ...int) Bool[B] { return Bool[B]{x.reshape(shape)} }

// Permute reorders the dimensions.
func (x Bool[B]) Permute(axes ...int) Bool[B] { return Bool[B]{x.permute(axes)} }

// Expand repeats extents of 1.
func (x Bool[B]) Expand(shape ...int) Bool[B] { return Bool[B]{x.expand(shape)} }

// Squeeze removes a dimension of extent 1.
func (x Bool[B]) Squeeze(axis int) Bool[B] { return Bool[B]{x.squeeze(axis)} }

// Unsqueeze inserts a dimension of extent 1.
func (x Bool[B]) Unsqueeze(axis int) Bool[B] { return Bool[B]{x.unsqueeze(axis)} }

// Slice takes elements lo to hi along an axis.
func (x Bool[B]) Slice(axis, lo, hi int) Bool[B] { return Bool[B]{x.slice(axis, lo, hi, 1)} }
