package autodiff

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/isobit-ml/isobit/tensor"
)

// What the gradient of a weight is divided by, its own gradient is divided by, too.
func TestSecondGradientByFrequency(t *testing.T) {
	inner := over(None{})
	outer := New(inner, None{})
	at := []int64{2, 0, 2, 3}
	w := outer.Track(Zeros(outer, 4, 1).Cast(tensor.F64))
	for name, look := range map[string]func(u Float[*Autodiff[adf, None]]) Float[*Autodiff[adf, None]]{
		"embedding": func(u Float[*Autodiff[adf, None]]) Float[*Autodiff[adf, None]] {
			return w.Embedding(Ints(outer, at), WithScaleGradByFreq(), WithPaddingIdx(3)).Mul(u)
		},
		"bag": func(u Float[*Autodiff[adf, None]]) Float[*Autodiff[adf, None]] {
			return w.EmbeddingBag(Ints(outer, at), Ints(outer, []int64{0, 1, 2, 3}), Float[*Autodiff[adf, None]]{}, "sum", WithScaleGradByFreq(), WithPaddingIdx(3)).Mul(u)
		},
	} {
		u := inner.Track(Floats(inner, []float64{1, 2, 3, 4}, 4, 1))
		g, err := outer.Backward(look(outer.FromInner(u)), WithSum())
		require.NoError(t, err)
		dw, _ := outer.Grad(w, g)
		require.Equal(t, []float64{2, 0, 2, 0}, list(t, inner.Inner(dw)), name) // (1 + 3) / 2
		du := grads(t, inner, dw.Mul(Floats(inner, []float64{1, 10, 100, 1000}, 4, 1)), u)[0]
		require.Equal(t, []float64{50, 1, 50, 0}, du, name) // none of what was padding
	}
}

// A look-up that scales rows refuses what it cannot scale, and a graph that has seen the rows before says so.
func TestMaxNorm(t *testing.T) {
	ad := over(None{})
	w := leaf(ad, []float64{3, 4, 0.3, 0.4, 6, 8}, 3, 2)
	before := w.Mul(w)
	y := w.Embedding(Ints(ad, []int32{0, 1, 0}), WithMaxNorm(1, 2))
	require.InDeltaSlice(t, []float64{0.6, 0.8, 0.3, 0.4, 0.6, 0.8}, list(t, ad.Inner(y)), 1e-7)
	require.InDeltaSlice(t, []float64{0.6, 0.8, 0.3, 0.4, 6, 8}, list(t, w), 1e-7)
	_, err := ad.Backward(before, WithSum())
	require.ErrorContains(t, err, "changed")
	bag := w.EmbeddingBag(Ints(ad, []int64{2, 1}, 1, 2), Int[adf]{}, Float[adf]{}, "sum", WithMaxNorm(10, math.Inf(1)))
	require.InDeltaSlice(t, []float64{6.3, 8.4}, list(t, ad.Inner(bag)), 1e-12)
	require.Equal(t, [][]float64{{2, 2, 1, 1, 0, 0}}, grads(t, ad, y, w))

	no := Ints(ad, []int64{0})
	for want, err := range map[string]error{
		"embedding_renorm_: the weight is f64[6]; want floats [v, d]": leaf(ad, make([]float64, 6)).Embedding(no, WithMaxNorm(1, 2)).Err(),
		"only a leaf can be changed in place":                         w.Exp().Embedding(no, WithMaxNorm(1, 2)).Err(),
		"norm_type is NaN; want a number":                             w.Embedding(no, WithMaxNorm(1, math.NaN())).Err(),
		"mode \"max\"; want sum or mean":                              w.EmbeddingBag(no, no, Float[adf]{}, "max", WithScaleGradByFreq()).Err(),
		"option 0 is nil":                                             w.Embedding(no, nil).Err(),
	} {
		require.ErrorContains(t, err, want)
	}
}

// Weights of an attention are given where it works, and its error where it does not.
func TestAttentionWeights(t *testing.T) {
	ad := over(None{})
	x := leaf(ad, []float64{1, 2, 3, 4}, 1, 2, 2)
	var w, mean Float[adf]
	blind := Bools(ad, []bool{true, false, false, false}, 2, 2)
	require.NoError(t, x.ScaledDotProductAttention(x, x, blind, WithWeights(&w)).Err())
	require.Equal(t, []float64{1, 0, 0, 0}, list(t, ad.Inner(w)))
	require.Equal(t, []int{1, 2, 2}, w.Shape())
	require.NoError(t, x.ScaledDotProductAttention(x, x, blind, WithMeanWeights(&mean)).Err())
	require.Equal(t, []int{2, 2}, mean.Shape())
	flat := x.Squeeze(0)
	require.ErrorContains(t, flat.ScaledDotProductAttention(flat, flat, blind, WithMeanWeights(&mean)).Err(), "want heads")
	require.ErrorContains(t, mean.Err(), "want heads")
	require.Error(t, x.ScaledDotProductAttention(flat.Exp().Reshape(7), x, blind, WithWeights(&w)).Err())
	require.ErrorContains(t, w.Err(), "reshape")
	var other Float[*CPU]
	require.NoError(t, x.ScaledDotProductAttention(x, x, blind, WithWeights(&other)).Err())
	require.ErrorContains(t, other.Err(), "of another backend")
}

// Weights of keys and values of other features lie within Xavier's bounds, and reach them nearly.
func TestBoundsOfCrossAttention(t *testing.T) {
	p := NewParams(NewCPUThreads(1), 1)
	a := p.CrossAttention("a", 32, 8, 4)
	for _, c := range []struct {
		w        cpuFloat
		features float64
	}{{a.InWeight, 32}, {a.KWeight, 8}, {a.VWeight, 4}} {
		most, err := c.w.Abs().MaxAll().Item()
		require.NoError(t, err)
		bound := math.Sqrt(6 / (32 + c.features))
		require.True(t, 0.9*bound < most && most <= bound, "%g of %g", most, bound)
	}
}

// The third derivative of a maximum is that of the element that it is.
func TestThirdGradientOfMaxPool(t *testing.T) {
	one := over(None{})
	two := New(one, None{})
	three := New(two, None{})
	in := one.Track(Floats(one, []float64{1, 2, 0.5, 3}, 2, 2))
	mid := two.Track(two.FromInner(in))
	x := three.Track(three.FromInner(mid))
	g3, err := three.Backward(x.MaxPool2d(Window{Kernel: [2]int{1, 2}}).PowScalar(3), WithSum())
	require.NoError(t, err)
	d1, _ := three.Grad(x, g3) // 3 m^2
	g2, err := two.Backward(d1.Mul(d1), WithSum())
	require.NoError(t, err)
	d2, _ := two.Grad(mid, g2) // 36 m^3
	d3 := grads(t, one, d2.Mul(d2), in)[0]
	require.InEpsilonSlice(t, []float64{7776 * 32, 7776 * 243}, []float64{d3[1], d3[3]}, 1e-12)
	require.Equal(t, []float64{0, 0}, []float64{d3[0], d3[2]})
}

// Bounds that are themselves allowed.
func TestAtTheBounds(t *testing.T) {
	ad := over(None{})
	x := leaf(ad, []float64{3, 4})
	g, err := ad.Backward(x.Mul(x), WithSum())
	require.NoError(t, err)
	_, err = g.ClipNorm(0)
	require.NoError(t, err)
	dx, _ := ad.Grad(x, g)
	require.Equal(t, []float64{0, 0}, list(t, dx))
	require.NoError(t, g.ClipValue(0))
	image := Floats(ad, []float64{1, 2, 3, 4}, 1, 1, 2, 2)
	require.Equal(t, []int{1, 1, 1, 1}, image.Interpolate(1, 1, SampleMode{}).Shape())
	require.ErrorContains(t, x.MultiheadAttention(1, Attention[adf]{}, Bool[adf]{}).Err(), "multihead_attention: x is f64[2] in 1 heads; want [..., l, d]")
	require.ErrorContains(t, image.MultiheadCrossAttention(x, x, 1, Attention[adf]{}, Bool[adf]{}).Err(), "k is f64[2] and v f64[2]; want [..., s, features] both")
	bad := x.Reshape(7)
	require.Equal(t, bad.Err(), ad.GradReplace(x, g, ad.Inner(bad)))
}
