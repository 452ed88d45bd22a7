package autodiff

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/isobit-ml/isobit/tensor"
)

// Codes of any type pass the gradient on, in the type of what was quantized,
// whichever types their values are taken in.
func TestGradientThroughCodesOfEveryType(t *testing.T) {
	types := []tensor.DType{tensor.F32, tensor.F64, tensor.F16, tensor.BF16}
	for _, x := range types {
		for _, storage := range append(types, tensor.None, tensor.U8, tensor.F8E4M3) {
			for _, a := range types {
				for _, b := range types {
					ad := New(NewCPU(), None{})
					leaf := ad.Track(Floats(ad, []float64{1, 2.3, -1, 0.2}).Cast(x))
					s := PerTensor(0, 7)
					s.Storage = storage
					q := leaf.Quantize(Scalar(ad, 0.5), s)
					sum := q.Dequantize(a).Cast(tensor.F32).Add(q.Dequantize(b).Cast(tensor.F32)).Sum()
					g, err := ad.Backward(sum)
					require.NoError(t, err, "%v by %v to %v and %v", x, storage, a, b)
					dx, ok := ad.Grad(leaf, g)
					require.True(t, ok)
					require.Equal(t, x, dx.DType())
					values, err := dx.Float64s()
					require.NoError(t, err)
					require.Equal(t, []float64{2, 2, 0, 2}, values, "%v by %v to %v and %v", x, storage, a, b)
				}
			}
		}
	}
}

// Integer codes pass a gradient on whatever their range is, also one of 16 bits,
// which do not hold it.
func TestGradientThroughIntegersOfEveryRange(t *testing.T) {
	types := []tensor.DType{tensor.F32, tensor.F64, tensor.F16, tensor.BF16}
	for _, c := range []tensor.DType{tensor.S8, tensor.U8, tensor.S16, tensor.U16, tensor.I32} {
		lo, hi := c.WholeRange()
		if c == tensor.I32 {
			lo, hi = -1<<24, 1<<24
		}
		for _, x := range types {
			for _, y := range types {
				ad := New(NewCPU(), None{})
				leaf := ad.Track(Floats(ad, []float32{1, 2.25, 3, 60000}).Cast(x))
				s := PerTensor(lo, hi)
				s.Storage = c
				g, err := ad.Backward(leaf.Quantize(Scalar(ad, float32(0.5)), s).Dequantize(y), WithSum())
				require.NoError(t, err, "%v by %v to %v", x, c, y)
				dx, ok := ad.Grad(leaf, g)
				require.True(t, ok)
				last := 0.0
				if hi > 60000*2 {
					last = 1
				}
				require.Equal(t, []float64{1, 1, 1, last}, list(t, dx), "%v by %v to %v", x, c, y)
			}
		}
	}
}

// The gradient of codes of another float type is rounded once, to theirs.
func TestGradientOfFloatCodesIsRoundedOnce(t *testing.T) {
	const scale = float32(0.1)
	for _, y := range []tensor.DType{tensor.F32, tensor.F64, tensor.F16, tensor.BF16} {
		for codes, want := range map[tensor.DType]float64{
			tensor.F32: float64(scale), tensor.F64: float64(scale), tensor.F16: 0.0999755859375, tensor.BF16: 0.10009765625,
		} {
			if y == codes {
				continue
			}
			ad := New(NewCPU(), None{})
			leaf := ad.Track(Floats(ad, []float32{1, 2, 3}).Cast(codes))
			q := Quantized[*Autodiff[*CPU, None]]{Codes: leaf.Tensor, Scale: Scalar(ad, scale), Scheme: PerTensor(-8, 7)}
			g, err := ad.Backward(q.Dequantize(y), WithSum())
			require.NoError(t, err)
			dx, ok := ad.Grad(leaf, g)
			require.True(t, ok)
			require.Equal(t, []float64{want, want, want}, list(t, dx), "%v to %v", codes, y)
		}
	}
}

// Groups and blocks larger than any tensor are one, packed codes are refused.
func TestSchemesAtTheEdge(t *testing.T) {
	be := NewCPU()
	x := Floats(be, []float64{1, -2, 3, 4}, 2, 2)
	scale, _ := x.ChooseQParams(PerGroup(math.MaxInt, -127, 127))
	require.NoError(t, scale.Err())
	require.Equal(t, []int{2, 1}, scale.Shape())
	scale, _ = x.ChooseQParams(Scheme{Granularity: "per_block", BlockSize: []int64{1, math.MaxInt64}, QMin: -127, QMax: 127})
	require.NoError(t, scale.Err())
	require.Equal(t, []int{2, 1}, scale.Shape())
	for _, name := range []string{"", "per_row", "per_tensor x=f32[2]"} {
		err := x.QuantizeDynamic(Scheme{Granularity: name, QMin: -8, QMax: 7}).Err()
		require.ErrorContains(t, err, fmt.Sprintf("autodiff: choose_qparams: the scheme's granularity is %q; want one of per_tensor, per_channel", name))
	}
	for _, c := range []struct {
		scheme Scheme
		says   string
	}{
		{PerChannel(2, -8, 7), "axis 2 is out of range for 2 dimensions"},
		{PerGroup(0, -8, 7), "the scheme's group size is 0; want at least 1"},
		{Scheme{Granularity: "per_block", BlockSize: []int64{1, 0}, QMax: 7}, "the scheme's block size is [1, 0]; want one extent of at least 1 for each dimension of shape [2, 2]"},
		{Scheme{Granularity: "per_block", BlockSize: []int64{1}, QMax: 7}, "the scheme's block size is [1]; want one extent"},
	} {
		_, zero := x.ChooseQParams(c.scheme)
		require.ErrorContains(t, zero.Err(), "autodiff: choose_qparams: "+c.says)
	}
	scale, _ = Scalar(be, 1.0).ChooseQParams(PerToken(-8, 7))
	require.ErrorContains(t, scale.Err(), "autodiff: choose_qparams: the input has shape []; want at least one dimension")
	s := PerTensor(-8, 7)
	s.Storage = tensor.S4
	require.ErrorContains(t, x.Quantize(Scalar(be, 1.0), s).Err(), "autodiff: quantize: the scheme stores s4; want a type that is not packed")
	require.ErrorContains(t, x.Cast(99).Err(), "dtype(99)")
	require.ErrorContains(t, x.QuantizeDynamic(PerTensor(-127, 127)).Dequantize(99).Err(), "dtype(99)")
	s.Storage = 99
	require.ErrorContains(t, x.Quantize(Scalar(be, 1.0), s).Err(), "dtype(99)")
}

// The gradient of a product along a dimension without elements.
func TestGradientOfAnEmptyProduct(t *testing.T) {
	forStrategies(t, func(t *testing.T, s Strategy) {
		ad := New(NewCPU(), s)
		x := ad.Track(Zeros(ad, 2, 0, 3))
		y := x.Prod(1)
		values, err := y.Float64s()
		require.NoError(t, err)
		require.Equal(t, []float64{1, 1, 1, 1, 1, 1}, values)
		g, err := ad.Backward(y, WithSum())
		require.NoError(t, err)
		dx, ok := ad.Grad(x, g)
		require.True(t, ok)
		require.Equal(t, []int{2, 0, 3}, dx.Shape())
	})
}

// Codes that are 8-bit floats are so where they are not stored, too: in FakeQuantize,
// and for the gradients, whose classes go by x over the scale itself.
func TestGradientsOfFloat8Codes(t *testing.T) {
	for _, storage := range []tensor.DType{tensor.F8E4M3, tensor.F8E5M2} {
		ad := New(NewCPU(), None{})
		x := ad.Track(Floats(ad, []float32{2.3, 25.1, -25.4, 3.9, 25}))
		scale := ad.Track(Scalar(ad, float32(0.25)))
		s := PerTensor(-100, 100)
		s.Storage = storage
		codes := x.Quantize(scale, s).Dequantize(tensor.F32)
		fake := x.FakeQuantize(scale, s)
		require.Equal(t, list(t, codes), list(t, fake))
		require.NotEqual(t, list(t, x.FakeQuantize(scale, PerTensor(-100, 100))), list(t, fake))
		for _, y := range []Float[*Autodiff[*CPU, None]]{codes, fake} {
			g, err := ad.Backward(y, WithSum())
			require.NoError(t, err)
			dx, _ := ad.Grad(x, g)
			// 25.1 over 0.25 is 100.4: no whole number above 100, but a number above it.
			require.Equal(t, []float64{1, 0, 0, 1, 1}, list(t, dx), storage)
		}
	}
}

// A quantized layer of no inputs is its bias, or zeros, as in Python.
func TestQuantizedLinearOfNoInputs(t *testing.T) {
	for _, d := range floatTypes {
		cpu := NewCPU()
		cpu.pool.poison = true
		ad := New(cpu, None{})
		bias := ad.Track(Floats(ad, []float64{1, 2, 3}).Cast(d))
		x, w := ad.Track(Zeros(ad, 2, 1, 0).Cast(d)), ad.Track(Zeros(ad, 3, 0).Cast(d))
		require.Equal(t, []float64{0, 0, 0, 0, 0, 0}, list(t, x.QuantizedLinear(w, Float[*Autodiff[*CPU, None]]{})))
		y := x.QuantizedLinear(w, bias)
		require.Equal(t, []float64{1, 2, 3, 1, 2, 3}, list(t, y))
		g, err := ad.Backward(y, WithSum())
		require.NoError(t, err)
		db, _ := ad.Grad(bias, g)
		require.Equal(t, []float64{2, 2, 2}, list(t, db))
		dx, _ := ad.Grad(x, g)
		require.Equal(t, []int{2, 1, 0}, dx.Shape())
	}
}
