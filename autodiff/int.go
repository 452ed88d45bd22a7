package autodiff

import (
	"fmt"

	"github.com/isobit-ml/isobit/tensor"
)

// Int is a tensor of i32 or i64 on backend B: indices, labels, counts. It
// carries no gradient. Arithmetic wraps around; a division by 0 is an error.
type Int[B Backend] struct{ Tensor[B] }

// Ints copies a slice to a tensor; without a shape, of one dimension.
func Ints[B Backend, T int32 | int64](be B, data []T, shape ...int) Int[B] {
	return Int[B]{fromSlice(be, data, shape)}
}

// IntView copies an i32 or i64 tensor from host memory.
func IntView[B Backend](be B, v tensor.View) Int[B] {
	if v.DType != tensor.I32 && v.DType != tensor.I64 {
		return Int[B]{failed(be, "the view is %v; want i32 or i64", &v)}
	}
	return Int[B]{FromView(be, v)}
}

// Arange makes the i64 numbers start, start+step, ... of a length.
func Arange[B Backend](be B, start, step, length int) Int[B] {
	return Int[B]{create1(be, OpArange, &Attr{DType: tensor.I64, Shape: []int64{int64(length)}, Floats: [10]float64{float64(start), float64(step)}, Starts: []int{start}, Steps: []int{step}})}
}

// Int64s copies the elements out.
func (x Int[B]) Int64s() ([]int64, error) {
	return copied[int64](x.Tensor, x.Cast(tensor.I64).Tensor)
}

// beyond reports whether x's type does not hold v: its lower bits are enough for
// sums and products alone.
func (x Int[B]) beyond(v int64) bool { return x.DType() == tensor.I32 && v != int64(int32(v)) }

// scalar makes a number that x can be computed with, of the lower bits of v.
func (x Int[B]) scalar(v int64) Int[B] {
	if x.v == nil {
		return x
	}
	wide := Int[B]{fromSlice(x.be, []int64{v}, []int{})}
	defer wide.Release()
	return wide.Cast(x.DType())
}

// number computes with a number, whose tensor goes with the operation.
func (x Int[B]) number(op Op, v int64) Tensor[B] {
	y := x.scalar(v)
	defer y.Release()
	return x.run(op, nil, y.Tensor)
}

func (x Int[B]) op2(op Op, y Int[B]) Int[B] { return Int[B]{x.run(op, nil, y.Tensor)} }

// Add returns x + y.
func (x Int[B]) Add(y Int[B]) Int[B] { return x.op2(OpAdd, y) }

// Sub returns x - y.
func (x Int[B]) Sub(y Int[B]) Int[B] { return x.op2(OpSub, y) }

// Mul returns x * y.
func (x Int[B]) Mul(y Int[B]) Int[B] { return x.op2(OpMul, y) }

// Div returns x / y, cut towards zero.
func (x Int[B]) Div(y Int[B]) Int[B] { return x.op2(OpDiv, y) }

// Maximum returns the larger of x and y.
func (x Int[B]) Maximum(y Int[B]) Int[B] { return x.op2(OpMaximum, y) }

// Minimum returns the smaller of x and y.
func (x Int[B]) Minimum(y Int[B]) Int[B] { return x.op2(OpMinimum, y) }

// AddScalar returns x + v.
func (x Int[B]) AddScalar(v int64) Int[B] { return Int[B]{x.number(OpAdd, v)} }

// MulScalar returns x * v.
func (x Int[B]) MulScalar(v int64) Int[B] { return Int[B]{x.number(OpMul, v)} }

// DivScalar returns x / v, cut towards zero.
func (x Int[B]) DivScalar(v int64) Int[B] {
	if x.beyond(v) {
		return x.Cast(tensor.I64).DivScalar(v).Cast(tensor.I32)
	}
	return Int[B]{x.number(OpDiv, v)}
}

// Neg returns -x.
func (x Int[B]) Neg() Int[B] { return Int[B]{x.run(OpNeg, nil)} }

// Equal compares element by element.
func (x Int[B]) Equal(y Int[B]) Bool[B] { return Bool[B]{x.run(OpEqual, nil, y.Tensor)} }

// EqualScalar compares with a number.
func (x Int[B]) EqualScalar(v int64) Bool[B] {
	if x.beyond(v) {
		return x.Cast(tensor.I64).EqualScalar(v)
	}
	return Bool[B]{x.number(OpEqual, v)}
}

// Less compares element by element.
func (x Int[B]) Less(y Int[B]) Bool[B] { return Bool[B]{x.run(OpLess, nil, y.Tensor)} }

// Greater compares element by element.
func (x Int[B]) Greater(y Int[B]) Bool[B] { return Bool[B]{x.run(OpGreater, nil, y.Tensor)} }

// Cast converts to i32 or i64; i32 keeps the lower bits.
func (x Int[B]) Cast(d tensor.DType) Int[B] {
	if d != tensor.I32 && d != tensor.I64 {
		return Int[B]{failed(x.be, "cast: an Int cannot become %v; want i32 or i64 (ToFloat gives a Float)", d)}
	}
	if x.DType() == d {
		return x.Reshape(x.Shape()...)
	}
	return Int[B]{x.run(OpCast, &Attr{DType: d})}
}

// ToFloat converts to f32, rounding to nearest.
func (x Int[B]) ToFloat() Float[B] { return Float[B]{x.run(OpCast, &Attr{DType: tensor.F32})} }

// OneHot returns f32 rows of n classes with a 1 at the index. An index that is
// no class is an error.
func (x Int[B]) OneHot(n int) Float[B] {
	if n < 0 && x.Err() == nil {
		return Float[B]{failed(x.be, "one_hot: n is %d; want at least 0 classes", n)}
	}
	indices, err := x.Int64s()
	for i, class := range indices {
		if class < 0 || class >= int64(n) {
			err = fmt.Errorf("autodiff: one_hot: %w", notAnIndex(i, class, n))
			break
		}
	}
	if err != nil {
		return Float[B]{Tensor[B]{be: x.be, err: err}}
	}
	if len(indices) == 0 { // of any number of classes
		return Zeros(x.be, append(x.Shape(), n)...)
	}
	all := Arange(x.be, 0, 1, n)
	defer all.Release()
	classes := all.Cast(x.DType())
	defer classes.Release()
	rows := x.Unsqueeze(x.Rank())
	defer rows.Release()
	hot := rows.Equal(classes)
	defer hot.Release()
	return hot.ToFloat()
}

// Reshape gives the elements another shape; one extent may be -1.
func (x Int[B]) Reshape(shape ...int) Int[B] { return Int[B]{x.reshape(shape)} }

// Permute reorders the dimensions.
func (x Int[B]) Permute(axes ...int) Int[B] { return Int[B]{x.permute(axes)} }

// Expand repeats extents of 1.
func (x Int[B]) Expand(shape ...int) Int[B] { return Int[B]{x.expand(shape)} }

// Squeeze removes a dimension of extent 1.
func (x Int[B]) Squeeze(axis int) Int[B] { return Int[B]{x.squeeze(axis)} }

// Unsqueeze inserts a dimension of extent 1.
func (x Int[B]) Unsqueeze(axis int) Int[B] { return Int[B]{x.unsqueeze(axis)} }

// Slice takes elements lo to hi along an axis.
func (x Int[B]) Slice(axis, lo, hi int) Int[B] { return Int[B]{x.slice(axis, lo, hi, 1)} }

// Flip reverses an axis.
func (x Int[B]) Flip(axis int) Int[B] { return Int[B]{x.flip(axis)} }

// Gather picks elements along an axis; see Float.Gather.
func (x Int[B]) Gather(axis int, indices Int[B]) Int[B] {
	return Int[B]{x.run(OpGather, &Attr{Axis: axis}, indices.Tensor)}
}

// Select picks whole rows along an axis.
func (x Int[B]) Select(axis int, indices Int[B]) Int[B] {
	return Int[B]{x.run(OpSelect, &Attr{Axis: axis}, indices.Tensor)}
}

// Sum adds over the axes, or over all without any.
func (x Int[B]) Sum(axes ...int) Int[B] { return Int[B]{x.run(OpSum, &Attr{Axes: orAll(axes)})} }

// Prod multiplies along an axis.
func (x Int[B]) Prod(axis int) Int[B] { return Int[B]{x.run(OpProd, &Attr{Axis: axis})} }

// CumSum returns running sums along an axis.
func (x Int[B]) CumSum(axis int) Int[B] { return Int[B]{x.run(OpCumSum, &Attr{Axis: axis})} }

// Max returns the largest elements along an axis, and where they are.
func (x Int[B]) Max(axis int) (Int[B], Int[B]) {
	out := x.runAll(OpMax, &Attr{Axis: axis})
	return Int[B]{out[0]}, Int[B]{out[1]}
}

// Min returns the smallest elements along an axis, and where they are.
func (x Int[B]) Min(axis int) (Int[B], Int[B]) {
	out := x.runAll(OpMin, &Attr{Axis: axis})
	return Int[B]{out[0]}, Int[B]{out[1]}
}

// Sort returns the elements in ascending order along an axis, and where they were.
func (x Int[B]) Sort(axis int) (Int[B], Int[B]) {
	out := x.runAll(OpSort, &Attr{Axis: axis})
	return Int[B]{out[0]}, Int[B]{out[1]}
}

// CatInts joins tensors along an axis.
func CatInts[B Backend](axis int, first Int[B], rest ...Int[B]) Int[B] {
	all := make([]Tensor[B], len(rest))
	for i, r := range rest {
		all[i] = r.Tensor
	}
	return Int[B]{catAll(axis, first.Tensor, all)}
}
