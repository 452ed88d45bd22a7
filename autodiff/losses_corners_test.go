package autodiff

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// grads are the gradients of the sum of y by leaves.
func grads(t *testing.T, ad adf, y Float[adf], leaves ...Float[adf]) (all [][]float64) {
	t.Helper()
	g, err := ad.Backward(y, WithSum())
	require.NoError(t, err)
	for _, x := range leaves {
		dx, ok := ad.Grad(x, g)
		require.True(t, ok)
		all = append(all, list(t, dx))
	}
	return all
}

// Losses where there is nothing to divide by, as PyTorch has them.
func TestLossesOfNothingToDivideBy(t *testing.T) {
	ad := over(None{})
	no := Ints(ad, []int64{})
	for _, options := range [][]LossOption{nil, {WithReduction("mean")}} { // with options or without
		mean, err := ad.Track(Ones(ad, 0, 3)).CrossEntropy(no, 0, options...).Item()
		require.NoError(t, err)
		require.True(t, math.IsNaN(mean))
	}
	one := Floats(ad, []float64{1}, []int{}...)
	loss, err := one.KLDiv(one, WithReduction("batchmean")).Item()
	require.NoError(t, err)
	require.Equal(t, -1.0, loss)
	x := ad.Track(Floats(ad, []float64{1, 2, 3, 4, 5, math.NaN()}, 2, 3))
	ignored := x.CrossEntropy(Ints(ad, []int64{0, -100}), 0)
	require.InDeltaSlice(t, []float64{-0.909969, 0.244728, 0.665241}, grads(t, ad, ignored, x)[0][:3], 1e-6)
}

// Points in the same place have a distance with a gradient.
func TestPairwiseDistanceOfEquals(t *testing.T) {
	ad := over(None{})
	x, y := leaf(ad, []float64{1, 2, 3, 4}, 2, 2), leaf(ad, []float64{1, 2, 0, 0}, 2, 2)
	d := x.PairwiseDistance(y, 0)
	require.Equal(t, []float64{0, 5}, list(t, ad.Inner(d)))
	all := grads(t, ad, d, x, y)
	require.InDeltaSlice(t, []float64{0, 0, 0.6, 0.8}, all[0], 1e-15)
	require.InDeltaSlice(t, []float64{0, 0, -0.6, -0.8}, all[1], 1e-15)
}

// Vectors that broadcast have the cosines of what they broadcast to.
func TestCosineSimilarityBroadcasts(t *testing.T) {
	ad := over(None{})
	x, y := leaf(ad, []float64{3, 4, 0, 2}, 2, 2), leaf(ad, []float64{1, 5}, 2, 1)
	whole := Floats(ad, []float64{1, 1, 5, 5}, 2, 2)
	for _, c := range []struct {
		axis int
		y    Float[adf]
		same Float[adf]
	}{
		{1, y, whole}, {0, y, whole}, {-1, y, whole},
		{1, Floats(ad, []float64{2, 1}), Floats(ad, []float64{2, 1, 2, 1}, 2, 2)},
	} {
		require.Equal(t, list(t, ad.Inner(x.CosineSimilarity(c.same, c.axis, 1e-8))), list(t, ad.Inner(x.CosineSimilarity(c.y, c.axis, 1e-8))))
	}
	require.Len(t, grads(t, ad, x.CosineSimilarity(y, 1, 1e-8), y)[0], 2)
	require.ErrorContains(t, x.CosineSimilarity(Ones(ad, 3), 1, 1e-8).Err(), "cosine_similarity: x is f64[2, 2] and y f32[3]: ")
}

// What is wrong with a tensor says which one it is.
func TestLossesNameTheirTensors(t *testing.T) {
	ad := over(None{})
	x, gone := Ones(ad, 2, 3), Ones(ad, 2, 3)
	gone.Release()
	labels, none := Ints(ad, []int64{0, 1}), Float[adf]{}
	for want, y := range map[string]Float[adf]{
		"cross_entropy: option 1, WithWeight: autodiff: the tensor is absent":      x.CrossEntropy(labels, 0, WithReduction("sum"), WithWeight(none)),
		"bce_with_logits: option 0, WithPosWeight: autodiff: the tensor is absent": x.BCEWithLogits(x, WithPosWeight(none)),
		"l1: option 0 is WithWeight; want":                                         x.L1(x, WithWeight(none)),
		"the tensor was released":                                                  gone.BCE(x),
	} {
		require.ErrorContains(t, y.Err(), want)
	}
}

// Probabilities of exactly 0 and 1 have PyTorch's gradients, which are huge where the answer is wrong.
func TestBCEAtZeroAndOne(t *testing.T) {
	ad := over(None{})
	x := leaf(ad, []float64{0, 1, 1, 0, 1e-50, 0.3, 1 - 0x1p-53})
	y := leaf(ad, []float64{1, 1, 0, 0, 1, 0.25, 0})
	each := x.BCE(y, WithReduction("none"))
	require.InDeltaSlice(t, []float64{100, 0, 100, 0, 100, 0.5685, 36.7368}, list(t, ad.Inner(each)), 1e-4)
	all := grads(t, ad, each, x, y)
	require.InEpsilonSlice(t, []float64{-1e12, 1e12, -1e12, 0.05 / 0.21, 1e12}, []float64{all[0][0], all[0][2], all[0][4], all[0][5], all[0][6]}, 1e-15)
	require.Equal(t, []float64{0, 0}, []float64{all[0][1], all[0][3]})
	require.InDeltaSlice(t, []float64{100, -100, -100, 100, 100, math.Log(7.0 / 3), -36.7368}, all[1], 1e-4)

	outer := New(ad, None{})
	z := outer.FromInner(x).Reshape(-1)
	z = outer.Track(z)
	g, err := outer.Backward(z.BCE(outer.FromInner(y), WithReduction("none")), WithSum())
	require.NoError(t, err)
	dz, _ := outer.Grad(z, g)
	for _, v := range grads(t, ad, dz, x)[0] {
		require.False(t, math.IsNaN(v) || math.IsInf(v, 0))
	}
}
