package tensor_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/isobit-ml/isobit/tensor"
)

// The table of types agrees with itself: names, DLPack's codes, sizes.
func TestDTypes(t *testing.T) {
	for d := tensor.F32; int(d) < tensor.Count; d++ {
		byName, ok := tensor.ParseDType(d.String())
		require.True(t, ok)
		require.Equal(t, d, byName)
		code, bits := d.DLPack()
		require.Equal(t, d, tensor.FromDLPack(code, bits))
		require.Equal(t, int64(bits+7)/8, d.Size(), d.String())
		lo, hi := d.WholeRange()
		require.Less(t, lo, hi)
	}
	_, ok := tensor.ParseDType("none")
	require.False(t, ok)
	require.Equal(t, tensor.None, tensor.FromDLPack(2, 128))
	for _, d := range []tensor.DType{tensor.None, tensor.DType(tensor.Count), 99, 255} { // of a caller's making
		require.Equal(t, int64(0), d.Size())
		require.False(t, d.IsFloat() || d.IsInt() || d.IsFloat8() || d.Packed(), d.String())
		code, bits := d.DLPack()
		require.Equal(t, []uint8{0, 0}, []uint8{code, bits})
	}
	require.Equal(t, "dtype(99)", tensor.DType(99).String())
}

func TestViews(t *testing.T) {
	v := tensor.Of([]float32{1, 2, 3, 4, 5, 6}, 2, 3)
	require.Equal(t, "f32[2,3]", v.String())
	require.Equal(t, []int64{3, 1}, []int64{v.Stride(0), v.Stride(1)})
	require.Equal(t, []float32{1, 2, 3, 4, 5, 6}, tensor.Slice[float32](v))
	require.Len(t, tensor.Bytes(v), 24)
	require.Equal(t, int64(24), v.High)
	require.Panics(t, func() { tensor.Of([]float32{1}, 2) })
	require.Panics(t, func() { tensor.Slice[float64](v) })
	scalar := tensor.Scalar(int64(7))
	require.Equal(t, "i64[]", scalar.String())
	require.Equal(t, int64(1), scalar.NumElements())
	require.Equal(t, int64(0), tensor.NumElements([]int64{1 << 40, 1 << 40, 0})) // whatever the others are
	require.Equal(t, int64(2), tensor.Of([]int8{1, 2}).NumElements())            // of a View that no variable holds
	require.True(t, tensor.Scalar(int8(1)).Present())
	require.Equal(t, "f32[2,3] none", fmt.Sprint(v, " ", tensor.View{}))
	absent := tensor.View{}
	require.False(t, absent.Present())
	require.Equal(t, "none", absent.String())

	column := tensor.View{Data: v.Data, DType: tensor.F32, Shape: []int64{3, 2}, Strides: []int64{1, 3}}
	require.False(t, column.IsContiguous())
	require.Panics(t, func() { tensor.Bytes(column) })
	device, later := v, v
	device.Device, later.Low = tensor.Device{Kind: tensor.CUDA}, 4
	require.Panics(t, func() { tensor.Bytes(device) })
	require.Panics(t, func() { tensor.Bytes(later) })
	longer := v
	longer.Shape = []int64{2, 4}
	require.PanicsWithValue(t, "tensor.Bytes: f32[2,4] spans bytes [0, 32) of its memory, which has [0, 24)", func() { tensor.Bytes(longer) })
	require.Panics(t, func() { tensor.Slice[float32](longer) })
	for text, shape := range map[string][]int64{"f32[3]": {3}, "f32[4611686018427387904]": {1 << 62}, "f32[-3]": {-3}, "f32[-1,0]": {-1, 0}} {
		nowhere := tensor.View{DType: tensor.F32, Shape: shape}
		require.PanicsWithValue(t, "tensor.Bytes: "+text+" has no memory", func() { tensor.Bytes(nowhere) })
		nowhere.Data = v.Data
		if len(shape) > 1 || shape[0] != 3 { // no memory is as large, or as small
			require.PanicsWithValue(t, "tensor.Bytes: "+text+" has no memory", func() { tensor.Slice[float32](nowhere) })
		}
	}
	require.Empty(t, tensor.Bytes(tensor.View{}))
	longer.Shape = []int64{9, 0}
	require.Empty(t, tensor.Bytes(longer))
	one := tensor.View{Data: v.Data, DType: tensor.F32, Shape: []int64{1, 3}, Strides: []int64{77, 1}}
	require.True(t, one.IsContiguous())
	none := tensor.View{DType: tensor.F32, Shape: []int64{0, 3}, Strides: []int64{0, 0}}
	require.True(t, none.IsContiguous())
}

// New makes packed codes as plans take them: bytes, each row starting at one.
func TestNew(t *testing.T) {
	for _, d := range []tensor.DType{tensor.S4, tensor.U4} {
		for elements, bytes := range map[int64]int64{0: 0, 1: 1, 2: 1, 5: 3} {
			shape := []int64{2, elements}
			v := tensor.New(d, shape...)
			require.Equal(t, tensor.U8, v.DType)
			require.Equal(t, []int64{2, bytes}, v.Shape)
			require.Len(t, tensor.Bytes(v), int(2*bytes))
			require.Equal(t, []int64{2, elements}, shape)
		}
		require.PanicsWithValue(t, "tensor.New: "+d.String()+" has shape []; want at least one dimension to pack along", func() { tensor.New(d) })
		require.Panics(t, func() { tensor.New(d, -1) })
	}
	require.PanicsWithValue(t, "tensor.New: none is not an element type", func() { tensor.New(tensor.None, 3) })
	require.PanicsWithValue(t, "tensor.New: dtype(99) is not an element type", func() { tensor.New(99) })
	require.Panics(t, func() { tensor.New(tensor.F32, -1) })
	require.Panics(t, func() { tensor.New(tensor.F64, math.MaxInt64/4) })
	v := tensor.New(tensor.F16, 3)
	require.Equal(t, make([]byte, 6), tensor.Bytes(v))
	require.Equal(t, int64(6), v.High)
}

// Extent spans what strides reach, in both directions, and never wraps around.
func TestExtent(t *testing.T) {
	for _, tc := range []struct {
		shape, strides []int64
		lo, hi         int64
	}{
		{[]int64{}, nil, 0, 4},
		{[]int64{2, 3}, nil, 0, 24},
		{[]int64{2, 3}, []int64{-3, 1}, -12, 12},
		{[]int64{2, 3}, []int64{10, -2}, -16, 44},
		{[]int64{2, 0}, []int64{10, 1}, 0, 0},
		{[]int64{1, 3}, []int64{math.MaxInt64, 1}, 0, 12},
		{[]int64{2, 3}, []int64{1 << 62, 1}, math.MinInt64, math.MaxInt64},
		{[]int64{2, 3}, []int64{0, -1 << 62}, math.MinInt64, math.MaxInt64},
		{[]int64{2}, []int64{math.MinInt64}, math.MinInt64, math.MaxInt64},
		{[]int64{1 << 40}, []int64{1 << 30}, math.MinInt64, math.MaxInt64},
	} {
		v := tensor.View{DType: tensor.F32, Shape: tc.shape, Strides: tc.strides}
		lo, hi := v.Extent()
		require.Equal(t, []int64{tc.lo, tc.hi}, []int64{lo, hi}, "%v %v", tc.shape, tc.strides)
	}
}

func TestNumElements(t *testing.T) {
	require.Equal(t, int64(1), tensor.NumElements(nil))
	require.Equal(t, int64(0), tensor.NumElements([]int64{math.MaxInt64, 0, 2}))
	require.Equal(t, int64(-1), tensor.NumElements([]int64{math.MaxInt64, 2}))
	for _, negative := range [][]int64{{-1}, {-1, 0}, {0, -1}, {-2, -3}, {math.MinInt64, 0}} {
		require.Equal(t, int64(-1), tensor.NumElements(negative))
		require.Panics(t, func() { tensor.New(tensor.F32, negative...) })
		require.Panics(t, func() { tensor.Of([]float32{}, negative...) })
	}
}

func TestCeilDiv(t *testing.T) {
	for _, c := range [][3]int64{
		{0, 5, 0}, {1, 5, 1}, {5, 5, 1}, {6, 5, 2}, {-3, 5, 0},
		{math.MaxInt64, 1, math.MaxInt64}, {math.MaxInt64, 2, 1 << 62}, {3, math.MaxInt64, 1}, {math.MaxInt64, math.MaxInt64, 1},
	} {
		require.Equal(t, c[2], tensor.CeilDiv(c[0], c[1]), "%d / %d", c[0], c[1])
	}
}

func TestDevices(t *testing.T) {
	require.Equal(t, "cpu", tensor.Device{}.String())
	require.Equal(t, "cpu", tensor.Device{Kind: tensor.CPU}.String())
	require.Equal(t, "cuda:2", tensor.Device{Kind: tensor.CUDA, Index: 2}.String())
	require.Equal(t, "meta", tensor.Device{Kind: tensor.Meta}.String())
	require.Equal(t, "device(9):1", tensor.Device{Kind: 9, Index: 1}.String())
}
