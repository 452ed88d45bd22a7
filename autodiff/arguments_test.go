package autodiff

import (
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/isobit-ml/isobit/tensor"
)

// A part has every other extent of x, and room along the axis.
func TestArgumentsOfSliceAssign(t *testing.T) {
	ad := over(None{})
	x := Zeros(ad, 4, 3)
	for want, y := range map[string]Float[adf]{
		"slice_assign: the part is f32[2, 2]; want f32[4, 3] but for axis 0":                                          x.SliceAssign(0, 1, Ones(ad, 2, 2)),
		"slice_assign: the part is f32[3]; want f32[4, 3] but for axis 0":                                             x.SliceAssign(0, 1, Ones(ad, 3)),
		"slice_assign: x is f32[4, 3]: axis 2 is out of range for 2 dimensions":                                       x.SliceAssign(2, -1, Ones(ad, 2, 3)),
		"slice_assign: x is f32[]: axis 0 is out of range":                                                            Scalar(ad, float32(1)).SliceAssign(0, 0, Ones(ad, 1)),
		"slice_assign: elements from 3 on of axis 0 of f32[4, 3]; want at least -4, and room for the part f32[2, 3]":  x.SliceAssign(0, 3, Ones(ad, 2, 3)),
		"slice_assign: elements from -1 on of axis 0 of f32[4, 3]; want at least -4, and room for the part f32[2, 3]": x.SliceAssign(0, -1, Ones(ad, 2, 3)),
		"slice_assign: elements from " + strconv.Itoa(math.MaxInt) + " on of axis 0 of f32[4, 3]; want at least -4":   x.SliceAssign(0, math.MaxInt, Ones(ad, 2, 3)),
		"slice_assign: elements from " + strconv.Itoa(math.MinInt) + " on of axis 1 of f32[4, 3]; want at least -3":   x.SliceAssign(1, math.MinInt, Ones(ad, 4, 1)),
		"slice_assign: inputs are f32[4, 3] and f64[4, 3]; want one type":                                             x.SliceAssign(0, 0, Floats(ad, make([]float64, 12), 4, 3)),
		"elements from 0 on of axis 1 of f32[4, 3]; want at least -3, and room for the part f32[4, 4]":                x.SliceAssign(1, 0, Ones(ad, 4, 4)),
	} {
		require.ErrorContains(t, y.Err(), "autodiff: ")
		require.ErrorContains(t, y.Err(), want)
	}
	forStrategies(t, func(t *testing.T, s Strategy) {
		ad := over(s)
		x, part := leaf(ad, []float64{1, 2, 3, 4}, 2, 2), leaf(ad, []float64{7, 8}, 1, 2)
		none, all := leaf(ad, nil, 0, 2), leaf(ad, []float64{1, 2, 3, 4}, 2, 2)
		for _, c := range []struct {
			y        Float[adf]
			p        Float[adf]
			dx, dp   []float64
			elements []float64
		}{
			{x.SliceAssign(-2, -1, part), part, []float64{1, 2, 0, 0}, []float64{3, 4}, []float64{1, 2, 7, 8}},
			{x.SliceAssign(0, 2, none), none, []float64{1, 2, 3, 4}, nil, []float64{1, 2, 3, 4}},
			{x.SliceAssign(1, 0, all.MulScalar(2)), all, []float64{0, 0, 0, 0}, []float64{2, 4, 6, 8}, []float64{2, 4, 6, 8}},
		} {
			require.Equal(t, c.elements, list(t, c.y))
			g, err := ad.Backward(c.y, WithSeed(Floats(ad.InnerBackend(), []float64{1, 2, 3, 4}, 2, 2)))
			require.NoError(t, err)
			dx, _ := ad.Grad(x, g)
			dp, _ := ad.Grad(c.p, g)
			require.Equal(t, c.dx, list(t, dx))
			require.Equal(t, c.dp, list(t, dp))
		}
	})
}

// Errors of what is made of several operations name what was called.
func TestArgumentsOfLayerNormAnyAndAll(t *testing.T) {
	ad := over(None{})
	x, none := Ones(ad, 2, 3), Float[adf]{}
	for want, y := range map[string]Float[adf]{
		"layer_norm: x is f32[]; want [..., n]":                                                 Scalar(ad, float32(1)).LayerNorm(none, none, 1),
		"layer_norm: eps is -1; want 0 or more":                                                 x.LayerNorm(none, none, -1),
		"layer_norm: eps is NaN; want 0 or more":                                                x.LayerNorm(none, none, math.NaN()),
		"layer_norm: the weight is f32[2, 3]; want f32[3], to go with x of f32[2, 3]":           x.LayerNorm(Ones(ad, 2, 3), none, 1),
		"layer_norm: the weight is f32[1]; want f32[3]":                                         x.LayerNorm(Ones(ad, 1), none, 1),
		"layer_norm: the bias is f32[4, 1, 3]; want f32[3]":                                     x.LayerNorm(none, Ones(ad, 4, 1, 3), 1),
		"layer_norm: the bias is f64[3]; want f32[3]":                                           x.LayerNorm(none, Floats(ad, []float64{1, 2, 3}), 1),
		"layer_norm: the weight is f64[3]; want f16[3], to go with x of f16[2, 3]":              x.Cast(tensor.F16).LayerNorm(Floats(ad, []float64{1, 2, 3}), none, 1),
		"autodiff: reshape: the input is f32[2, 3] with 6 elements, which do not fit shape [4]": x.LayerNorm(none, x.Reshape(4), 1),
	} {
		if y.Present() {
			require.ErrorContains(t, y.Err(), want)
		}
	}
	b := x.Less(x)
	require.EqualError(t, b.Any(2).Err(), "autodiff: any: x is bool[2, 3]: axis 2 is out of range for 2 dimensions")
	require.EqualError(t, b.All(-3).Err(), "autodiff: all: x is bool[2, 3]: axis -3 is out of range for 2 dimensions")
	require.EqualError(t, Bools(ad, []bool{true}, []int{}...).Any(0).Err(), "autodiff: any: x is bool[]: axis 0 is out of range for 0 dimensions")
}

// An error says which argument it is about, by the name that the table of operations has for it.
func TestErrorsNameTheInput(t *testing.T) {
	ad := over(None{})
	x, none := Ones(ad, 2, 3), Float[adf]{}
	of := func(d tensor.DType, shape ...int) Float[adf] { return Ones(ad, shape...).Cast(d) }
	for want, y := range map[string]Float[adf]{
		"linear: the weight is f64[4, 3]; want f32, the type of x":                     x.Linear(of(tensor.F64, 4, 3), none),
		"linear: the bias is f16[4]; want f32, the type of x":                          x.Linear(Ones(ad, 4, 3), of(tensor.F16, 4)),
		"matmul: y is f64[3, 2]; want f32, the type of x":                              x.MatMul(of(tensor.F64, 3, 2)),
		"scatter_add: x is f32[2, 3] and y f64[2, 1]; want floats, the latter of the ": x.ScatterAdd(1, Ints(ad, []int64{0, 1}, 2, 1), of(tensor.F64, 2, 1)),
	} {
		require.ErrorContains(t, y.Err(), "autodiff: "+want)
	}
	for want, op := range map[string]Op{
		"linear: the weight is absent":                                       OpLinear,
		"sgd_: the gradient is absent":                                       OpSGD,
		"where: has 1 inputs; want 3":                                        OpWhere,
		"cat: input 0 has 9 dimensions; want at most 8":                      OpCat,
		"dequantize_backward: the gradient has 9 dimensions; want at most 8": OpDequantizeBackward,
	} {
		in := []Info{{tensor.F32, []int64{2}}, {}, {}}
		switch op {
		case OpWhere:
			in = in[:1]
		case OpCat, OpDequantizeBackward:
			in[0].Shape = make([]int64, 9)
		}
		_, err := op.Infer(nil, in)
		require.ErrorContains(t, err, "autodiff: "+want)
	}
	for op := range opCount { // every name is a word, the optional ones last
		optional := false
		for _, name := range ops[op].in {
			require.Regexp(t, `^([a-z_]+\??|\.\.\.)$`, name, op)
			require.False(t, optional && !strings.HasSuffix(name, "?"), op)
			optional = optional || strings.HasSuffix(name, "?")
		}
	}
}

// What follows a mode's name is not taken for another attribute.
func TestArgumentsOfGridSample(t *testing.T) {
	ad := over(None{})
	x, grid := Ones(ad, 1, 1, 2, 2), Ones(ad, 1, 1, 1, 2)
	for want, m := range map[string]SampleMode{
		`mode is "bilinear padding_mode=border"; want one word`:    {Mode: "bilinear padding_mode=border"},
		`padding_mode is "zeros mode=nearest"; want one word`:      {Padding: "zeros mode=nearest"},
		`padding_mode is " "; want one word`:                       {Padding: " "},
		`mode is "linear"; want one of bilinear, nearest, bicubic`: {Mode: "linear"},
	} {
		require.EqualError(t, x.GridSample(grid, m).Err(), "autodiff: grid_sample: "+want)
	}
}

// A second zero point is an error.
func TestArgumentsOfQuantize(t *testing.T) {
	be := NewCPU()
	x, scale, zero := Ones(be, 4), Scalar(be, float32(1)), Scalar(be, float32(0)).Tensor
	for _, err := range []error{
		x.Quantize(scale, PerTensor(0, 7), zero, zero).Err(),
		x.FakeQuantize(scale, PerTensor(0, 7), zero, zero).Err(),
	} {
		require.ErrorContains(t, err, "2 zero points; want at most 1")
	}
	require.NoError(t, x.FakeQuantize(scale, PerTensor(0, 7), zero).Err())
}

func TestBackendsDoNotMix(t *testing.T) {
	forStrategies(t, func(t *testing.T, s Strategy) {
		a, b := over(s), over(s)
		x, y := leaf(a, []float64{1}), leaf(b, []float64{1})
		require.ErrorContains(t, x.Mul(y).Err(), "belongs to another backend")
		_, err := a.Backward(y)
		require.ErrorContains(t, err, "belongs to another backend")
	})
}

func TestErrorsPassOn(t *testing.T) {
	forStrategies(t, func(t *testing.T, s Strategy) {
		ad := over(s)
		x := leaf(ad, []float64{1, 2, 3})
		bad := x.Reshape(2, 2)
		require.ErrorContains(t, bad.Err(), "autodiff: reshape: the input is f64[3] with 3 elements")
		later := bad.Exp().Add(x).Sum()
		require.Equal(t, bad.Err(), later.Err())
		_, err := ad.Backward(later)
		require.Equal(t, bad.Err(), err)
		_, err = later.Item()
		require.Equal(t, bad.Err(), err)
		require.ErrorContains(t, x.Add(Float[adf]{}).Err(), "absent")
		require.ErrorContains(t, x.Add(Zeros(ad, 3)).Err(), "f64[3] and f32[3]")
		x.Release()
		require.ErrorContains(t, x.Exp().Err(), "released")
		// Random numbers are floats: no others are written over elements of another size.
		for _, op := range []Op{OpUniform, OpNormal} {
			for _, d := range []tensor.DType{tensor.Bool, tensor.I32, tensor.I64} {
				_, err := ad.Run(op, &Attr{DType: d, Shape: []int64{1000}})
				require.ErrorContains(t, err, "makes "+d.String()+"; want floats")
			}
		}
	})
}
