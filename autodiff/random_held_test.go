package autodiff

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// held runs a random program that computes, differentiates, steps, drops and
// reads, and returns what it read.
func held(t *testing.T, seed uint64, s Strategy) (log []string) {
	r := rand.New(rand.NewPCG(seed, 1))
	ad := over(s)
	p := NewParams(ad, seed)
	a, b := p.Uniform("a", 1, 3), p.Uniform("b", 1, 3)
	all := []Float[adf]{a, b, a.Mul(b)}
	pick := func() Float[adf] { return all[r.IntN(len(all))] }
	read := func(x Float[adf]) {
		v, err := x.Float32s()
		if err != nil {
			v = nil
			require.True(t, strings.Contains(err.Error(), "freed by Backward"), err)
		}
		log = append(log, fmt.Sprint(len(log), v, err == nil))
	}
	// Of a graph that saw other elements, None may need none of them: steps are the same.
	steps, err := ad.Backward(a.Add(b), WithSum())
	require.NoError(t, err)
	for range 120 {
		x := pick()
		switch r.IntN(16) {
		case 0, 1:
			all = append(all, x.Mul(pick()))
		case 2, 3:
			all = append(all, x.Tanh(), x.AddScalar(0.5))
		case 4:
			all = append(all, x.Add(Uniform(ad, r.Uint64(), -1, 1, 3)), x.Reshape(1, 3).Reshape(3))
		case 5:
			m, _ := x.Reshape(3, 1).Expand(3, 2).Sort(0)
			all = append(all, m.Sum(1), x.Reshape(1, 3).MatMul(pick().Reshape(3, 1)).Add(x))
		case 6, 7:
			for range 8 {
				x.Neg()
			}
		case 8:
			ad.Keep(x)
		case 9:
			runtime.GC()
		case 10:
			if len(all) > 6 {
				i := 2 + r.IntN(len(all)-2)
				all = append(all[:i], all[i+1:]...)
			}
		case 11, 12:
			var options []BackwardOption
			if r.IntN(3) == 0 {
				options = []BackwardOption{KeepGraph()}
			}
			_, _ = ad.Backward(x, append(options, WithSum())...)
		case 13:
			require.NoError(t, (&SGD{Rate: 0.01}).Step(p, steps))
		default:
			read(x)
		}
		all = all[max(0, len(all)-40):]
		all[0], all[1] = a, b
	}
	for _, x := range all {
		read(x)
	}
	return log
}

// TestRandomProgramsHoldTheSame compares what can be read, and its bits.
func TestRandomProgramsHoldTheSame(t *testing.T) {
	n := uint64(60)
	if testing.Short() || raceEnabled {
		n = 20
	}
	for seed := range n {
		want := held(t, seed, None{})
		for _, s := range strategies[1:] {
			require.Equal(t, want, held(t, seed, s), "seed %d, %v", seed, s)
		}
	}
}
