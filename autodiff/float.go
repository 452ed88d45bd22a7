package autodiff

import "github.com/isobit-ml/isobit/tensor"

// Float is a tensor of f32, f64, f16 or bf16 on backend B. Its operations
// broadcast as usual: shapes are aligned at the right, extents of 1 repeat.
// Both inputs have one type; Cast changes it.
type Float[B Backend] struct{ Tensor[B] }

// Floats copies a slice to a tensor; without a shape, of one dimension.
func Floats[B Backend, T float32 | float64](be B, data []T, shape ...int) Float[B] {
	return Float[B]{fromSlice(be, data, shape)}
}

// Scalar makes a tensor of no dimensions, of the number's type: a constant such as 0.5 is
// of f64, float32(0.5) of f32.
func Scalar[B Backend, T float32 | float64](be B, v T) Float[B] {
	return Float[B]{fromSlice(be, []T{v}, []int{})}
}

// FloatView copies a float tensor from host memory.
func FloatView[B Backend](be B, v tensor.View) Float[B] {
	if !v.DType.IsFloat() {
		return Float[B]{failed(be, "the view is %v; want a float tensor", &v)}
	}
	return Float[B]{FromView(be, v)}
}

// Full makes an f32 tensor of equal elements.
func Full[B Backend](be B, v float64, shape ...int) Float[B] {
	return Float[B]{fill(be, tensor.F32, v, wide(shape))}
}

// Zeros makes an f32 tensor of zeros.
func Zeros[B Backend](be B, shape ...int) Float[B] { return Full(be, 0, shape...) }

// Ones makes an f32 tensor of ones.
func Ones[B Backend](be B, shape ...int) Float[B] { return Full(be, 1, shape...) }

func fill[B Backend](be B, d tensor.DType, v float64, shape []int64) Tensor[B] {
	return create1(be, OpFill, &Attr{DType: d, Shape: shape, Floats: [10]float64{v}})
}

// Uniform makes random f32 numbers in [lo, hi). A seed names the same numbers
// on every machine; use another one for every tensor.
func Uniform[B Backend](be B, seed uint64, lo, hi float64, shape ...int) Float[B] {
	return Float[B]{create1(be, OpUniform, &Attr{DType: tensor.F32, Shape: wide(shape), Seed: seed, Floats: [10]float64{lo, hi}})}
}

// Normal makes normally distributed f32 numbers; see Uniform for the seed.
func Normal[B Backend](be B, seed uint64, mean, std float64, shape ...int) Float[B] {
	return Float[B]{create1(be, OpNormal, &Attr{DType: tensor.F32, Shape: wide(shape), Seed: seed, Floats: [10]float64{mean, std}})}
}

// Float64s copies the elements out, widened.
func (x Float[B]) Float64s() ([]float64, error) {
	return copied[float64](x.Tensor, x.Cast(tensor.F64).Tensor)
}

// Float32s copies the elements out, rounded to f32.
func (x Float[B]) Float32s() ([]float32, error) {
	return copied[float32](x.Tensor, x.Cast(tensor.F32).Tensor)
}

// Item returns the one element of a tensor that has one.
func (x Float[B]) Item() (float64, error) {
	if n := x.Len(); n != 1 && x.Err() == nil {
		return 0, failed(x.be, "item: the tensor is %v; want one element", x).err
	}
	v, err := x.Float64s()
	if err != nil {
		return 0, err
	}
	return v[0], nil
}

// scalar makes a number that x can be computed with.
func (x Float[B]) scalar(v float64) Tensor[B] {
	if x.v == nil {
		return x.Tensor
	}
	return fill(x.be, x.DType(), v, []int64{})
}

// number computes with a number. Its tensor goes with the operation, unless a
// graph needs it. A number that 16 bits do not hold is one of the type that they
// compute in.
func (x Float[B]) number(op Op, v float64) Float[B] {
	if d := x.DType(); !holds(d, v) {
		return x.inFloat32(Float[B]{}, Float[B]{}, func(x, _, _ Float[B]) Float[B] { return x.number(op, v) })
	}
	y := Float[B]{x.scalar(v)}
	defer y.Release()
	return x.op2(op, y)
}

// holds reports whether v is a number of a type, as far as it is one of f32's.
func holds(d tensor.DType, v float64) bool {
	near := float32(v)
	switch d {
	case tensor.F16:
		return v != v || tensor.ToF16(near).Float32() == near
	case tensor.BF16:
		return v != v || tensor.ToBF16(near).Float32() == near
	}
	return true
}

func (x Float[B]) op1(op Op) Float[B] { return Float[B]{x.run(op, nil)} }

func (x Float[B]) op2(op Op, y Float[B]) Float[B] {
	if !y.Present() {
		return Float[B]{Tensor[B]{be: x.be, err: errAbsent}}
	}
	return Float[B]{x.run(op, nil, y.Tensor)}
}

// Add returns x + y.
func (x Float[B]) Add(y Float[B]) Float[B] { return x.op2(OpAdd, y) }

// Sub returns x - y.
func (x Float[B]) Sub(y Float[B]) Float[B] { return x.op2(OpSub, y) }

// Mul returns x * y, element by element; MatMul multiplies matrices.
func (x Float[B]) Mul(y Float[B]) Float[B] { return x.op2(OpMul, y) }

// Div returns x / y.
func (x Float[B]) Div(y Float[B]) Float[B] { return x.op2(OpDiv, y) }

// Pow returns x to the power y.
func (x Float[B]) Pow(y Float[B]) Float[B] { return x.op2(OpPow, y) }

// Maximum returns the larger of x and y, and a NaN where one of them is. Of
// equals, x gets the gradient; where one is a NaN, both do, as in PyTorch.
func (x Float[B]) Maximum(y Float[B]) Float[B] { return x.op2(OpMaximum, y) }

// Minimum returns the smaller of x and y; see Maximum.
func (x Float[B]) Minimum(y Float[B]) Float[B] { return x.op2(OpMinimum, y) }

// AddScalar returns x + v.
func (x Float[B]) AddScalar(v float64) Float[B] { return x.number(OpAdd, v) }

// SubScalar returns x - v.
func (x Float[B]) SubScalar(v float64) Float[B] { return x.number(OpSub, v) }

// MulScalar returns x * v.
func (x Float[B]) MulScalar(v float64) Float[B] { return x.number(OpMul, v) }

// DivScalar returns x / v.
func (x Float[B]) DivScalar(v float64) Float[B] { return x.number(OpDiv, v) }

// PowScalar returns x to the power v. Whole powers up to 64 are products.
func (x Float[B]) PowScalar(v float64) Float[B] {
	return Float[B]{x.run(OpPowScalar, &Attr{Floats: [10]float64{v}})}
}

// Recip returns 1 / x.
func (x Float[B]) Recip() Float[B] {
	one := Float[B]{x.scalar(1)}
	defer one.Release()
	return one.Div(x)
}

// Neg returns -x.
func (x Float[B]) Neg() Float[B] { return x.op1(OpNeg) }

// Abs returns |x|; its gradient at 0 is 0.
func (x Float[B]) Abs() Float[B] { return x.op1(OpAbs) }

// Sign returns -1, 0 or 1, and NaN of a NaN; its gradient is 0.
func (x Float[B]) Sign() Float[B] { return x.op1(OpSign) }

// Exp returns e to the power x.
func (x Float[B]) Exp() Float[B] { return x.op1(OpExp) }

// Log returns the natural logarithm.
func (x Float[B]) Log() Float[B] { return x.op1(OpLog) }

// Log1p returns log(1 + x), accurate near 0.
func (x Float[B]) Log1p() Float[B] { return x.op1(OpLog1p) }

// Sqrt returns the square root.
func (x Float[B]) Sqrt() Float[B] { return x.op1(OpSqrt) }

// Sin returns the sine of x radians.
func (x Float[B]) Sin() Float[B] { return x.op1(OpSin) }

// Cos returns the cosine of x radians.
func (x Float[B]) Cos() Float[B] { return x.op1(OpCos) }

// Tanh returns the hyperbolic tangent.
func (x Float[B]) Tanh() Float[B] { return x.op1(OpTanh) }

// Sigmoid returns 1 / (1 + exp(-x)).
func (x Float[B]) Sigmoid() Float[B] { return x.op1(OpSigmoid) }

// Relu returns max(x, 0); its gradient at 0 is 0.
func (x Float[B]) Relu() Float[B] { return x.op1(OpRelu) }

// Erf returns the error function.
func (x Float[B]) Erf() Float[B] { return x.op1(OpErf) }

// Gelu returns x * (1 + erf(x/sqrt(2))) / 2, not its approximation by tanh.
func (x Float[B]) Gelu() Float[B] { return x.op1(OpGelu) }

// Softplus returns log(1 + exp(x)), without overflow.
func (x Float[B]) Softplus() Float[B] { return x.op1(OpSoftplus) }

// Floor rounds down; its gradient is 0.
func (x Float[B]) Floor() Float[B] { return x.op1(OpFloor) }

// Ceil rounds up; its gradient is 0.
func (x Float[B]) Ceil() Float[B] { return x.op1(OpCeil) }

// Round rounds to the nearest whole number, ties to even; its gradient is 0.
func (x Float[B]) Round() Float[B] { return x.op1(OpRound) }

// Clamp limits x to [lo, hi]; the gradient passes at the bounds.
func (x Float[B]) Clamp(lo, hi float64) Float[B] {
	return Float[B]{x.run(OpClamp, &Attr{Floats: [10]float64{lo, hi}})}
}

// Cast converts to another type of float, rounding to nearest, ties to even.
func (x Float[B]) Cast(d tensor.DType) Float[B] {
	if !d.IsFloat() {
		return Float[B]{failed(x.be, "cast: a Float cannot become %v; want a float type (ToInt gives an Int)", d)}
	}
	if x.DType() == d {
		return x.Reshape(x.Shape()...)
	}
	return Float[B]{x.run(OpCast, &Attr{DType: d})}
}

// ToInt converts to i64, towards zero.
func (x Float[B]) ToInt() Int[B] { return Int[B]{x.run(OpCast, &Attr{DType: tensor.I64})} }
