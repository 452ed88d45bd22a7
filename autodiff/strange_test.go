package autodiff

import (
	"bytes"
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/isobit-ml/isobit/tensor"
)

// A product of as many dimensions as there can be is differentiated twice, too.
func TestSecondDerivativeOfProductsOfEightDimensions(t *testing.T) {
	var want []float64
	for _, shape := range [][]int{{2, 3, 2}, {1, 2, 1, 3, 1, 1, 1, 2}} {
		below := New(NewCPU(), None{})
		above := New(below, None{})
		x := below.Track(Floats(below, []float64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, shape...))
		y := above.Track(above.FromInner(x))
		axis := 1
		if len(shape) == 8 {
			axis = 3
		}
		p := y.Prod(axis)
		g, err := above.Backward(p.Mul(p), WithSum())
		require.NoError(t, err)
		d, _ := above.Grad(y, g)
		again, err := below.Backward(d.Mul(d).Sum())
		require.NoError(t, err)
		dd, _ := below.Grad(x, again)
		if want == nil {
			want = list(t, dd)
		}
		require.Equal(t, want, list(t, dd))
	}
}

// A strange view is an error, and leaves the backend as it was.
func TestViewsThatNoBackendHolds(t *testing.T) {
	be := NewCPU()
	one := tensor.Of([]float32{3})
	for _, c := range []struct {
		shape []int64
		want  string
	}{
		{[]int64{1 << 62}, "elements"}, {[]int64{1 << 61}, "elements"}, {[]int64{1 << 60}, "elements"}, {[]int64{1 << 43}, "want at most 4398046511104 elements"},
		{[]int64{1, 1, 1, 1, 2, 1, 1, 1, 1}, "the copy would have 9 dimensions; want at most 8"},
	} {
		one.Shape, one.Strides = c.shape, make([]int64, len(c.shape))
		require.ErrorContains(t, FloatView(be, one).Err(), c.want)
		require.ErrorContains(t, FloatView(be, one).Err(), "autodiff: cannot copy f32[")
	}
	require.Panics(t, func() { be.pool.take(math.MaxInt) })
	require.Equal(t, []float64{1, 1}, list(t, Ones(be, 2)))
}

// Operations check the attributes of whoever runs them without Float and the like.
func TestAttributesOutOfRange(t *testing.T) {
	be := NewCPU()
	x, err := be.FromView(tensor.Of([]float32{1, 2, 3, 4}))
	require.NoError(t, err)
	codes := Float[*CPU]{Tensor[*CPU]{be: be, v: x}}.Quantize(Scalar(be, float32(1)), Scheme{Granularity: "per_tensor", QMin: -8, QMax: 8, Storage: tensor.F8E4M3})
	require.NoError(t, codes.Err())
	for _, d := range []tensor.DType{tensor.F8E4M3, tensor.F8E5M2, tensor.S4, tensor.U4, tensor.None, 99} {
		_, err := be.Run(OpCast, &Attr{DType: d}, x)
		require.ErrorContains(t, err, fmt.Sprintf("autodiff: cast: the result would be %v; want floats, whole numbers or bools", d))
	}
	_, err = be.Run(OpCast, &Attr{DType: tensor.F32}, codes.Codes.v)
	require.ErrorContains(t, err, "autodiff: cast: the input is f8e4m3[4]; want floats, whole numbers or bools")
	for _, s := range [][3]int{{0, math.MaxInt/2 + 1, 3}, {0, math.MaxInt, 2}, {3, math.MinInt, 2}, {3, math.MinInt / 2, 5}, {math.MinInt, 1, 1}, {4, 1, 1}, {0, 0, 1}, {1, 1, math.MaxInt}} {
		_, err := be.Run(OpSlice, &Attr{Starts: s[:1], Steps: s[1:2], Shape: []int64{int64(s[2])}}, x)
		require.ErrorContains(t, err, "leave axis 0 of extent 4", "%v", s)
	}
	for s, want := range map[[3]int][]float64{{3, -1, 4}: {4, 3, 2, 1}, {0, 3, 2}: {1, 4}, {3, math.MinInt, 1}: {4}, {9, 5, 0}: nil} {
		out, err := be.Run(OpSlice, &Attr{Starts: s[:1], Steps: s[1:2], Shape: []int64{int64(s[2])}}, x)
		require.NoError(t, err)
		require.Equal(t, want, list(t, Float[*CPU]{Tensor[*CPU]{be: be, v: out[0]}}))
	}
}

// Other bytes than 0 and 1 are no truth values, whose And and Not they spoil.
func TestBytesThatAreNoBools(t *testing.T) {
	v := tensor.Of([]uint8{1, 0, 2})
	v.DType = tensor.Bool
	require.ErrorContains(t, FromView(NewCPU(), v).Err(), "autodiff: cannot copy bool[3]: element 2 is a byte of 2; want 0 or 1")
	var file bytes.Buffer
	require.ErrorContains(t, WriteSafetensors(&file, []NamedView{{"mask", v}}, nil), `"mask": element 2 is a byte of 2`)
	require.NoError(t, WriteSafetensors(&file, []NamedView{{"mask", tensor.Of([]bool{true, false, true})}}, nil))
	file.Bytes()[file.Len()-1] = 2
	_, _, err := ReadSafetensors(&file)
	require.ErrorContains(t, err, `"mask": element 2 is a byte of 2; want 0 or 1`)
}

// Loops over rows of nothing take no time, however many there are.
func TestEmptyTensorsOfLargeExtents(t *testing.T) {
	be := NewCPU()
	x := Zeros(be, math.MaxInt, 0)
	_, of := x.Sort(1)
	for _, y := range []interface{ Err() error }{of, x.Softmax(1), x.LogSoftmax(1), x.CumSum(1), Cat(1, x, x), x.Cast(tensor.F16).Softmax(1)} {
		require.NoError(t, y.Err())
	}
	require.ErrorContains(t, Zeros(be, 2, 0).Select(0, Ints(be, []int64{2})).Err(), "index 0 is 2; want 0 to 1")
}

// Where a gradient of Pow is masked, its factor is finite: second derivatives at powers of
// 0 are not 0 times an infinity.
func TestSecondDerivativeOfPowersOfZero(t *testing.T) {
	c := testCase{inputs: []data{values([]int{4}, 0, 0, 0, 0), values([]int{4}, 0, 2, 2.5, 3)}, f: func(x []dyn) dyn { return x[0].Pow(x[1]) }}
	grads := c.second(t, NewCPU(), None{}, None{}, c.points())
	require.Equal(t, [][]float64{{0, 0, 0, 0}, {0, 0, 0, 0}}, grads)
}
