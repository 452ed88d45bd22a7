package autodiff

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// A network of outer Params is trained by a loss of gradients, and by both losses together, under every strategy: as its
// derivative by hand says.
func TestOuterParamsTrainByGradients(t *testing.T) {
	forStrategies(t, func(t *testing.T, s Strategy) {
		inner := over(s)
		outer := New(inner, s)
		p := NewParams(outer, 1)
		w := p.Add("w", Floats(outer, []float64{2, -3}))
		data := Floats(inner, []float64{0.5, 4})
		x := outer.Track(outer.FromInner(inner.Track(data)))

		// f = sum(w*w*x*x*x), penalty = sum((df/dx)^2) = sum(9*w^4*x^4), its gradient 36*w^3*x^4.
		loss := w.Mul(w).Mul(x.PowScalar(3)).Sum()
		value := outer.Inner(loss)
		g, err := outer.Backward(loss)
		require.NoError(t, err)
		dx, ok := outer.Grad(x, g)
		require.True(t, ok)
		require.True(t, inner.IsTracked(dx))
		second, err := inner.Backward(dx.PowScalar(2).Sum())
		require.NoError(t, err)
		dw, ok := inner.Grad(outer.Inner(w), second)
		require.True(t, ok)
		want := []float64{36 * 8 * 0.0625, 36 * -27 * 256}
		require.Equal(t, want, list(t, dw))
		opt := &Adam{Rate: 0.5}
		require.NoError(t, opt.Step(p, second))
		require.InDeltaSlice(t, []float64{1.5, -2.5}, list(t, w), 1e-6)
		require.NoError(t, opt.Save(filepath.Join(t.TempDir(), "opt"), p))

		// The first gradients step, too, and what saw the elements before says so.
		require.NoError(t, (&SGD{Rate: 0.5}).Step(p, g))
		_, err = inner.Backward(value)
		require.Error(t, err)

		// A loss and its penalty, by Params of the inner backend.
		loss = w.Mul(x).PowScalar(2).Sum()
		value = outer.Inner(loss)
		g, err = outer.Backward(loss)
		require.NoError(t, err)
		dx, _ = outer.Grad(x, g)
		both, err := inner.Backward(value.Add(dx.Sum()))
		require.NoError(t, err)
		below := InnerParams(p)
		of, ok := below.Get("w")
		require.True(t, ok)
		_, ok = inner.Grad(of, both)
		require.True(t, ok)
		before := list(t, w)
		require.NoError(t, (&SGD{Rate: 0.01}).Step(below, both))
		after := list(t, w)
		for i, at := range list(t, data) {
			require.InDelta(t, before[i]-0.01*(2*before[i]*at*at+4*before[i]*at), after[i], 1e-9)
		}
	})
}

// Parameters that are computed on the inner backend keep their place in its graph.
func TestOuterParamsOfInnerResults(t *testing.T) {
	inner := over(None{})
	outer := New(inner, None{})
	w := leaf(inner, []float64{2, 3})
	p := NewParams(outer, 1)
	v := p.Add("v", outer.FromInner(w.Mul(w)))
	g, err := outer.Backward(v.PowScalar(2).Sum())
	require.NoError(t, err)
	dv, _ := outer.Grad(v, g)
	second, err := inner.Backward(dv.Sum())
	require.NoError(t, err)
	dw, ok := inner.Grad(w, second)
	require.True(t, ok)
	require.Equal(t, []float64{8, 12}, list(t, dw)) // of 2*w^2

	// Three levels deep there is a leaf at each.
	top := New(outer, None{})
	u := NewParams(top, 1).Full("u", 2, 1)
	require.True(t, top.IsTracked(u))
	require.True(t, outer.IsTracked(top.Inner(u)))
	require.True(t, inner.IsTracked(outer.Inner(top.Inner(u))))
	require.False(t, inner.IsTracked(outer.Inner(top.Inner(NewParams(top, 1).Buffer("b", 0, 1)))))
}
