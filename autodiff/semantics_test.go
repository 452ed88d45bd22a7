package autodiff

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/isobit-ml/isobit/tensor"
)

// adf is the backend of most tests.
type adf = *Autodiff[*CPU, Strategy]

func over(s Strategy) adf { return New(NewCPUThreads(2), s) }

func leaf(ad adf, x []float64, shape ...int) Float[adf] { return ad.Track(Floats(ad, x, shape...)) }

func list[B Backend](t *testing.T, x Float[B]) []float64 {
	t.Helper()
	v, err := x.Float64s()
	require.NoError(t, err)
	return v
}

func TestTrunkSharedByTwoLosses(t *testing.T) {
	forStrategies(t, func(t *testing.T, s Strategy) {
		ad := over(s)
		w := leaf(ad, []float64{1, 2, 3})
		trunk := ad.Label(w.Mul(w).Tanh(), "trunk")
		first, second := trunk.Sum(), trunk.Exp().Sum()
		g, err := ad.Backward(first)
		require.NoError(t, err)
		require.Equal(t, 1, g.Len())
		// The second pass would go through freed history.
		_, err = ad.Backward(second)
		require.ErrorContains(t, err, `"trunk" f64[3]`)
		require.ErrorContains(t, err, "freed by an earlier Backward")
		// So would the first again.
		_, err = ad.Backward(first)
		require.ErrorContains(t, err, "freed by an earlier Backward")
		// And a value of the trunk cannot be read.
		_, err = trunk.Float64s()
		require.ErrorContains(t, err, "freed by Backward")
		require.ErrorContains(t, trunk.Exp().Err(), "freed by Backward")
	})
}

func TestKeepGraph(t *testing.T) {
	forStrategies(t, func(t *testing.T, s Strategy) {
		ad := over(s)
		w := leaf(ad, []float64{1, 2, 3})
		trunk := w.Gelu().Exp().Mul(w)
		first, second := trunk.Sum(), trunk.PowScalar(2).Sum()
		g1, err := ad.Backward(first, KeepGraph())
		require.NoError(t, err)
		again, err := ad.Backward(first, KeepGraph())
		require.NoError(t, err)
		g2, err := ad.Backward(second)
		require.NoError(t, err)
		a, _ := ad.Grad(w, g1)
		b, _ := ad.Grad(w, again)
		require.Equal(t, list(t, a), list(t, b))

		// Apart, the losses have the same gradients.
		v := leaf(ad, []float64{1, 2, 3})
		alone, err := ad.Backward(v.Gelu().Exp().Mul(v).PowScalar(2).Sum())
		require.NoError(t, err)
		c, _ := ad.Grad(w, g2)
		d, _ := ad.Grad(v, alone)
		require.Equal(t, list(t, d), list(t, c))
	})
}

func TestRootMustBeScalarOrSeeded(t *testing.T) {
	forStrategies(t, func(t *testing.T, s Strategy) {
		ad := over(s)
		w := leaf(ad, []float64{1, 2, 3})
		_, err := ad.Backward(w.Exp())
		require.ErrorContains(t, err, "not one element")
		g, err := ad.Backward(w.MulScalar(2), WithSum())
		require.NoError(t, err)
		x, _ := ad.Grad(w, g)
		require.Equal(t, []float64{2, 2, 2}, list(t, x))

		g, err = ad.Backward(w.MulScalar(2), WithSeed(Floats(ad.InnerBackend(), []float64{1, 10, 100})))
		require.NoError(t, err)
		x, _ = ad.Grad(w, g)
		require.Equal(t, []float64{2, 20, 200}, list(t, x))

		_, err = ad.Backward(w.MulScalar(2), WithSeed(Floats(ad.InnerBackend(), []float64{1, 10})))
		require.ErrorContains(t, err, "the seed is f64[2]")
		_, err = ad.Backward(w.MulScalar(2), WithSeed(Floats(ad.InnerBackend(), []float32{1, 10, 2})))
		require.ErrorContains(t, err, "the seed is f32[3]")
	})
}

func TestLeaves(t *testing.T) {
	forStrategies(t, func(t *testing.T, s Strategy) {
		ad := over(s)
		w := leaf(ad, []float64{3})
		// A leaf is its own root, any number of times.
		for range 2 {
			g, err := ad.Backward(w)
			require.NoError(t, err)
			x, ok := ad.Grad(w, g)
			require.True(t, ok)
			require.Equal(t, []float64{1}, list(t, x))
		}
		// An untracked tensor has no gradient, and cannot be differentiated.
		c := Floats(ad, []float64{2})
		require.False(t, ad.IsTracked(c))
		g, err := ad.Backward(w.Mul(c))
		require.NoError(t, err)
		_, ok := ad.Grad(c, g)
		require.False(t, ok)
		_, err = ad.Backward(c.Exp())
		require.ErrorContains(t, err, "not tracked")
		// Detach leaves the history behind.
		require.False(t, ad.IsTracked(ad.Detach(w)))
		g, err = ad.Backward(w.Mul(ad.Detach(w.Exp())))
		require.NoError(t, err)
		x, _ := ad.Grad(w, g)
		require.InDelta(t, math.Exp(3), list(t, x)[0], 1e-12)
		// Tracking a result makes a leaf of it.
		mid := ad.Track(w.Exp())
		g, err = ad.Backward(mid.MulScalar(2))
		require.NoError(t, err)
		_, ok = ad.Grad(w, g)
		require.False(t, ok)
		x, ok = ad.Grad(mid, g)
		require.True(t, ok)
		require.Equal(t, []float64{2}, list(t, x))
	})
}

func TestKeptValuesAndGradients(t *testing.T) {
	forStrategies(t, func(t *testing.T, s Strategy) {
		ad := over(s)
		w := leaf(ad, []float64{1, 2})
		h := ad.Keep(w.MulScalar(3))
		gone := h.Exp()
		loss := gone.Sum()
		g, err := ad.Backward(loss)
		require.NoError(t, err)
		require.Equal(t, []float64{3, 6}, list(t, h))
		x, ok := ad.Grad(h, g)
		require.True(t, ok)
		require.InDeltaSlice(t, []float64{math.Exp(3), math.Exp(6)}, list(t, x), 1e-9)
		_, err = gone.Float64s()
		require.ErrorContains(t, err, "Keep it before")
		_, err = loss.Item() // the root can be read
		require.NoError(t, err)
		// Its value can be used, but there is no history to differentiate.
		_, err = ad.Backward(h.Sum())
		require.ErrorContains(t, err, "freed by an earlier Backward")
	})
}

func TestGradientsAreAValue(t *testing.T) {
	forStrategies(t, func(t *testing.T, s Strategy) {
		ad := over(s)
		w, v := leaf(ad, []float64{1, 2}), leaf(ad, []float64{5})
		one, err := ad.Backward(w.Sum().Mul(v).Sum())
		require.NoError(t, err)
		two, err := ad.Backward(w.MulScalar(3).Sum())
		require.NoError(t, err)
		done := make(chan *Gradients[*CPU])
		go func() { // another goroutine may have them
			if err := one.Merge(two); err != nil {
				t.Error(err)
			}
			done <- one
		}()
		g := <-done
		x, _ := ad.Grad(w, g)
		require.Equal(t, []float64{8, 8}, list(t, x))
		x, _ = ad.Grad(v, g)
		require.Equal(t, []float64{3}, list(t, x))
		// Merging left the other as it was.
		x, _ = ad.Grad(w, two)
		require.Equal(t, []float64{3, 3}, list(t, x))
		// What only the other has comes over, and is a gradient like the rest.
		require.NoError(t, two.Merge(g))
		x, _ = ad.Grad(v, two)
		require.Equal(t, []float64{3}, list(t, x))
		require.NoError(t, two.Scale(2))
		x, _ = ad.Grad(v, two)
		require.Equal(t, []float64{6}, list(t, x))
		x, _ = ad.Grad(v, g)
		require.Equal(t, []float64{3}, list(t, x))

		norm, err := g.ClipNorm(1)
		require.NoError(t, err)
		require.InDelta(t, math.Sqrt(64+64+9), norm, 1e-12)
		norm, err = g.Norm()
		require.NoError(t, err)
		require.InDelta(t, 1, norm, 1e-12)

		x, ok := ad.GradRemove(w, g)
		require.True(t, ok)
		require.NoError(t, x.Err())
		_, ok = ad.GradRemove(w, g)
		require.False(t, ok)
		require.Equal(t, 1, g.Len())

		cpu := ad.InnerBackend()
		require.ErrorContains(t, ad.GradReplace(w, g, Floats(cpu, []float64{1, 2, 3})), "the gradient is f64[3]; want the type and shape of")
		require.ErrorContains(t, ad.GradReplace(w, g, Floats(cpu, []float32{1, 2})), "the gradient is f32[2]")
		require.ErrorContains(t, ad.GradReplace(Zeros(ad, 2), g, Zeros(cpu, 2)), "not tracked")
		require.NoError(t, ad.GradReplace(w, g, Floats(cpu, []float64{7, 8})))
		same, _ := ad.Grad(w, g)
		require.NoError(t, ad.GradReplace(w, g, same))
		require.NoError(t, same.Exp().Err(), "by itself: nothing is released")
		require.NoError(t, ad.GradReplace(w, g, Floats(cpu, []float64{7, 9})))
		require.ErrorIs(t, same.Exp().Err(), errReleased)
		x, _ = ad.Grad(w, g)
		require.Equal(t, []float64{7, 9}, list(t, x))
	})
}

func TestNothingIsRecordedForUntracked(t *testing.T) {
	forStrategies(t, func(t *testing.T, s Strategy) {
		ad := over(s)
		before := lastID.Load()
		x := Normal(ad, 1, 0, 1, 8, 8)
		y := x.MatMul(x).Relu().Sum()
		require.NoError(t, y.Err())
		require.Equal(t, before, lastID.Load(), "a node was made")
		require.Nil(t, nodeOf(y.v))
	})
}

func TestChangedParameter(t *testing.T) {
	forStrategies(t, func(t *testing.T, s Strategy) {
		ad := over(s)
		p := NewParams(ad, 1)
		w := p.Normal("w", 1, 3)
		loss := w.Mul(w).Sum()
		g, err := ad.Backward(w.Mul(w).Sum())
		require.NoError(t, err)
		require.NoError(t, (&SGD{Rate: 0.1}).Step(p, g))
		_, err = ad.Backward(loss)
		require.ErrorContains(t, err, `"w" f32[3] was changed in place`)
		_, err = ad.Backward(w.Mul(w).Sum())
		require.NoError(t, err)
	})
}

func TestAccessors(t *testing.T) {
	forStrategies(t, func(t *testing.T, s Strategy) {
		ad := over(s)
		cpu := ad.InnerBackend()
		x := leaf(ad, []float64{1, 2})
		in := ad.Inner(x)
		require.Equal(t, []float64{1, 2}, list(t, in))
		in.Release() // a handle of its own
		require.Equal(t, []float64{1, 2}, list(t, x))
		x.Cast(x.DType()).Release() // as well
		Ints(ad, []int64{3}).Cast(tensor.I64).Release()
		require.Equal(t, []float64{1, 2}, list(t, x))
		require.Equal(t, []float64{1, 2}, list(t, ad.FromInner(Floats(cpu, []float64{1, 2}))))
		i := Ints(ad, []int64{1, 2})
		require.Equal(t, tensor.I64, ad.IntFromInner(ad.IntInner(i)).DType())
		b := Bools(ad, []bool{true})
		require.Equal(t, tensor.Bool, ad.BoolFromInner(ad.BoolInner(b)).DType())
		q := ad.Detach(x).QuantizeDynamic(PerTensor(-127, 127))
		back := ad.QFromInner(ad.QInner(q))
		require.NoError(t, back.Err())
		require.InDeltaSlice(t, []float64{1, 2}, list(t, back.Dequantize(tensor.F32)), 0.01)
	})
}
