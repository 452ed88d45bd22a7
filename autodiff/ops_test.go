package autodiff

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/isobit-ml/isobit/tensor"
)

type cpuFloat = Float[*CPU]

// TestValues holds operations to values that are known without computing.
func TestValues(t *testing.T) {
	be := NewCPUThreads(2)
	x := Floats(be, []float64{1, -2, 3, -4, 5, -6}, 2, 3)
	i := Ints(be, []int64{3, -1, 7, 7}, 2, 2)
	yes := Bools(be, []bool{true, false, true, false}, 2, 2)

	floats := []struct {
		name string
		got  cpuFloat
		want []float64
	}{
		{"sum", x.Sum(), []float64{-3}},
		{"sum of rows", x.Sum(1), []float64{2, -5}},
		{"sum of columns", x.Sum(0), []float64{-3, 3, -3}},
		{"mean", x.Mean(1), []float64{2. / 3, -5. / 3}},
		{"max", first(x.Max(0)), []float64{1, 5, 3}},
		{"max of all", x.MaxAll(), []float64{5}},
		{"min of all", x.MinAll(), []float64{-6}},
		{"min", first(x.Min(1)), []float64{-2, -6}},
		{"prod", x.Prod(1), []float64{-6, 120}},
		{"cumsum", x.CumSum(1), []float64{1, -1, 2, -4, 1, -5}},
		{"sort", first(x.Sort(1)), []float64{-2, 1, 3, -6, -4, 5}},
		{"relu", x.Relu(), []float64{1, 0, 3, 0, 5, 0}},
		{"clamp", x.Clamp(-3, 2), []float64{1, -2, 2, -3, 2, -3}},
		{"permute", x.Permute(1, 0), []float64{1, -4, -2, 5, 3, -6}},
		{"slice", x.Slice(1, 1, -1), []float64{-2, 5}},
		{"flip", x.Flip(1), []float64{3, -2, 1, -6, 5, -4}},
		{"cat", Cat(1, x.Slice(1, 0, 1), x.Slice(1, 2, 3)), []float64{1, 3, -4, -6}},
		{"matmul", x.MatMul(x.Transpose(0, 1)), []float64{14, -32, -32, 77}},
		{"mask", x.MaskFill(x.LessScalar(0), 9), []float64{1, 9, 3, 9, 5, 9}},
		{"round", x.MulScalar(0.5).Round(), []float64{0, -1, 2, -2, 2, -3}},
		{"softmax of equals", Zeros(be, 4).Softmax(0), []float64{.25, .25, .25, .25}},
		{"log_softmax of large", Floats(be, []float64{1000, 1000}).LogSoftmax(0), []float64{-math.Ln2, -math.Ln2}},
		{"cross_entropy of equals", Zeros(be, 2, 4).CrossEntropy(Ints(be, []int64{1, 3}), 0), []float64{float64(float32(math.Log(4)))}},
		{"one_hot", Ints(be, []int64{2, 0}).OneHot(3), []float64{0, 0, 1, 1, 0, 0}},
		{"int to float", i.ToFloat(), []float64{3, -1, 7, 7}},
		{"bool to float", yes.ToFloat(), []float64{1, 0, 1, 0}},
		{"arange", Arange(be, 2, 3, 3).ToFloat(), []float64{2, 5, 8}},
	}
	for _, c := range floats {
		got, err := c.got.Float64s()
		require.NoError(t, err, c.name)
		require.InDeltaSlice(t, c.want, got, 1e-15, c.name)
	}
	whole := []struct {
		name string
		got  Int[*CPU]
		want []int64
	}{
		{"arithmetic", i.MulScalar(2).AddScalar(1).Sub(i), []int64{4, 0, 8, 8}},
		{"division", i.Neg().DivScalar(2), []int64{-1, 0, -3, -3}},
		{"argmax", x.ArgMax(1), []int64{2, 1}},
		{"argmax of equals", i.ToFloat().ArgMax(1), []int64{0, 0}},
		{"maximum", i.Maximum(i.Neg()), []int64{3, 1, 7, 7}},
		{"minimum", i.Minimum(i.Neg()), []int64{-3, -1, -7, -7}},
		{"max", first(i.Max(0)), []int64{7, 7}},
		{"min", first(i.Min(1)), []int64{-1, 7}},
		{"where the least are", second(i.Min(1)), []int64{1, 0}},
		{"sort", first(i.Sort(1)), []int64{-1, 3, 7, 7}},
		{"where they were", second(i.Sort(1)), []int64{1, 0, 0, 1}},
		{"shape", i.Slice(0, 0, 1).Squeeze(0).Reshape(2, 1).Expand(2, 2).Permute(1, 0), []int64{3, -1, 3, -1}},
		{"sum", i.Sum(0), []int64{10, 6}},
		{"sum of all", i.Sum(), []int64{16}},
		{"cumsum", i.CumSum(0), []int64{3, -1, 10, 6}},
		{"prod", i.Prod(1), []int64{-3, 49}},
		{"gather", i.Gather(1, Ints(be, []int64{1, 0}, 2, 1)), []int64{-1, 7}},
		{"select", i.Select(0, Ints(be, []int32{1, 1, 0})), []int64{7, 7, 7, 7, 3, -1}},
		{"to int", x.MulScalar(0.6).ToInt(), []int64{0, -1, 1, -2, 3, -3}},
		{"to i32", i.Cast(tensor.I32), []int64{3, -1, 7, 7}},
		{"cat", CatInts(0, i, i.Flip(1)), []int64{3, -1, 7, 7, -1, 3, 7, 7}},
		{"not a number", Floats(be, []float64{math.NaN(), 1e30, -1e30}).ToInt(), []int64{0, math.MaxInt64, math.MinInt64}},
	}
	for _, c := range whole {
		got, err := c.got.Int64s()
		require.NoError(t, err, c.name)
		require.Equal(t, c.want, got, c.name)
	}
	truths := []struct {
		name string
		got  Bool[*CPU]
		want []bool
	}{
		{"less", x.Less(x.Neg()), []bool{false, true, false, true, false, true}},
		{"greater_equal", x.GreaterEqual(x), []bool{true, true, true, true, true, true}},
		{"logic", yes.And(yes.Not()).Or(yes.Xor(yes.Not())), []bool{true, true, true, true}},
		{"any", yes.Any(0), []bool{true, false}},
		{"all", yes.All(1), []bool{false, false}},
		{"shape", yes.Slice(0, 0, 1).Squeeze(0).Unsqueeze(1).Expand(2, 2).Permute(1, 0).Reshape(4), []bool{true, false, true, false}},
		{"equal", i.EqualScalar(7), []bool{false, false, true, true}},
		{"int less", i.Less(i.Neg()), []bool{false, true, false, false}},
		{"int greater", i.Greater(i.Neg()), []bool{true, false, true, true}},
		{"nan", Floats(be, []float64{math.NaN(), 0}).IsNaN(), []bool{true, false}},
	}
	for _, c := range truths {
		got, err := c.got.Values()
		require.NoError(t, err, c.name)
		require.Equal(t, c.want, got, c.name)
	}
	n, err := yes.Count()
	require.NoError(t, err)
	require.Equal(t, 2, n)
}

// TestHalf computes 16-bit floats in f32 and rounds once.
func TestHalf(t *testing.T) {
	be := NewCPU()
	for _, d := range []tensor.DType{tensor.F16, tensor.BF16} {
		x := Normal(be, 3, 0, 1, 5, 7).Cast(d)
		wide := x.Cast(tensor.F32)
		for name, f := range map[string]func(x cpuFloat) cpuFloat{
			"exp":    cpuFloat.Exp,
			"matmul": func(x cpuFloat) cpuFloat { return x.MatMul(x.Transpose(0, 1)) },
			"sum":    func(x cpuFloat) cpuFloat { return x.Sum(0) },
			"slice":  func(x cpuFloat) cpuFloat { return x.Slice(0, 1, 3) },
			"scalar": func(x cpuFloat) cpuFloat { return x.AddScalar(2) },
		} {
			got := f(x)
			require.NoError(t, got.Err(), name)
			require.Equal(t, d, got.DType(), name)
			a, _ := got.Float64s()
			b, _ := f(wide).Cast(d).Float64s()
			require.Equal(t, b, a, name)
		}
	}
	// f64 to f16 rounds once: 1 + 2^-11 + 2^-40 is above the tie.
	x, err := Floats(be, []float64{1 + 0x1p-11 + 0x1p-40, 1 + 0x1p-11, -1 - 0x1p-11 - 0x1p-40}).Cast(tensor.F16).Float64s()
	require.NoError(t, err)
	require.Equal(t, []float64{1 + 0x1p-10, 1, -1 - 0x1p-10}, x)
}

func TestUserErrors(t *testing.T) {
	be := NewCPU()
	x := Floats(be, []float64{1, 2, 3, 4, 5, 6}, 2, 3)
	i := Ints(be, []int64{0, 5})
	for _, c := range []struct {
		err  error
		want string
	}{
		{x.Add(Ones(be, 2, 3)).Err(), "add: inputs are f64[2, 3] and f32[2, 3]; want one type"},
		{x.Add(Floats(be, []float64{1, 2})).Err(), "add: shapes [2, 3] and [2] do not broadcast"},
		{x.Reshape(4, 2).Err(), "reshape: the input is f64[2, 3] with 6 elements, which do not fit shape [4, 2]"},
		{x.Permute(0, 0).Err(), "permute: axis 0 is named twice"},
		{x.Sum(2).Err(), "sum: axis 2 is out of range for 2 dimensions"},
		{x.Softmax(-3).Err(), "softmax: axis -3 is out of range"},
		{x.MatMul(x).Err(), "matmul: shapes [2, 3] and [2, 3] do not fit: the inner extents are 3 and 2"},
		{x.MatMul(Floats(be, []float64{1, 2, 3})).Err(), "matmul: inputs have 2 and 1 dimensions; want at least 2"},
		{x.Slice(0, 1, 5).Err(), "slice: elements 1 to 5"},
		{x.Slice(0, -3, 1).Err(), "slice: elements -1 to 1"},
		{x.Slice(0, 2, 1).Err(), "slice: elements 2 to 1"},
		{x.SliceStep(1, 0, 3, 0).Err(), "slice: elements 0 to 3 in steps of 0"},
		{x.Select(0, i).Err(), "select: index 1 is 5; want 0 to 1"},
		{x.Gather(1, i).Err(), "gather: indices are i64[2]; want f64[2, 3] but for axis 1"},
		{x.Embedding(i).Err(), "autodiff: embedding: indices is 5 at position 1; want 0 to 1"},
		{x.CrossEntropy(i, 0).Err(), "cross_entropy: index 1 is 5; want 0 to 2"},
		{x.CrossEntropy(i, 1.5).Err(), "the label smoothing is 1.5"},
		{i.OneHot(5).Err(), "one_hot: index 1 is 5; want 0 to 4"},
		{i.Neg().OneHot(6).Err(), "one_hot: index 1 is -5; want 0 to 5"},
		{i.OneHot(-1).Err(), "one_hot: n is -1; want at least 0 classes"},
		{x.Flip(2).Err(), "flip: axis 2 is out of range for f64[2, 3]"},
		{x.Clamp(2, 1).Err(), "clamp: the bounds are 2 and 1"},
		{x.Linear(x, Float[*CPU]{}).Slice(0, 0, 9).Err(), "slice"},
		{x.Conv2d(x, Float[*CPU]{}, Window{}).Err(), "conv2d: x is f64[2, 3] and the weight f64[2, 3]"},
		{x.MaxPool2d(Window{Kernel: [2]int{5, 5}}).Err(), "max_pool2d: x is f64[2, 3], smaller than the window [5, 5]"},
		{i.DivScalar(0).Err(), "div: the divisor i64[] is 0 at position 0"},
		{Floats(be, []float32{1, 2, 3}, 2).Err(), "a slice of 3 elements does not fit shape [2]"},
		{x.FakeQuantize(Floats(be, []float64{1, 2}), PerTensor(-8, 7)).Err(), "scale"},
		{x.Cast(tensor.I32).Err(), "a Float cannot become i32"},
		{x.Squeeze(0).Err(), "squeeze: axis 0 of f64[2, 3] has not extent 1"},
		{Zeros(be, 1, 1, 1, 1, 1, 1, 1, 1).Unsqueeze(0).Err(), "9 dimensions; want at most 8"},
		{Zeros(be, -1).Err(), "negative extent"},
		{Ones(be, 1).Expand(0, -2).Err(), "expand: the shape [0, -2] has a negative extent"},
		{i.Slice(0, 0, 1).Expand(-1, 0, 3).Err(), "expand: the shape [-1, 0, 3] has a negative extent"},
		{FloatView(be, tensor.View{DType: tensor.F32, Shape: []int64{-3, 0}}).Err(), "cannot copy f32[-3, 0]: no tensor has this shape"},
		{Cat(0, Zeros(be, math.MaxInt, 0), Zeros(be, math.MaxInt, 0)).Err(), "cat: the result would be f32["},
	} {
		require.ErrorContains(t, c.err, c.want)
		require.ErrorContains(t, c.err, "autodiff: ")
	}
	_, err := x.Item()
	require.ErrorContains(t, err, "item: the tensor is f64[2, 3]; want one element")
}

// TestEmptyTensors goes through operations with nothing in them.
func TestEmptyTensors(t *testing.T) {
	be := NewCPU()
	x := Zeros(be, 0, 3)
	for name, y := range map[string]cpuFloat{
		"exp": x.Exp(), "add": x.Add(x), "sum": x.Sum(0), "softmax": x.Softmax(1), "permute": x.Permute(1, 0),
		"matmul": x.MatMul(Zeros(be, 3, 2)), "inner 0": Zeros(be, 2, 0).MatMul(Zeros(be, 0, 2)), "cat": Cat(0, x, x),
		"expand": x.Expand(2, 0, 3), "linear": x.Linear(Zeros(be, 4, 3), Zeros(be, 4)), "sort": first(x.Sort(0)), "cumsum": x.CumSum(0),
		"gather": x.Gather(0, Ints(be, []int64{}, 0, 3)), "select": x.Select(0, Ints(be, []int64{})), "flip": x.Flip(0),
		"conv": Zeros(be, 0, 1, 3, 3).Conv2d(Zeros(be, 1, 1, 2, 2), cpuFloat{}, Window{}),
	} {
		v, err := y.Float64s()
		require.NoError(t, err, name)
		for _, e := range v {
			require.Zero(t, e, name)
		}
	}
	_, err := Zeros(be, 0, 3).Max(0)
	require.ErrorContains(t, err.Err(), "axis 0 is empty")
	s, _ := x.Sum().Item()
	require.Zero(t, s)
}

// A step may be any positive number: beyond the end is nothing more.
func TestLongSteps(t *testing.T) {
	x := Floats(NewCPU(), []float32{1, 2, 3, 4})
	for step, want := range map[int][]float64{1: {2, 3, 4}, 2: {2, 4}, 3: {2}, 4: {2}, math.MaxInt: {2}} {
		require.Equal(t, want, list(t, x.SliceStep(0, 1, 4, step)), step)
		require.Empty(t, list(t, x.SliceStep(0, 2, 2, step)))
	}
}

func TestViews(t *testing.T) {
	be := NewCPU()
	data := []float32{1, 2, 3, 4, 5, 6}
	v := tensor.Of(data, 3, 2)
	v.Shape, v.Strides = []int64{2, 3}, []int64{1, 2} // its transpose
	x := FloatView(be, v)
	require.Equal(t, []float64{1, 3, 5, 2, 4, 6}, list(t, x))
	data[0] = 9 // a copy was made
	require.Equal(t, 1.0, list(t, x)[0])
	seen, err := x.View()
	require.NoError(t, err)
	require.True(t, seen.ReadOnly)
	require.ErrorContains(t, FloatView(be, tensor.Of([]int8{1})).Err(), "want a float tensor")
	require.ErrorContains(t, FloatView(be, tensor.View{}).Err(), "want a float tensor")

	for _, v := range []tensor.View{tensor.Of([]int32{3, -1}), tensor.Of([]int64{3, -1})} {
		whole, err := IntView(be, v).Int64s()
		require.NoError(t, err)
		require.Equal(t, []int64{3, -1}, whole)
	}
	require.ErrorContains(t, IntView(be, tensor.Of([]float32{1})).Err(), "want i32 or i64")
}

func first[X, Y any](x X, _ Y) X { return x }

func second[X, Y any](_ X, y Y) Y { return y }

// A gradient that leaves out its first result says, as others do, that it
// cannot be differentiated.
func TestGradientOfScaleAlone(t *testing.T) {
	below := New(NewCPU(), None{})
	above := New(below, None{})
	scale := above.Track(above.FromInner(below.Track(Scalar(below, 0.5))))
	grads, err := above.Backward(Floats(above, []float64{1, -2, 3}).FakeQuantize(scale, PerTensor(-8, 7)).Sum())
	require.NoError(t, err)
	d, ok := above.Grad(scale, grads)
	require.True(t, ok)
	_, err = below.Backward(d)
	require.ErrorContains(t, err, "fake_quantize_backward")
}
