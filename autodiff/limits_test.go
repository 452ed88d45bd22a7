package autodiff

import (
	"fmt"
	"math"
	"runtime/debug"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/isobit-ml/isobit/tensor"
)

// TestMemoryOfForwardPasses runs 60,000 forward passes without a backward.
func TestMemoryOfForwardPasses(t *testing.T) {
	if testing.Short() || raceEnabled {
		t.Skip("takes seconds, and the race detector needs memory of its own")
	}
	forStrategies(t, func(t *testing.T, s Strategy) {
		const passes = 60_000
		ad := over(s)
		p := NewParams(ad, 1)
		w1, b1 := p.Linear("a", 64, 64)
		w2, b2 := p.Linear("b", 64, 10)
		x := Normal(ad, 1, 0, 1, 1, 64)
		pass := func() {
			if err := x.Linear(w1, b1).Gelu().Linear(w2, b2).Softmax(1).Err(); err != nil {
				t.Fatal(err)
			}
		}
		for range 10_000 { // what the collector takes for itself
			pass()
		}
		// The system's own account moves by some megabytes; a leak grows every time. One of
		// 25 bytes a pass is found, less than a tensor takes.
		const limit = 1.5e6
		grown := int64(math.MaxInt64)
		for round := 0; round < 4 && grown >= limit; round++ {
			before := resident(t)
			for range passes {
				pass()
			}
			grown = resident(t) - before
			t.Logf("resident memory grew by %.1f MB over %d passes", float64(grown)/1e6, passes)
		}
		require.Less(t, grown, int64(limit))
	})
}

func TestDeepGraph(t *testing.T) {
	forStrategies(t, func(t *testing.T, s Strategy) {
		depth := 50_000 // two nodes each
		if raceEnabled || testing.Short() {
			depth = 10_000
		}
		ad := over(s)
		w := leaf(ad, []float64{1})
		x := w
		for range depth {
			x = x.Sigmoid().MulScalar(4)
		}
		g, err := ad.Backward(x)
		require.NoError(t, err)
		v, ok := ad.Grad(w, g)
		require.True(t, ok)
		require.False(t, math.IsNaN(list(t, v)[0]))
	})
}

// A result of many inputs is differentiated in a time that grows with their number; with
// its square it would be minutes here.
func TestCatOfManyInputs(t *testing.T) {
	const n = 100_000
	ad := New(NewCPUThreads(1), None{})
	w := ad.Track(Ones(ad, 1))
	parts := make([]Float[*Autodiff[*CPU, None]], n)
	for i := range parts {
		parts[i] = w.Neg()
	}
	g, err := ad.Backward(Cat(0, parts[0], parts[1:]...), WithSum())
	require.NoError(t, err)
	d, _ := ad.Grad(w, g)
	require.Equal(t, []float64{-n}, list(t, d))
}

// Texts of another length at every step do not fill the memory with plans.
func TestPlansOfManyShapes(t *testing.T) {
	be := NewCPUThreads(1)
	w := Ones(be, 3, 2)
	for n := range 3 * mostPlans {
		require.NoError(t, w.Embedding(Arange(be, 0, 0, n)).Err())
		require.LessOrEqual(t, len(be.plans.plans), mostPlans)
	}
}

// TestSharing runs chains in which a result is used twice, which must not be
// computed twice as often at every step.
func TestSharing(t *testing.T) {
	forStrategies(t, func(t *testing.T, s Strategy) {
		ad := over(s)
		w := leaf(ad, []float64{1.0000001})
		x := w
		for range 60 {
			x = x.Mul(x).Sqrt()
		}
		g, err := ad.Backward(x)
		require.NoError(t, err)
		v, _ := ad.Grad(w, g)
		require.InDelta(t, 1, list(t, v)[0], 1e-6)
	})
}

// TestWholeNumbersAreLimited fills whole numbers with what they cannot hold: a
// conversion in Go gives something else on every processor.
func TestWholeNumbersAreLimited(t *testing.T) {
	be := NewCPUThreads(1)
	filled := func(d tensor.DType, v float64) string {
		out, err := be.Run(OpFill, &Attr{DType: d, Shape: []int64{1}, Floats: [10]float64{v}})
		require.NoError(t, err)
		view, err := be.View(out[0])
		require.NoError(t, err)
		return fmt.Sprintf("%x", tensor.LittleEndian(view))
	}
	for v, want := range map[float64][2]string{
		1e30:       {"ffffff7f", "ffffffffffffff7f"},
		-1e30:      {"00000080", "0000000000000080"},
		3e9:        {"ffffff7f", "005ed0b200000000"},
		math.NaN(): {"00000000", "0000000000000000"},
		-2.9:       {"feffffff", "feffffffffffffff"},
	} {
		require.Equal(t, want, [2]string{filled(tensor.I32, v), filled(tensor.I64, v)}, "%v", v)
	}
}

// TestGoroutines builds and runs graphs at once over shared parameters.
func TestGoroutines(t *testing.T) {
	forStrategies(t, func(t *testing.T, s Strategy) {
		ad := over(s)
		p := NewParams(ad, 3)
		w, b := p.Linear("layer", 8, 8)
		run := func(seed uint64) (*Gradients[*CPU], error) {
			x := Normal(ad, seed, 0, 1, 4, 8)
			return ad.Backward(x.Linear(w, b).Gelu().Mul(x).PowScalar(2).Mean())
		}
		const n = 8
		var want, got [n]*Gradients[*CPU]
		for i := range n {
			var err error
			want[i], err = run(uint64(i))
			require.NoError(t, err)
		}
		var wg sync.WaitGroup
		for i := range n {
			wg.Go(func() {
				for range 10 {
					g, err := run(uint64(i))
					if err != nil {
						t.Error(err)
						return
					}
					got[i] = g
				}
			})
		}
		wg.Wait()
		for i := range n {
			for _, x := range []Float[adf]{w, b} {
				a, _ := ad.Grad(x, want[i])
				c, ok := ad.Grad(x, got[i])
				require.True(t, ok)
				require.Equal(t, list(t, a), list(t, c))
			}
		}
	})
}

// resident returns the process's resident memory after a collection.
func resident(t *testing.T) int64 {
	t.Helper()
	debug.FreeOSMemory() // beside other programs the collector comes late, and the heap grows
	return residentBytes(t)
}
