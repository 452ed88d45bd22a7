package autodiff

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// randomGraph computes something from three leaves, reads results on the way,
// keeps some, and returns everything that came out as text.
func randomGraph(t *testing.T, seed uint64, s Strategy, threads int) string {
	r := rand.New(rand.NewPCG(seed, 0))
	ad := New(NewCPUThreads(threads), s)
	var x []Float[adf]
	for i := range 3 {
		x = append(x, ad.Track(Uniform(ad, seed*3+uint64(i), -1, 1, 4, 4)))
	}
	x = append(x, Uniform(ad, seed+100, -1, 1, 4, 4)) // a constant
	out := ""
	one := func() Float[adf] { return x[max(0, len(x)-1-int(r.ExpFloat64()*4))] }
	var kept []Float[adf]
	for range 30 {
		a, b := one(), one()
		var y Float[adf]
		switch r.IntN(14) {
		case 0:
			y = a.Add(b)
		case 1:
			y = a.Mul(b)
		case 2:
			y = a.MatMul(b).MulScalar(0.5)
		case 3:
			y = a.Tanh()
		case 4:
			y = a.Gelu()
		case 5:
			y = a.Softmax(r.IntN(2))
		case 6:
			y = a.Sub(b.MeanKeep(r.IntN(2)))
		case 7:
			y = a.Transpose(0, 1)
		case 8:
			y = a.SliceAssign(0, 1, b.Slice(0, 0, 2))
		case 9:
			y = a.Linear(b, Float[adf]{}).Relu()
		case 10:
			m, _ := a.Max(1)
			y = m.Unsqueeze(1).Sub(b)
		case 11:
			y = Cat(0, a.Slice(0, 0, 1), b.Slice(0, 1, 4)).Sigmoid()
		case 12:
			y = Where(a.Greater(b), a, b.Exp().Clamp(-2, 2))
		case 13:
			y = a.Reshape(2, 8).CumSum(1).Reshape(4, 4).MulScalar(0.25)
		}
		require.NoError(t, y.Err())
		switch r.IntN(8) {
		case 0:
			out += fmt.Sprintln(list(t, one()))
		case 1:
			kept = append(kept, ad.Keep(y))
		}
		x = append(x, y)
	}
	if !ad.IsTracked(x[len(x)-1]) {
		return ""
	}
	g, err := ad.Backward(x[len(x)-1], WithSum())
	require.NoError(t, err)
	for _, y := range append(x[:3:3], kept...) {
		out += fmt.Sprintln(list(t, y))
		if d, ok := ad.Grad(y, g); ok {
			out += fmt.Sprintln(list(t, d))
		}
	}
	return out
}

// TestRandomGraphs compares graphs of all shapes under all strategies.
func TestRandomGraphs(t *testing.T) {
	splitFinely(t)
	graphs := uint64(300)
	if testing.Short() || raceEnabled {
		graphs = 60
	}
	for seed := range graphs {
		want := randomGraph(t, seed, None{}, 1)
		for i, s := range append(strategies[1:], Budget{700}, Budget{64}) {
			require.Equal(t, want, randomGraph(t, seed, s, i%3+1), "seed %d, %v", seed, s)
		}
	}
}
