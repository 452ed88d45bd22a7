package autodiff

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/isobit-ml/isobit/tensor"
)

// A bias of -Inf hides keys as a mask does, alone or with one: queries that look at nothing get zeros, and no gradient is NaN.
func TestAttentionBiasHidesKeys(t *testing.T) {
	ad, none, no := over(None{}), Bool[adf]{}, math.Inf(-1)
	q, k, v := leaf(ad, []float64{1, 2, 3, 4}, 2, 2), leaf(ad, []float64{0.5, 1, 1, 0.25, 2, 1}, 3, 2), leaf(ad, []float64{1, 2, 3, 4, 5, 6}, 3, 2)
	whole, part := Bools(ad, []bool{false, false, false, true, false, true}, 2, 3), Bools(ad, []bool{false, true, true, true, true, true}, 2, 3)
	results := func(mask Bool[adf], bias Float[adf]) [][]float64 {
		var options []AttentionOption
		if bias.Present() {
			options = append(options, WithBias(bias))
		}
		y := q.ScaledDotProductAttention(k, v, mask, options...)
		return append(grads(t, ad, y, q, k, v), list(t, ad.Inner(y)))
	}
	want := results(whole, Float[adf]{})
	require.Equal(t, []float64{0, 0}, want[3][:2])
	require.Equal(t, want, results(none, Floats(ad, []float64{no, no, no, 0, no, 0}, 2, 3)))
	require.Equal(t, want, results(part, Floats(ad, []float64{0, no, no, 0, no, 0}, 2, 3)))
	require.Equal(t, results(Bools(ad, []bool{false, true}, 2, 1), Float[adf]{}), results(none, Floats(ad, []float64{no, 0}, 2, 1)))

	bias := ad.Track(Floats(ad, []float64{no, no, no, 0, no, 0}, 2, 3))
	db := grads(t, ad, q.ScaledDotProductAttention(k, v, none, WithBias(bias)), bias)[0]
	require.Equal(t, []float64{0, 0, 0}, db[:3])
	require.Zero(t, db[4])
	nan := list(t, ad.Inner(q.ScaledDotProductAttention(k, v, none, WithBias(Floats(ad, []float64{math.NaN(), no, no})))))
	require.True(t, math.IsNaN(nan[0]), "NaN is a score")
}

// Means of volumes round once in types of 16 bits.
func TestAvgPool3dRoundsOnce(t *testing.T) {
	be := NewCPU()
	for _, d := range []tensor.DType{tensor.F16, tensor.BF16} {
		x := Normal(be, 1, 0, 1, 2, 6, 6, 6).Cast(d)
		w := Window3d{Kernel: [3]int{3, 3, 3}, Pad: [3]int{1, 1, 1}, Stride: [3]int{1, 1, 1}}
		y := x.AvgPool3d(w)
		require.Equal(t, d, y.DType())
		require.Equal(t, list(t, x.Cast(tensor.F32).AvgPool3d(w).Cast(d)), list(t, y))
	}
}
