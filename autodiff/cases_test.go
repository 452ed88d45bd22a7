package autodiff

import (
	"math"
	"slices"

	"github.com/isobit-ml/isobit/tensor"
)

// testCase is an operation with inputs to differentiate it at. Every test of
// gradients ranges over the table below.
type testCase struct {
	name   string
	op     Op
	inputs []data
	// f computes something from the inputs, which are tracked and of f64. It
	// is written for a backend that it does not know.
	f func(x []Float[Backend]) Float[Backend]
	// Where a gradient is no derivative (a straight-through estimate), or the
	// point is a kink, the test gives the gradients that are wanted.
	want [][]float64
	// once says that there is no second derivative.
	once bool
	// estimate says that the gradient is no derivative: a straight-through
	// estimate, of which only the bits are compared.
	estimate bool
}

// data is an input's shape, and elements; without elements they are random.
type data struct {
	shape []int
	x     []float64
}

func noise(shape ...int) data { return data{shape: shape} }

// positive makes elements in [0.3, 2.3).
func positive(shape ...int) data {
	d := data{shape: shape, x: make([]float64, size(shape))}
	for i := range d.x {
		d.x[i] = 0.3 + math.Mod(float64(i+1)*0.6180339887498949, 1)*2
	}
	return d
}

func values(shape []int, x ...float64) data { return data{shape, x} }

func size(shape []int) int {
	n := 1
	for _, d := range shape {
		n *= d
	}
	return n
}

func ints(be Backend, x []int64, shape ...int) Int[Backend] { return Ints(be, x, shape...) }

func unaryCase(name string, op Op, in data, f func(x dyn) dyn) testCase {
	return testCase{name: name, op: op, inputs: []data{in}, f: func(x []dyn) dyn { return f(x[0]) }}
}

func binaryCase(name string, op Op, a, b data, f func(x, y dyn) dyn) testCase {
	return testCase{name: name, op: op, inputs: []data{a, b}, f: func(x []dyn) dyn { return f(x[0], x[1]) }}
}

// offTies are elements to quantize that lie halfway between no codes.
var offTies = values([]int{2, 4}, 0.31, -0.72, 1.13, 9.7, -9.4, 0.05, -1.57, 0.84)

// angles are in every quarter, far out and, 355, near a multiple of pi.
var angles = values([]int{2, 4}, 0.3, -0.7, 1.3, 2.9, -4.4, 5.6, 355, -4000)

var (
	firstCases = slices.Concat(elementCases, shapeCases, networkCases, planCases)
	cases      = slices.Concat(firstCases, lossCases, furtherCases, optionCases)
)

var elementCases = []testCase{
	binaryCase("add", OpAdd, noise(2, 3), noise(2, 3), dyn.Add),
	binaryCase("add broadcast", OpAdd, noise(2, 1, 3), noise(4, 1), dyn.Add),
	binaryCase("sub", OpSub, noise(2, 3), noise(3), dyn.Sub),
	binaryCase("mul", OpMul, noise(2, 3), noise(2, 3), dyn.Mul),
	binaryCase("mul broadcast", OpMul, noise(3, 1), noise(2, 1, 4), dyn.Mul),
	binaryCase("div", OpDiv, noise(2, 3), positive(2, 3), dyn.Div),
	binaryCase("div broadcast", OpDiv, noise(3), positive(2, 1), dyn.Div),
	binaryCase("maximum", OpMaximum, noise(2, 3), noise(2, 3), dyn.Maximum),
	binaryCase("minimum", OpMinimum, noise(2, 3), noise(3), dyn.Minimum),
	binaryCase("pow", OpPow, positive(2, 3), noise(2, 3), dyn.Pow),
	unaryCase("square of itself", OpMul, noise(2, 3), func(x dyn) dyn { return x.Mul(x) }),
	unaryCase("neg", OpNeg, noise(2, 3), dyn.Neg),
	unaryCase("abs", OpAbs, noise(2, 3), dyn.Abs),
	unaryCase("exp", OpExp, noise(2, 3), dyn.Exp),
	unaryCase("log", OpLog, positive(2, 3), dyn.Log),
	unaryCase("log1p", OpLog1p, positive(2, 3), dyn.Log1p),
	unaryCase("sqrt", OpSqrt, positive(2, 3), dyn.Sqrt),
	unaryCase("sin", OpSin, angles, dyn.Sin),
	unaryCase("cos", OpCos, angles, dyn.Cos),
	unaryCase("tanh", OpTanh, noise(2, 3), dyn.Tanh),
	unaryCase("sigmoid", OpSigmoid, noise(2, 3), dyn.Sigmoid),
	unaryCase("relu", OpRelu, noise(2, 3), dyn.Relu),
	unaryCase("erf", OpErf, noise(2, 3), dyn.Erf),
	unaryCase("gelu", OpGelu, noise(2, 3), dyn.Gelu),
	unaryCase("softplus", OpSoftplus, values([]int{2, 3}, -1.3, 0, 0.4, 30, -30, 1.7), dyn.Softplus),
	unaryCase("pow_scalar 2", OpPowScalar, noise(2, 3), func(x dyn) dyn { return x.PowScalar(2) }),
	unaryCase("pow_scalar 3", OpPowScalar, noise(2, 3), func(x dyn) dyn { return x.PowScalar(3) }),
	unaryCase("pow_scalar -1.5", OpPowScalar, positive(2, 3), func(x dyn) dyn { return x.PowScalar(-1.5) }),
	unaryCase("recip", OpDiv, positive(2, 3), dyn.Recip),
	unaryCase("clamp", OpClamp, noise(2, 5), func(x dyn) dyn { return x.Clamp(-0.7, 0.8) }),
	unaryCase("scalars", OpAdd, noise(2, 3), func(x dyn) dyn { return x.AddScalar(2).MulScalar(3).SubScalar(1).DivScalar(7) }),
	{name: "where", op: OpWhere, inputs: []data{noise(2, 3), noise(3)}, f: func(x []dyn) dyn {
		return Where(Bools(x[0].be, []bool{true, false, true, false, false, true}, 2, 3), x[0], x[1])
	}},
	// Kinks: the conventions that the documentation gives.
	{name: "relu at 0", op: OpRelu, inputs: []data{values([]int{3}, -1, 0, 2)}, want: [][]float64{{0, 0, 1}}, f: func(x []dyn) dyn { return x[0].Relu() }},
	{name: "abs at 0", op: OpAbs, inputs: []data{values([]int{3}, -1, 0, 2)}, want: [][]float64{{-1, 0, 1}}, f: func(x []dyn) dyn { return x[0].Abs() }},
	{name: "clamp at its bounds", op: OpClamp, inputs: []data{values([]int{4}, -1, 0.5, 1, 2)}, want: [][]float64{{1, 1, 1, 0}}, f: func(x []dyn) dyn { return x[0].Clamp(-1, 1) }},
	{name: "maximum of equals", op: OpMaximum, inputs: []data{values([]int{2}, 1, 2), values([]int{2}, 1, 3)}, want: [][]float64{{1, 0}, {0, 1}}, f: func(x []dyn) dyn { return x[0].Maximum(x[1]) }},
	{name: "minimum of equals", op: OpMinimum, inputs: []data{values([]int{2}, 1, 2), values([]int{2}, 1, 3)}, want: [][]float64{{1, 1}, {0, 0}}, f: func(x []dyn) dyn { return x[0].Minimum(x[1]) }},
	{name: "max of equals", op: OpMax, inputs: []data{values([]int{2, 3}, 5, 5, 1, 2, 7, 7)}, want: [][]float64{{1, 0, 0, 0, 1, 0}}, f: func(x []dyn) dyn { m, _ := x[0].Max(1); return m }},
	{name: "pow at 0", op: OpPow, inputs: []data{values([]int{4}, 0, 0, 0, 2), values([]int{4}, 0, 1, 2, 0)},
		want: [][]float64{{0, 1, 0, 0}, {0, 0, 0, math.Ln2}}, f: func(x []dyn) dyn { return x[0].Pow(x[1]) }},
	{name: "pow_scalar 0", op: OpPowScalar, inputs: []data{values([]int{2}, 0, 3)}, want: [][]float64{{0, 0}}, f: func(x []dyn) dyn { return x[0].PowScalar(0) }},
	{name: "sign", op: OpSign, inputs: []data{noise(3)}, want: [][]float64{{0, 0, 0}}, f: func(x []dyn) dyn { return x[0].Sign() }},
	{name: "floor", op: OpFloor, inputs: []data{noise(3)}, want: [][]float64{{0, 0, 0}}, f: func(x []dyn) dyn { return x[0].Floor() }},
	{name: "ceil", op: OpCeil, inputs: []data{noise(3)}, want: [][]float64{{0, 0, 0}}, f: func(x []dyn) dyn { return x[0].Ceil() }},
	{name: "round", op: OpRound, inputs: []data{noise(3)}, want: [][]float64{{0, 0, 0}}, f: func(x []dyn) dyn { return x[0].Round() }},
}

var shapeCases = []testCase{
	unaryCase("softmax", OpSoftmax, noise(2, 3), func(x dyn) dyn { return x.Softmax(1) }),
	unaryCase("softmax, inner axis", OpSoftmax, noise(3, 2, 2), func(x dyn) dyn { return x.Softmax(0) }),
	unaryCase("log_softmax", OpLogSoftmax, noise(2, 3), func(x dyn) dyn { return x.LogSoftmax(-1) }),
	unaryCase("log_softmax, inner axis", OpLogSoftmax, noise(3, 2), func(x dyn) dyn { return x.LogSoftmax(0) }),
	{name: "prod", op: OpProd, inputs: []data{noise(2, 4)}, f: func(x []dyn) dyn { return x[0].Prod(1) }},
	unaryCase("prod around zeros", OpProd, values([]int{2, 3}, 2, 0, 3, 0, 0, 4), func(x dyn) dyn { return x.Prod(1) }),
	unaryCase("prod, inner axis", OpProd, noise(3, 2, 2), func(x dyn) dyn { return x.Prod(0) }),
	{name: "prod with zeros", op: OpProd, inputs: []data{values([]int{2, 3}, 2, 0, 3, 0, 0, 4)}, once: true,
		want: [][]float64{{0, 6, 0, 0, 0, 0}}, f: func(x []dyn) dyn { return x[0].Prod(1) }},
	unaryCase("max", OpMax, noise(3, 4, 2), func(x dyn) dyn { m, _ := x.Max(1); return m }),
	unaryCase("max of all", OpMax, noise(3, 4), dyn.MaxAll),
	unaryCase("min", OpMin, noise(3, 4), func(x dyn) dyn { m, _ := x.Min(0); return m }),
	unaryCase("cumsum", OpCumSum, noise(2, 4, 2), func(x dyn) dyn { return x.CumSum(1) }),
	unaryCase("sort", OpSort, noise(2, 5), func(x dyn) dyn { s, _ := x.Sort(1); return s }),
	unaryCase("sort descending", OpSort, noise(5, 2), func(x dyn) dyn { s, _ := x.SortDescending(0); return s }),
	unaryCase("sum", OpSum, noise(2, 3, 2), func(x dyn) dyn { return x.Sum(1) }),
	unaryCase("sum of all", OpSum, noise(2, 3), func(x dyn) dyn { return x.Sum() }),
	unaryCase("sum of two axes", OpSum, noise(2, 3, 2, 2), func(x dyn) dyn { return x.SumKeep(0, 2) }),
	unaryCase("sum of others", OpSum, noise(2, 3, 2, 2), func(x dyn) dyn { return x.Sum(1, -1) }),
	unaryCase("mean", OpMean, noise(2, 3), func(x dyn) dyn { return x.MeanKeep(0) }),
	unaryCase("reshape", OpReshape, noise(2, 3), func(x dyn) dyn { return x.Reshape(3, -1) }),
	unaryCase("permute", OpPermute, noise(2, 3, 4), func(x dyn) dyn { return x.Permute(2, 0, 1) }),
	unaryCase("expand", OpExpand, noise(3, 1), func(x dyn) dyn { return x.Expand(2, 3, 4) }),
	unaryCase("slice", OpSlice, noise(4, 3), func(x dyn) dyn { return x.Slice(0, 1, 3) }),
	unaryCase("slice with steps", OpSlice, noise(2, 7), func(x dyn) dyn { return x.SliceStep(1, 1, 7, 2) }),
	unaryCase("flip", OpSlice, noise(2, 4), func(x dyn) dyn { return x.Flip(1) }),
	binaryCase("slice_assign", OpSliceAssign, noise(4, 3), noise(2, 3), func(x, y dyn) dyn { return x.SliceAssign(0, 1, y) }),
	unaryCase("chunk", OpSlice, noise(2, 6), func(x dyn) dyn { p := x.Chunk(1, 3); return p[0].Mul(p[2]).Sub(p[1]) }),
	{name: "cat", op: OpCat, inputs: []data{noise(2, 1), noise(2, 3), noise(2, 2)}, f: func(x []dyn) dyn { return Cat(1, x[0], x[1], x[2]) }},
	binaryCase("stack", OpCat, noise(2, 3), noise(2, 3), func(x, y dyn) dyn { return Stack(1, x, y) }),
	unaryCase("gather", OpGather, noise(3, 4), func(x dyn) dyn {
		return x.Gather(1, ints(x.be, []int64{0, 3, 3, 1, 1, 1}, 3, 2))
	}),
	binaryCase("scatter_add", OpScatterAdd, noise(3, 4), noise(3, 2), func(x, y dyn) dyn {
		return x.ScatterAdd(1, ints(x.be, []int64{0, 3, 3, 3, 1, 2}, 3, 2), y)
	}),
	unaryCase("select", OpSelect, noise(4, 3), func(x dyn) dyn { return x.Select(0, ints(x.be, []int64{2, 0, 2})) }),
	binaryCase("select_add", OpSelectAdd, noise(3, 4), noise(3, 3), func(x, y dyn) dyn {
		return x.SelectAdd(1, ints(x.be, []int64{2, 0, 2}), y)
	}),
	{name: "cast", op: OpCast, inputs: []data{values([]int{3}, 0.5, -0.25, 3)}, want: [][]float64{{1, 1, 1}},
		f: func(x []dyn) dyn { return x[0].Cast(tensor.F32).Cast(tensor.F64) }},
}

var networkCases = []testCase{
	binaryCase("matmul", OpMatMul, noise(2, 3), noise(3, 4), dyn.MatMul),
	binaryCase("matmul transposed", OpMatMul, noise(3, 2), noise(4, 3), func(x, y dyn) dyn { return x.matmul(y, transposed, transposed) }),
	binaryCase("matmul, left transposed", OpMatMul, noise(3, 2), noise(3, 4), func(x, y dyn) dyn { return x.matmul(y, transposed, asIs) }),
	binaryCase("matmul, right transposed", OpMatMul, noise(2, 3), noise(4, 3), func(x, y dyn) dyn { return x.matmul(y, asIs, transposed) }),
	binaryCase("matmul of batches", OpMatMul, noise(2, 2, 3), noise(2, 3, 2), dyn.MatMul),
	binaryCase("matmul, batch and matrix", OpMatMul, noise(2, 2, 3), noise(3, 2), dyn.MatMul),
	binaryCase("matmul, matrix and batch", OpMatMul, noise(2, 3), noise(2, 1, 3, 2), dyn.MatMul),
	{name: "linear", op: OpLinear, inputs: []data{noise(2, 2, 3), noise(4, 3), noise(4)}, f: func(x []dyn) dyn { return x[0].Linear(x[1], x[2]) }},
	binaryCase("linear without bias", OpLinear, noise(2, 3), noise(4, 3), func(x, y dyn) dyn { return x.Linear(y, dyn{}) }),
	{name: "conv2d", op: OpConv2d, inputs: []data{noise(2, 2, 5, 4), noise(3, 2, 3, 2), noise(3)}, f: func(x []dyn) dyn {
		return x[0].Conv2d(x[1], x[2], Window{Pad: [2]int{1, 0}})
	}},
	binaryCase("conv2d, strides and dilation", OpConv2d, noise(1, 2, 7, 6), noise(2, 2, 2, 3), func(x, y dyn) dyn {
		return x.Conv2d(y, dyn{}, Window{Stride: [2]int{2, 3}, Dilation: [2]int{2, 1}, Pad: [2]int{1, 2}})
	}),
	binaryCase("conv2d in groups", OpConv2d, noise(1, 4, 3, 3), noise(2, 2, 2, 2), func(x, y dyn) dyn {
		return x.Conv2d(y, dyn{}, Window{Groups: 2})
	}),
	unaryCase("max_pool2d", OpMaxPool2d, noise(2, 1, 4, 6), func(x dyn) dyn { return x.MaxPool2d(Window{Kernel: [2]int{2, 2}}) }),
	unaryCase("max_pool2d, overlapping", OpMaxPool2d, noise(1, 2, 5, 5), func(x dyn) dyn {
		return x.MaxPool2d(Window{Kernel: [2]int{3, 3}, Stride: [2]int{2, 2}, Pad: [2]int{1, 1}})
	}),
	unaryCase("avg_pool2d", OpAvgPool2d, noise(2, 1, 4, 4), func(x dyn) dyn { return x.AvgPool2d(Window{Kernel: [2]int{2, 2}}) }),
	unaryCase("avg_pool2d with padding", OpAvgPool2d, noise(1, 1, 5, 4), func(x dyn) dyn {
		return x.AvgPool2d(Window{Kernel: [2]int{3, 2}, Stride: [2]int{2, 1}, Pad: [2]int{1, 1}, NoPad: true})
	}),
	unaryCase("cross_entropy", OpCrossEntropy, noise(3, 4), func(x dyn) dyn { return x.CrossEntropy(ints(x.be, []int64{2, 0, 3}), 0) }),
	unaryCase("cross_entropy, smoothed", OpCrossEntropy, noise(3, 4), func(x dyn) dyn { return x.CrossEntropy(ints(x.be, []int64{2, 0, 3}), 0.1) }),
	binaryCase("mse", OpMean, noise(2, 3), noise(2, 3), func(x, y dyn) dyn { return x.MSE(y) }),
	{name: "layer_norm", op: OpNormalize, inputs: []data{noise(2, 4), noise(4), noise(4)}, f: func(x []dyn) dyn { return x[0].LayerNorm(x[1], x[2], 1e-5) }},
	{name: "group_norm", op: OpNormalize, inputs: []data{noise(2, 4, 3), noise(4), noise(4)}, f: func(x []dyn) dyn { return x[0].GroupNorm(2, x[1], x[2], 1e-5) }},
	{name: "batch_norm, to train", op: OpNormalize, inputs: []data{noise(3, 2, 2), noise(2), noise(2)}, f: func(x []dyn) dyn {
		return x[0].BatchNorm(BatchNorm[Backend]{Weight: x[1], Bias: x[2]}, true, 0.1, 1e-5)
	}},
	{name: "batch_norm, to serve", op: OpMul, inputs: []data{noise(2, 3), noise(3), noise(3), noise(3), positive(3)}, f: func(x []dyn) dyn {
		return x[0].BatchNorm(BatchNorm[Backend]{x[1], x[2], x[3], x[4]}, false, 0.1, 1e-5)
	}},
	{name: "lstm", op: OpLinear, inputs: []data{noise(3, 2, 2), noise(8, 2), noise(8, 2), noise(8), noise(2, 2), noise(2, 2)}, f: func(x []dyn) dyn {
		y, h, c := x[0].LSTM(Recurrent[Backend]{InWeight: x[1], HiddenWeight: x[2], HiddenBias: x[3]}, x[4], x[5])
		return Cat(0, y, h.Add(c).Unsqueeze(0))
	}},
	unaryCase("lstm_gates", OpLSTMGates, noise(2, 8), func(x dyn) dyn { return dyn{x.run(OpLSTMGates, nil)} }),
	binaryCase("lstm_cell", OpLSTMCell, noise(2, 8), noise(2, 2), func(x, y dyn) dyn { return dyn{x.run(OpLSTMCell, nil, y.Tensor)} }),
	binaryCase("lstm_hidden", OpLSTMHidden, noise(2, 8), noise(2, 2), func(x, y dyn) dyn { return dyn{x.run(OpLSTMHidden, nil, y.Tensor)} }),
	{name: "gru", op: OpLinear, inputs: []data{noise(3, 2), noise(6, 2), noise(6, 2), noise(6), noise(6), noise(2)}, f: func(x []dyn) dyn {
		y, h := x[0].GRU(Recurrent[Backend]{x[1], x[2], x[3], x[4]}, x[5])
		return Cat(0, y, h.Unsqueeze(0))
	}},
	unaryCase("silu", OpSigmoid, noise(2, 3), dyn.Silu),
	unaryCase("dropout", OpWhere, noise(2, 5), func(x dyn) dyn { return x.Dropout(0.4, 7) }),
	unaryCase("interpolate", OpSelect, noise(1, 2, 3, 2), func(x dyn) dyn { return x.Interpolate(5, 4, SampleMode{}) }),
	unaryCase("interpolate, corners", OpSelect, noise(1, 1, 3, 4), func(x dyn) dyn { return x.Interpolate(5, 2, SampleMode{AlignCorners: true}) }),
	unaryCase("interpolate, nearest", OpSelect, noise(1, 1, 3, 4), func(x dyn) dyn { return x.Interpolate(5, 3, SampleMode{Mode: "nearest"}) }),
	{name: "attention", op: OpSoftmax, inputs: []data{noise(2, 3, 4), noise(12, 4), noise(4, 4)}, f: func(x []dyn) dyn {
		return x[0].MultiheadAttention(2, Attention[Backend]{InWeight: x[1], OutWeight: x[2]}, CausalMask(x[0].be, 3))
	}},
	binaryCase("bce_with_logits", OpBCEWithLogits, values([]int{2, 3}, -1.3, 0, 0.4, 3, -3, 1.7), positive(2, 3), func(x, y dyn) dyn { return x.BCEWithLogits(y) }),
	{name: "conv_transpose2d", op: OpConv2dDX, inputs: []data{noise(2, 4, 3, 2), noise(4, 2, 3, 2), noise(4)}, f: func(x []dyn) dyn {
		return x[0].ConvTranspose2d(x[1], x[2], Window{Stride: [2]int{2, 1}, Pad: [2]int{1, 0}, OutputPad: [2]int{1, 0}, Groups: 2})
	}},
	binaryCase("rms_norm", OpNormalize, noise(2, 4), noise(4), func(x, y dyn) dyn { return x.RMSNorm(y, 1e-5) }),
}

var planCases = []testCase{
	unaryCase("embedding", OpEmbedding, noise(4, 3), func(x dyn) dyn { return x.Embedding(ints(x.be, []int64{2, 0, 2, 3}, 2, 2)) }),
	{name: "grid_sample", op: OpGridSample, inputs: []data{noise(1, 2, 4, 3), values([]int{1, 2, 2, 2}, 0.13, -0.41, -0.71, 0.22, 0.61, 0.35, -0.27, -0.88)},
		f: func(x []dyn) dyn { return x[0].GridSample(x[1], SampleMode{}) }},
	{name: "grid_sample, border and corners", op: OpGridSample, inputs: []data{noise(1, 1, 3, 3), values([]int{1, 1, 3, 2}, 0.13, -0.41, -1.71, 0.22, 0.61, 1.35)},
		f: func(x []dyn) dyn { return x[0].GridSample(x[1], SampleMode{Padding: "border", AlignCorners: true}) }},
	{name: "grid_sample, bicubic", op: OpGridSample, inputs: []data{noise(1, 2, 4, 3), values([]int{1, 2, 2, 2}, 0.13, -0.41, -0.71, 0.22, 0.61, 0.35, -0.27, -0.88)},
		f: func(x []dyn) dyn { return x[0].GridSample(x[1], SampleMode{Mode: "bicubic"}) }},
	{name: "grid_sample, bicubic volume", op: OpGridSample, inputs: []data{noise(1, 1, 3, 4, 3), values([]int{1, 1, 1, 2, 3}, 0.13, -0.41, -0.27, 0.22, 0.61, -0.88)},
		f: func(x []dyn) dyn { return x[0].GridSample(x[1], SampleMode{Mode: "bicubic", Padding: "border"}) }},
	unaryCase("grid_sample, of a grid only", OpGridSample, values([]int{1, 1, 2, 2}, 0.13, -0.41, -0.71, 0.22), func(x dyn) dyn {
		image := values([]int{1, 1, 2, 3}, 0.9, -0.4, 1.3, -1.1, 0.2, 0.7)
		return Float[Backend]{fromSlice(x.be, image.x, image.shape)}.GridSample(x, SampleMode{Padding: "reflection"})
	}),
	unaryCase("affine_grid", OpAffineGrid, noise(2, 2, 3), func(x dyn) dyn { return x.AffineGrid(false, 2, 1, 3, 2) }),
	{name: "fake_quantize", op: OpFakeQuantize, once: true, inputs: []data{offTies}, want: [][]float64{{1, 1, 1, 0, 0, 1, 1, 1}},
		f: func(x []dyn) dyn {
			return x[0].FakeQuantize(dyn{fill[Backend](x[0].be, tensor.F64, 0.1, []int64{})}, PerTensor(-64, 63))
		}},
	{name: "quantize and dequantize", op: OpQuantize, once: true, inputs: []data{offTies}, want: [][]float64{{1, 1, 1, 0, 0, 1, 1, 1}},
		f: func(x []dyn) dyn {
			scale := dyn{fill[Backend](x[0].be, tensor.F64, 0.125, []int64{})}
			return x[0].Quantize(scale, PerTensor(-64, 63)).Dequantize(tensor.F64)
		}},
	{name: "quantize to float codes", op: OpQuantize, inputs: []data{offTies}, want: [][]float64{{8, 8, 8, 0, 0, 8, 8, 8}},
		f: func(x []dyn) dyn {
			s := PerTensor(-64, 63)
			s.Storage = tensor.F64
			scale := dyn{fill[Backend](x[0].be, tensor.F64, 0.125, []int64{})}
			return dyn{x[0].Quantize(scale, s).Codes}
		}},
	{name: "dequantize", op: OpDequantize, once: true, inputs: []data{positive(2)}, f: func(x []dyn) dyn {
		codes := Float[Backend]{fromSlice(x[0].be, []float64{1, -3, 5, 2, 0, 7}, []int{2, 3})}
		return Quantized[Backend]{codes.Tensor, x[0], Tensor[Backend]{}, PerChannel(0, -8, 7)}.Dequantize(tensor.F64)
	}},
	{name: "fake_quantize per channel, scale", op: OpFakeQuantize, once: true, inputs: []data{values([]int{2}, 0.1, 0.2)},
		// The gradients of learned step sizes: the sums over a row of r - x/s
		// inside and of the bound outside.
		want: [][]float64{{-0.1 + 0.2 - 0.3 + 63, -0.25 - 0.15 - 0.2}},
		f: func(x []dyn) dyn {
			return Float[Backend]{fromSlice(x[0].be, offTies.x, offTies.shape)}.FakeQuantize(x[0], PerChannel(0, -64, 63))
		}},
	{name: "quantized_linear", op: OpQuantizedLinear, estimate: true, inputs: []data{noise(3, 5), noise(4, 5), noise(4)}, f: func(x []dyn) dyn {
		return x[0].QuantizedLinear(x[1], x[2])
	}},
}
