package autodiff

import (
	"math"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// turnover makes results until what was made before is set aside.
func turnover(w Float[adf]) {
	for range 8 {
		w.Neg()
	}
}

// A pass consumes what lies between the leaves and its root. What else the user
// holds can be read afterwards, whatever the strategy had set aside.
func TestHeldResultsOutlivePasses(t *testing.T) {
	forStrategies(t, func(t *testing.T, s Strategy) {
		ad := over(s)
		w := leaf(ad, []float64{0.5, 0.25})
		h := w.Mul(w)
		before, after := h.MulScalar(2), h.MulScalar(3)
		further := before.AddScalar(1)
		turnover(w)
		after.AddScalar(0) // in the ring again
		_, err := ad.Backward(h.Exp().Sum())
		require.NoError(t, err)
		turnover(w)
		require.Equal(t, []float64{0.5, 0.125}, list(t, before))
		require.Equal(t, []float64{0.75, 0.1875}, list(t, after))
		require.Equal(t, []float64{1.5, 1.125}, list(t, further))
		_, err = h.Float64s()
		require.ErrorContains(t, err, "freed by Backward")

		// So can what is computed from a kept result, or from the root.
		k := ad.Keep(w.Exp())
		loss := k.Sum()
		_, err = ad.Backward(loss)
		require.NoError(t, err)
		want := list(t, k)
		same, total := k.MulScalar(1), loss.Add(loss)
		next := total.Mul(total)
		turnover(w)
		require.Equal(t, want, list(t, same))
		sum := want[0] + want[1]
		require.Equal(t, []float64{2 * sum}, list(t, total))
		require.Equal(t, []float64{4 * sum * sum}, list(t, next))
	})
}

// A step changes parameters, not what was computed from them before.
func TestHeldResultsOutliveSteps(t *testing.T) {
	forStrategies(t, func(t *testing.T, s Strategy) {
		ad := over(s)
		p := NewParams(ad, 1)
		w, v := p.Full("w", 0.5, 2), p.Full("v", 2, 2)
		g, err := ad.Backward(w.Mul(w).Add(v).Sum())
		require.NoError(t, err)
		var held []Float[adf]
		for range 100 { // more than are brought back unasked
			held = append(held, w.Gelu().Mul(v), w.Reshape(1, 2).AddScalar(1))
		}
		turnover(w)
		require.NoError(t, (&SGD{Rate: 0.5}).Step(p, g))
		turnover(w)
		for i, x := range held {
			require.InDelta(t, []float64{0.6914624612740131, 1.5}[i%2], list(t, x)[0], 1e-6)
		}
	})
}

// Results that nobody asked for do not hinder those that goroutines share.
func TestHeldResultsOfManyGoroutines(t *testing.T) {
	forStrategies(t, func(t *testing.T, s Strategy) {
		ad := over(s)
		w := leaf(ad, []float64{0.5, 0.25})
		trunk := ad.Label(w.Mul(w).Tanh(), "trunk")
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				for range 50 {
					kept := ad.Keep(w.Exp().MulScalar(2))
					_, err := ad.Backward(kept.Sum())
					if err == nil {
						_, err = kept.Float64s()
					}
					// A second pass through the trunk at once is an error.
					_, _ = ad.Backward(trunk.Mul(trunk).Sum(), KeepGraph())
					if err == nil {
						err = trunk.Exp().Err()
					}
					if err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		wg.Wait()
	})
}

// A handle that went through the inner backend is a result's as the first one is.
func TestKeepOfAnotherHandle(t *testing.T) {
	forStrategies(t, func(t *testing.T, s Strategy) {
		below := over(s)
		above := New(below, s)
		x := leaf(below, []float64{1, 2})
		c := below.Keep(above.Inner(above.FromInner(x.Mul(x))))
		g, err := below.Backward(c.Exp().Sum())
		require.NoError(t, err)
		require.Equal(t, []float64{1, 4}, list(t, c))
		d, ok := below.Grad(c, g)
		require.True(t, ok)
		require.Equal(t, list(t, Floats(below, []float64{1, 4}).Exp()), list(t, d))
	})
}

// A leaf may share the elements of a computed tensor. A graph that needs those says
// that a step has changed them.
func TestComputedTensorsThatChange(t *testing.T) {
	ad := over(None{})
	w := leaf(ad, []float64{0.5, 1})
	h := w.Exp()
	p := NewParams(ad, 1)
	g, err := ad.Backward(p.Add("l", h).Sum())
	require.NoError(t, err)
	before, sum := h.Mul(h), h.Sum()
	require.NoError(t, (&SGD{Rate: 1}).Step(p, g))
	for _, y := range []Float[adf]{before, sum, h.Mul(h)} {
		_, err = ad.Backward(y, WithSum(), KeepGraph())
		require.ErrorContains(t, err, "exp#")
		require.ErrorContains(t, err, "was changed in place")
	}
}

// A pass of the inner backend frees what its own graph made. What is set aside above it
// is computed again without.
func TestHeldResultsOutlivePassesBelow(t *testing.T) {
	forStrategies(t, func(t *testing.T, s Strategy) {
		below := over(None{})
		above := New(below, s)
		x := leaf(below, []float64{1, 3})
		y := above.Track(above.FromInner(x))
		shared := y.Reshape(2, 1) // has the leaf's elements, so that it is not set aside
		held := shared.Log1p()
		for range 8 {
			y.Neg()
		}
		g, err := above.Backward(shared.Mul(shared).Sum(), KeepGraph())
		require.NoError(t, err)
		d, _ := above.Grad(y, g)
		_, err = below.Backward(d.Sum())
		require.NoError(t, err)
		require.Equal(t, []float64{math.Ln2, 2 * math.Ln2}, list(t, held))
		g, err = above.Backward(held.Sum())
		require.NoError(t, err)
		d, _ = above.Grad(y, g)
		require.Equal(t, []float64{0.5, 0.25}, list(t, d))
	})
}

// A gradient operation has several results. What is computed from one of them comes back as that, not as what
// the first one would give.
func TestHeldResultsOfFurtherResults(t *testing.T) {
	forStrategies(t, func(t *testing.T, s Strategy) {
		ad := over(s)
		x, scale := leaf(ad, []float64{0.3, 9, -9}), leaf(ad, []float64{1, 1, 1})
		scheme := PerChannel(0, -8, 7)
		out, err := ad.Run(OpFakeQuantizeBackward, &Attr{Scheme: &scheme}, leaf(ad, []float64{1, 1, 1}).v, x.v, scale.v, nil)
		require.NoError(t, err)
		of := func(i int) Float[adf] { return Float[adf]{Tensor[adf]{be: ad, v: out[i]}} }
		var held [2][]Float[adf]
		for k := range 20 {
			for i := range held {
				held[i] = append(held[i], of(i).MulScalar(float64(k)))
			}
		}
		for k := range 20 {
			n := float64(k)
			require.Equal(t, []float64{n, 0, 0}, list(t, held[0][k]))
			require.InDeltaSlice(t, []float64{-0.3 * n, 7 * n, -8 * n}, list(t, held[1][k]), 1e-12)
		}
		_, err = ad.Backward(held[1][3], WithSum())
		require.ErrorContains(t, err, "fake_quantize_backward has no gradient rule")
	})
}
