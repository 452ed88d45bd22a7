package autodiff

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// What was loaded before the network asked for it is served, too.
func TestInnerParamsOfWhatWasLoaded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "net")
	ad := over(None{})
	p := NewParams(ad, 1)
	p.Full("a", 3, 2)
	p.Full("b", 4, 2)
	require.NoError(t, p.Save(path))
	q := NewParams(ad, 1)
	require.NoError(t, q.Load(path))
	require.Equal(t, []string{"a", "b"}, q.Waiting())
	q.Zeros("a", 2)
	require.Equal(t, []string{"b"}, q.Waiting())
	inner := InnerParams(q)
	require.Equal(t, []float64{3, 3}, list(t, inner.Zeros("a", 2)))
	require.Equal(t, []float64{4, 4}, list(t, inner.Zeros("b", 2)))
	require.Equal(t, []float64{4, 4}, list(t, q.Zeros("b", 2)))

	for _, p := range []*Params[*Autodiff[*CPU, None]]{nil, new(Params[*Autodiff[*CPU, None]]), NewParams(new(Autodiff[*CPU, None]), 1)} {
		require.ErrorIs(t, InnerParams(p).Zeros("a", 2).Err(), errNoBackend)
	}
	bad := NewParams(ad, 1)
	bad.Add("a", Ones(ad, 2).Reshape(3))
	x, ok := InnerParams(bad).Get("a")
	require.True(t, ok)
	require.ErrorContains(t, x.Err(), "reshape")
}

func TestParamsSet(t *testing.T) {
	forStrategies(t, func(t *testing.T, s Strategy) {
		ad := over(s)
		p := NewParams(ad, 1)
		w, mean := p.Full("w", 2, 2), p.Buffer("mean", 0, 2)
		served := InnerParams(p)
		average := NewParams(ad.InnerBackend(), 1)
		a := average.Add("w", Floats(ad.InnerBackend(), []float32{0, 4}))

		loss := w.Exp().Mul(w).Sum()
		inner, _ := served.Get("w")
		require.NoError(t, average.Set("w", a.MulScalar(0.5).Add(inner.MulScalar(0.5))))
		require.Equal(t, []float64{1, 3}, list(t, a))
		require.NoError(t, p.Set("w", w.AddScalar(1))) // of a history of its own
		require.NoError(t, p.Set("mean", Full(ad, 5, 2)))
		require.Equal(t, []float64{3, 3}, list(t, w))
		require.Equal(t, []float64{5, 5}, list(t, mean))
		require.Equal(t, []float64{3, 3}, list(t, inner))
		require.True(t, ad.IsTracked(w))
		_, err := ad.Backward(loss)
		require.ErrorContains(t, err, `"w" f32[2] was changed in place`)
		_, err = ad.Backward(w.Sum())
		require.NoError(t, err)

		bad := p.Add("bad", w.Reshape(3))
		for want, err := range map[string]error{
			`there is no parameter "v" to set`:                                p.Set("v", w),
			`there is no parameter "w" to set; want a name`:                   new(Params[*CPU]).Set("w", a),
			`the parameter "w": autodiff: copy_: y is f32[3]; want f32[2]`:    p.Set("w", Ones(ad, 3)),
			`the parameter "mean": autodiff: copy_: y is f64[2]; want f32[2]`: p.Set("mean", Floats(ad, []float64{1, 2})),
			`the parameter "w": autodiff: reshape`:                            p.Set("w", bad),
			`the parameter "bad": autodiff: reshape`:                          p.Set("bad", w),
			`the parameter "w": autodiff: copy_: y: `:                         p.Set("w", Ones(over(None{}), 2)),
			`the tensor is absent`:                                            p.Set("w", Float[adf]{}),
		} {
			require.ErrorContains(t, err, want)
		}
		require.Equal(t, []float64{3, 3}, list(t, w))
	})
}

// A part's optimizers do what one would do that had a setting for each parameter.
func TestParamsOnly(t *testing.T) {
	path := filepath.Join(t.TempDir(), "part")
	ad := over(None{})
	p := NewParams(ad, 1)
	w, b := p.Linear("l", 3, 2)
	mean := p.Buffer("mean", 1, 2)
	weights := p.Only(func(name string) bool { return strings.HasSuffix(name, ".weight") })
	rest := p.Only(func(name string) bool { return !strings.HasSuffix(name, ".weight") })
	require.Equal(t, []string{"l.weight"}, weights.Names())
	require.Equal(t, []string{"l.bias", "mean"}, rest.Names())
	require.Empty(t, p.Only(nil).Names())

	g, err := ad.Backward(Ones(ad, 1, 3).Linear(w, b), WithSum())
	require.NoError(t, err)
	wantW, wantB := w.Sub(w.MulScalar(0.5).AddScalar(1)), b.SubScalar(1)
	decays := &SGD{Rate: 1, Momentum: 0.5, WeightDecay: 0.5}
	require.NoError(t, decays.Step(weights, g))
	require.NoError(t, (&SGD{Rate: 1}).Step(rest, g))
	require.Equal(t, list(t, wantW), list(t, w))
	require.Equal(t, list(t, wantB), list(t, b))
	require.Equal(t, []float64{1, 1}, list(t, mean))

	// Files have the part alone, and what an optimizer remembers is of the tensors.
	require.NoError(t, weights.Save(path))
	require.NoError(t, p.Set("l.weight", Zeros(ad, 2, 3)))
	require.ErrorContains(t, p.Load(path), `has no parameter "l.bias"`)
	require.NoError(t, weights.Load(path))
	require.Equal(t, list(t, wantW), list(t, w))
	require.NoError(t, decays.Save(path, weights))
	require.NoError(t, (&SGD{Rate: 1, Momentum: 0.5}).Load(path, p))

	// The names are each set's own, and the kinds go with them.
	require.ErrorContains(t, rest.Zeros("mean", 2).Err(), `"mean" is a buffer`)
	require.True(t, ad.IsTracked(weights.Zeros("mean", 2)))
	_, ok := p.Get("l.other")
	require.False(t, ok)
}
