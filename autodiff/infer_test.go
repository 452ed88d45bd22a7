package autodiff

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/isobit-ml/isobit/tensor"
)

func f32Info(shape ...int64) Info { return typed(tensor.F32, shape...) }

func typed(d tensor.DType, shape ...int64) Info { return Info{d, append([]int64{}, shape...)} }

// What the loops of a backend would read or write beyond is refused before, whoever asks: the methods of Float
// never do for some of it.
func TestInferRefuses(t *testing.T) {
	f, of := f32Info, typed
	image, kernel, i64 := f(1, 4, 5, 5), f(4, 4, 3, 3), tensor.I64
	window := func(kh, kw int) *Attr { return &Attr{Window: Window{Kernel: [2]int{kh, kw}}} }
	groups := func(n int) *Attr { return &Attr{Window: Window{Groups: n}} }
	bounds := func(d tensor.DType, lo, hi float64) *Attr {
		return &Attr{DType: d, Shape: []int64{2}, Floats: [10]float64{lo, hi}}
	}
	for _, c := range []struct {
		op   Op
		at   *Attr
		in   []Info
		want string
	}{
		{OpAdd, nil, []Info{of(tensor.Bool, 2), of(tensor.Bool, 2)}, "inputs are bool[2]; want floats, i32 or i64"},
		{OpNeg, nil, []Info{of(tensor.Bool, 2)}, "the input is bool[2]; want floats, i32 or i64"},
		{OpMax, nil, []Info{of(tensor.Bool, 2)}, "the input is bool[2]; want floats, i32 or i64"},
		{OpSort, &Attr{Axis: 1}, []Info{f(2)}, "axis 1 is out of range for 1 dimensions"},
		{OpExp, nil, []Info{of(i64, 2)}, "x is i64[2]; want a float tensor"},
		{OpAnd, nil, []Info{of(tensor.Bool, 2), of(tensor.Bool, 3)}, "shapes [2] and [3] do not broadcast"},
		{OpWhere, nil, []Info{f(1), f(2), f(2)}, "the condition is f32[1]; want a bool tensor"},
		{OpWhere, nil, []Info{of(tensor.Bool, 3), f(2), f(2)}, "shapes [3] and [2] do not broadcast"},
		{OpReluGrad, nil, []Info{f(2, 3), f(3)}, "inputs are f32[2, 3] and f32[3]; want one shape"},
		{OpSoftmaxGrad, nil, []Info{f(2, 3), f(3)}, "inputs are f32[2, 3] and f32[3]; want one shape"},
		{OpSoftmaxGrad, &Attr{Axis: 1}, []Info{f(3), f(3)}, "axis 1 is out of range for 1 dimensions"},
		{OpNormalizeGrad, nil, []Info{f(2, 3), f(3)}, "want one shape"},
		{OpNormalize, bounds(0, -1, 1), []Info{f(2)}, "eps is -1; want 0 or more"},
		{OpSum, &Attr{Axes: []int{0, 1, 0}}, []Info{f(2, 3)}, "axis 0 is named twice"},
		{OpAddInPlace, nil, []Info{f(2), f(3)}, "y is f32[3]; want f32[2], as x"},
		{OpAddInPlace, nil, []Info{of(tensor.F16, 2), of(tensor.F16, 2)}, "changes f16[2]; want f32 or f64"},

		{OpUniform, bounds(tensor.F16, 65000, 66000), nil, "the bounds are 65000 and 66000; want them, and what is between them, finite in f16"},
		{OpUniform, bounds(tensor.F16, -66000, -65000), nil, "finite in f16"},
		{OpUniform, bounds(tensor.F16, -65000, 65000), nil, "finite in f16"},
		{OpFill, bounds(tensor.S8, 0, 0), nil, "makes s8; want floats, i32, i64 or bool"},

		{OpReshape, &Attr{Shape: []int64{-1, -1}}, []Info{f(2)}, "shape [-1, -1] is not one"},
		{OpReshape, &Attr{Shape: []int64{-1, 0}}, []Info{f(0)}, "the input is f32[0] with 0 elements, which do not fit shape [-1, 0]"},
		{OpExpand, &Attr{Shape: []int64{3}}, []Info{f(2, 3)}, "shape [2, 3] does not broadcast to [3]"},
		{OpCat, nil, []Info{f(2, 3), f(2, 3), f(2, 4)}, "input 2 is f32[2, 4]; want f32[2, 3] but for axis 0"},
		{OpCat, nil, []Info{f(2, 3), of(i64, 2, 3)}, "input 1 is i64[2, 3]"},
		{OpSliceAddInPlace, &Attr{Starts: []int{0}, Steps: []int{1}}, []Info{of(tensor.F16, 2), of(tensor.F16, 1)}, "changes f16[2]; want f32 or f64"},
		{OpSlice, &Attr{Shape: []int64{1}, Starts: []int{0, 0}, Steps: []int{1, 1}}, []Info{f(2, 3)}, "has 2 starts, 2 steps and 1 extents; want 2 of each"},
		{OpSelectAdd, nil, []Info{of(i64, 2), of(i64, 1), of(i64, 1)}, "y is i64[1]; want i64[1], a float type"},
		{OpSelectAdd, nil, []Info{f(2, 3), of(i64, 4), f(4, 2)}, "y is f32[4, 2]; want f32[4, 3], a float type"},
		{OpScatterAdd, nil, []Info{of(i64, 2), of(i64, 2), of(i64, 2)}, "x is i64[2] and y i64[2]; want floats"},
		{OpScatterAdd, nil, []Info{f(2), of(i64, 3), f(2)}, "want floats, the latter of the indices' shape i64[3]"},

		{OpMatMul, nil, []Info{f(3), f(3, 2)}, "inputs have 1 and 2 dimensions; want at least 2"},
		{OpMatMul, &Attr{TransB: true}, []Info{f(2, 3), f(3, 2)}, "shapes [2, 3] and [3, 2] do not fit: the inner extents are 3 and 2"},
		{OpLinear, nil, []Info{f(2, 3), f(4, 2), {}}, "x is f32[2, 3] and the weight f32[4, 2]; want [..., k] and [n, k]"},
		{OpLinear, nil, []Info{f(2, 3), f(4, 3), f(3)}, "the bias is f32[3]; want shape [4]"},
		{OpConv2d, nil, []Info{f(4, 5, 5), kernel, {}}, "x is f32[4, 5, 5] and the weight f32[4, 4, 3, 3], in 1 groups"},
		{OpConv2d, nil, []Info{f(1, 4, 5, 5, 1), kernel, {}}, "want [n, c, h, w]"},
		{OpConv2d, nil, []Info{image, f(4, 4, 3), {}}, "want [n, c, h, w]"},
		{OpConv2d, nil, []Info{image, f(4, 4, 3, 3, 1), {}}, "want [n, c, h, w]"},
		{OpConv2d, nil, []Info{image, f(4, 4, 0, 3), {}}, "want [n, c, h, w]"},
		{OpConv2d, nil, []Info{image, f(4, 4, 3, 0), {}}, "want [n, c, h, w]"},
		{OpConv2d, groups(3), []Info{image, f(3, 1, 3, 3), {}}, "in 3 groups; want [n, c, h, w]"},
		{OpConv2d, groups(2), []Info{image, f(3, 2, 3, 3), {}}, "in 2 groups; want [n, c, h, w]"},
		{OpConv2d, groups(2), []Info{image, kernel, {}}, "in 2 groups; want [n, c, h, w]"},
		{OpConv2d, nil, []Info{image, kernel, f(3)}, "the bias is f32[3]; want shape [4]"},
		{OpConv2d, nil, []Info{f(1, 4, 5, 2), kernel, {}}, "x is f32[1, 4, 5, 2], smaller than the window"},
		{OpConv2d, nil, []Info{f(1, 4, 2, 5), kernel, {}}, "smaller than the window"},
		{OpConv2d, &Attr{Window: Window{Stride: [2]int{2, 2}, Dilation: [2]int{2, 2}}}, []Info{f(1, 1, 0, 4), f(1, 1, 1, 1), {}}, "smaller than the window"},
		{OpConv2dDX, &Attr{Shape: image.Shape}, []Info{f(1, 4, 2, 3), kernel}, "the gradient is f32[1, 4, 2, 3]; want f32[1, 4, 3, 3]"},
		{OpMaxPool2d, window(2, 2), []Info{f(5)}, "want [..., h, w], a kernel"},
		{OpMaxPool2d, window(2, 0), []Info{image}, "want [..., h, w], a kernel"},
		{OpMaxPool2d, window(0, 2), []Info{image}, "want [..., h, w], a kernel"},
		{OpMaxPool2d, window(maxWindow, 1), []Info{image}, "the window is "},
		{OpMaxPool2d, &Attr{Window: Window{Kernel: [2]int{3, 3}, Pad: [2]int{0, 2}}}, []Info{image}, "padding of at most half the kernel"},
		{OpMaxPool2d, &Attr{Window: Window{Kernel: [2]int{3, 3}, Pad: [2]int{2, 0}}}, []Info{image}, "padding of at most half the kernel"},
		{OpMaxPool2d, &Attr{Window: Window{Kernel: [2]int{1, 1}, Dilation: [2]int{1, 2}}}, []Info{image}, "no dilation"},
		{OpMaxPool2d, window(3, 3), []Info{f(5, 2)}, "x is f32[5, 2], smaller than the window [3, 3]"},
		{OpMaxPool2d, window(3, 3), []Info{f(2, 5)}, "smaller than the window"},
		{OpMaxPool2d, &Attr{Window: Window{Kernel: [2]int{2, 2}, Pad: [2]int{1, 1}}}, []Info{f(0, 5)}, "smaller than the window"},
		{OpMaxPool2d, &Attr{Window: Window{Kernel: [2]int{2, 2}, Pad: [2]int{1, 1}}}, []Info{f(5, 0)}, "smaller than the window"},
		{OpPoolTake, nil, []Info{f(5), of(tensor.I32, 2)}, "planes of [5] and [2] do not fit"},
		{OpPoolTake, nil, []Info{f(2, 5, 5), of(tensor.I32, 2, 2)}, "planes of [2, 5, 5] and [2, 2] do not fit"},
		{OpPoolTake, nil, []Info{f(2, 5, 5), of(tensor.I32, 3, 2, 2)}, "planes of [2, 5, 5] and [3, 2, 2] do not fit"},
		{OpPoolTake, nil, []Info{f(2, 5, 5), of(i64, 2, 2, 2)}, "positions are i64[2, 2, 2]; want i32[2, 2, 2]"},
		{OpPoolPut, &Attr{Shape: []int64{2, 5, 5}}, []Info{f(2, 2, 2), of(tensor.I32, 2, 2, 3)}, "positions are i32[2, 2, 3]; want i32[2, 2, 2]"},
		{OpAvgPoolPut, &Attr{Shape: []int64{4, 4}, Window: Window{Kernel: [2]int{2, 2}}}, []Info{f(2, 3)}, "the gradient is f32[2, 3]; want f32[2, 2]"},
		{OpCrossEntropy, nil, []Info{f(2, 3), f(2)}, "indices are f32[2]; want i32 or i64"},
		{OpCrossEntropy, nil, []Info{of(i64, 2, 3), of(i64, 2)}, "logits are i64[2, 3]"},
		{OpCrossEntropy, nil, []Info{f(2, 3, 1), of(i64, 2)}, "logits are f32[2, 3, 1]"},
		{OpCrossEntropy, nil, []Info{f(2, 3), of(i64, 3)}, "logits are f32[2, 3] and labels i64[3]"},
		{OpCrossEntropy, nil, []Info{f(0, 3), of(i64, 0)}, "n at least 1"},
		{OpCrossEntropy, bounds(0, math.NaN(), 0), []Info{f(2, 3), of(i64, 2)}, "the label smoothing is NaN; want 0 to 1"},
		{OpCrossEntropyGrad, nil, []Info{f(2, 3), of(i64, 2), f(0)}, "the gradient is f32[0]; want f32[]"},
		{OpCrossEntropyGrad, nil, []Info{f(2, 3), of(i64, 2), of(tensor.F64)}, "the gradient is f64[]; want f32[]"},

		{OpGridSample, nil, []Info{f(1, 5, 5), f(1, 2, 1)}, "the image is f32[1, 5, 5] and the grid f32[1, 2, 1]"},
		{OpGridSample, nil, []Info{image, f(1, 2, 2)}, "the grid f32[1, 2, 2]"},
		{OpGridSample, nil, []Info{image, f(1, 2, 2, 3)}, "the grid f32[1, 2, 2, 3]"},
		{OpGridSampleDX, nil, []Info{of(i64, 1), image, image}, "takes i64[1]; want a float tensor"},
		{OpEmbedding, nil, []Info{f(2), of(i64, 1)}, "the weight is f32[2]; want [v, d]"},
	} {
		_, err := c.op.Infer(c.at, c.in)
		require.ErrorContains(t, err, c.want, "%v %v", c.op, c.in)
	}
}

// Types and shapes of outputs, and what attributes say in full.
func TestInferGives(t *testing.T) {
	f, of := f32Info, typed
	scheme := func(s Scheme) *Attr { return &Attr{Scheme: &s} }
	for _, c := range []struct {
		op   Op
		at   *Attr
		in   []Info
		want [3]Info
	}{
		{OpFill, &Attr{DType: tensor.Bool, Shape: []int64{2}}, nil, [3]Info{of(tensor.Bool, 2)}},
		{OpWhere, nil, []Info{of(tensor.Bool, 2, 3), f(3), f(1)}, [3]Info{f(2, 3)}},
		{OpSum, &Attr{Axes: []int{-1, 0}, KeepDim: true}, []Info{f(2, 3, 4)}, [3]Info{f(1, 3, 1)}},
		{OpNormalize, &Attr{}, []Info{f(2, 3)}, [3]Info{f(2, 3)}}, // eps 0
		{OpDequantizeBackward, scheme(PerTensor(0, 7)), []Info{f(2), of(tensor.S8, 2), f(), of(tensor.I32)}, [3]Info{f(2), f(), {}}},
		{OpChooseQParams, scheme(Scheme{Granularity: "per_group", GroupSize: 2, Asymmetric: true}), []Info{f(3, 5)}, [3]Info{f(3, 3), of(tensor.I32, 3, 3)}},
		{OpChooseQParams, scheme(Scheme{Granularity: "per_group", GroupSize: 2}), []Info{f(3, 0)}, [3]Info{f(3, 0)}},
		{OpChooseQParams, scheme(PerChannel(-1, 0, 7)), []Info{f(3, 5)}, [3]Info{f(5)}},
		{OpPoolTake, nil, []Info{f(5, 5), of(tensor.I32, 2, 2)}, [3]Info{f(2, 2)}},
		{OpChooseQParams, scheme(Scheme{Granularity: "per_block"}), []Info{f()}, [3]Info{f()}},
	} {
		out, err := c.op.Infer(c.at, c.in)
		require.NoError(t, err, "%v %v", c.op, c.in)
		require.Equal(t, c.want, out, "%v %v", c.op, c.in)
	}
	at := &Attr{Shape: []int64{3, -1}, Axes: []int{-1, 0}}
	_, err := OpReshape.Infer(at, []Info{f(2, 3)})
	require.NoError(t, err)
	_, err = OpPermute.Infer(at, []Info{f(2, 3)})
	require.NoError(t, err)
	require.Equal(t, Attr{Shape: []int64{3, 2}, Axes: []int{1, 0}}, *at)
}

// TestCeilMode compares how many windows there are with PyTorch's numbers.
func TestCeilMode(t *testing.T) {
	for _, c := range []struct{ in, kernel, stride, pad, want int }{
		{7, 3, 2, 1, 4}, {8, 3, 2, 1, 5}, {5, 2, 2, 0, 3}, {2, 3, 2, 0, 1}, {5, 2, 3, 1, 2}, {6, 2, 4, 1, 2}, {9, 4, 5, 2, 3}, {1, 1, 3, 0, 1}, {4, 2, 5, 0, 1}, {3, 4, 1, 2, 4},
		{2, 4, 3, 0, 1},
	} {
		be := NewCPUThreads(1)
		w := Window1d{Kernel: c.kernel, Stride: c.stride, Pad: c.pad, CeilMode: true}
		require.Equal(t, []int{c.want}, Ones(be, c.in).MaxPool1d(w).Shape(), "%+v", c)
		require.Equal(t, []int{c.want}, Ones(be, c.in).AvgPool1d(w).Shape(), "%+v", c)
	}
	require.ErrorContains(t, Ones(NewCPUThreads(1), 1).MaxPool1d(Window1d{Kernel: 4, Stride: 3, CeilMode: true}).Err(), "smaller than the window [1, 4]")
}
