package autodiff

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/isobit-ml/isobit/tensor"
)

// Running statistics follow the training under any strategy, of gradients of gradients too, are no optimizer's
// business, and are saved and served with the parameters, under PyTorch's names.
func TestRunningStatistics(t *testing.T) {
	be := NewCPU()
	x := Normal(be, 1, 2, 3, 4, 2, 3)
	alone := NewParams(be, 1).BatchNorm("bn", 2)
	for range 3 {
		require.NoError(t, x.BatchNorm(alone, true, 0.25, 1e-5).Err())
	}
	want := [][]float64{list(t, alone.RunningMean), list(t, alone.RunningVar)}
	require.NotEqual(t, []float64{0, 0}, want[0])

	path := filepath.Join(t.TempDir(), "net")
	for _, s := range strategies {
		ad := New(be, s)
		above := New(ad, Strategy(None{}))
		p := NewParams(above, 1)
		norm := p.BatchNorm("bn", 2)
		names := []string{"bn.weight", "bn.bias", "bn.running_mean", "bn.running_var"}
		require.Equal(t, names, p.Names())
		require.True(t, above.IsTracked(norm.Bias))
		require.False(t, above.IsTracked(norm.RunningMean))
		leaf := above.Track(above.FromInner(ad.Track(ad.FromInner(x))))
		for range 3 {
			g, err := above.Backward(leaf.BatchNorm(norm, true, 0.25, 1e-5).PowScalar(2).Sum())
			require.NoError(t, err)
			require.NoError(t, (&SGD{Rate: 0.1}).Step(p, g))
		}
		require.False(t, above.IsTracked(norm.RunningMean))
		require.False(t, ad.IsTracked(above.Inner(norm.RunningVar)))
		require.Equal(t, want, [][]float64{list(t, norm.RunningMean), list(t, norm.RunningVar)})

		require.NoError(t, p.Save(path))
		y := list(t, leaf.BatchNorm(norm, false, 0, 1e-5))
		served := NewParams(be, 2)
		require.NoError(t, served.Load(path))
		require.Equal(t, y, list(t, x.BatchNorm(served.BatchNorm("bn", 2), false, 0, 1e-5)))
		again := NewParams(ad, 2)
		norm2 := again.BatchNorm("bn", 2)
		require.NoError(t, again.Load(path))
		require.Equal(t, want[1], list(t, norm2.RunningVar))
		inner := InnerParams(p)
		require.Equal(t, y, list(t, ad.FromInner(x).BatchNorm(inner.BatchNorm("bn", 2), false, 0, 1e-5)))
		require.False(t, ad.IsTracked(inner.BatchNorm("bn", 2).RunningMean))
	}
}

// Statistics of 16 bits round once a step; those of no channels are none.
func TestBatchNormOfOtherTypes(t *testing.T) {
	be := NewCPU()
	half := func(x Float[*CPU]) Float[*CPU] { return x.Cast(tensor.BF16) }
	of := func(make func(Float[*CPU]) Float[*CPU]) BatchNorm[*CPU] {
		one := make(Ones(be, 2))
		return BatchNorm[*CPU]{one, make(Zeros(be, 2)), make(Full(be, 3, 2)), make(Full(be, 5, 2))}
	}
	x := half(Normal(be, 1, 0, 300, 4, 2))
	narrow, wide := of(half), of(func(x Float[*CPU]) Float[*CPU] { return x })
	y := x.BatchNorm(narrow, true, 0.1, 1e-5)
	require.Equal(t, list(t, half(x.Cast(tensor.F32).BatchNorm(wide, true, 0.1, 1e-5))), list(t, y))
	require.Equal(t, list(t, half(wide.RunningVar)), list(t, narrow.RunningVar))
	y = x.BatchNorm(narrow, false, 0, 1e-5)
	require.NoError(t, y.Err())
	require.Equal(t, tensor.BF16, y.DType())

	none := BatchNorm[*CPU]{Zeros(be, 0), Zeros(be, 0), Zeros(be, 0), Zeros(be, 0)}
	for _, train := range []bool{true, false} {
		y := Zeros(be, 2, 0, 3).BatchNorm(none, train, 0.1, 1e-5)
		require.NoError(t, y.Err())
		require.Equal(t, []int{2, 0, 3}, y.Shape())
	}
}

// Parameters of recurrent layers have PyTorch's names.
func TestRecurrentParams(t *testing.T) {
	p := NewParams(NewCPU(), 1)
	p.LSTM("rnn", 0, 5, 3)
	p.GRU("rnn", 1, 3, 2)
	shapes := map[string][]int{}
	for _, name := range p.Names() {
		x, _ := p.Get(name)
		shapes[name] = x.Shape()
	}
	require.Equal(t, map[string][]int{
		"rnn.weight_ih_l0": {12, 5}, "rnn.weight_hh_l0": {12, 3}, "rnn.bias_ih_l0": {12}, "rnn.bias_hh_l0": {12},
		"rnn.weight_ih_l1": {6, 3}, "rnn.weight_hh_l1": {6, 2}, "rnn.bias_ih_l1": {6}, "rnn.bias_hh_l1": {6},
	}, shapes)
}
