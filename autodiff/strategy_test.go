package autodiff

import (
	"math"
	"runtime"
	"runtime/debug"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// nothing is a strategy as a user may write one: it gives up everything.
type nothing struct{}

func (nothing) Keep(Candidate) bool { return false }
func (nothing) Limit() int64        { return math.MaxInt64 }
func (nothing) String() string      { return "nothing" }

// counting is a backend that counts its operations.
type counting struct {
	*CPU
	mu sync.Mutex
	n  map[Op]int
}

func (c *counting) Run(op Op, at *Attr, in ...Value) (Outputs, error) {
	c.mu.Lock()
	c.n[op]++
	c.mu.Unlock()
	return c.CPU.Run(op, at, in...)
}

// chain is layers of a product and a function that is bound by memory.
func chain(ad *Autodiff[*counting, Strategy], p *Params[*Autodiff[*counting, Strategy]], layers int) Float[*Autodiff[*counting, Strategy]] {
	h := Normal(ad, 1, 0, 1, 512, 16)
	for i := range layers {
		w := p.Normal(string(rune('a'+i)), 0.25, 16, 16)
		h = h.MatMul(w).Gelu().MulScalar(1.5)
	}
	return h
}

// TestWhatIsComputedAgain counts operations: None repeats nothing, Balanced
// what is bound by memory, Budget anything, and each value at most once.
func TestWhatIsComputedAgain(t *testing.T) {
	const layers = 10
	// Buffers that a collection takes from the graph would be made again.
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	run := func(s Strategy) (forward, backward map[Op]int, buffers int64) {
		be := &counting{CPU: NewCPUThreads(1), n: map[Op]int{}}
		ad := New(be, s)
		p := NewParams(ad, 1)
		loss := chain(ad, p, layers).Mean()
		require.NoError(t, loss.Err())
		forward, be.n = be.n, map[Op]int{}
		_, err := ad.Backward(loss)
		require.NoError(t, err)
		buffers, _ = be.MemoryStats()
		return forward, be.n, buffers
	}
	forward, backward, none := run(None{})
	require.Equal(t, layers, forward[OpMatMul])
	// A product per weight, and one per layer's input but the first.
	products := 2*layers - 1
	require.Equal(t, products, backward[OpMatMul])
	require.Zero(t, backward[OpGelu])

	_, backward, balanced := run(Balanced{})
	require.Equal(t, products, backward[OpMatMul], "a product was computed again")
	require.Equal(t, layers-1, backward[OpGelu], "each at most once, and the last is not needed")

	_, backward, budget := run(Budget{100_000})
	require.LessOrEqual(t, backward[OpMatMul], products+layers)
	require.Greater(t, backward[OpMatMul], products)
	require.LessOrEqual(t, backward[OpGelu], layers)

	_, backward, nothing := run(Budget{0})
	require.LessOrEqual(t, backward[OpMatMul], products+layers)
	require.LessOrEqual(t, backward[OpGelu], layers)
	t.Logf("bytes of buffers: none %d, balanced %d, budget of 100,000 %d, of 0 %d", none, balanced, budget, nothing)
	require.Less(t, balanced, none)
	require.Less(t, budget, balanced)
}

// TestSetAside reads results long after a strategy has let go of them.
func TestSetAside(t *testing.T) {
	want := map[int][]float64{}
	forStrategies(t, func(t *testing.T, s Strategy) {
		ad := over(s)
		w := leaf(ad, []float64{0.5, 0.25, -1})
		var all []Float[adf]
		x := w
		for range 40 {
			x = x.Gelu().AddScalar(0.1)
			all = append(all, x)
		}
		for i, y := range all {
			if want[i] == nil {
				want[i] = list(t, y)
			}
			require.Equal(t, want[i], list(t, y), "result %d", i)
		}
		// They can be computed with, too.
		g, err := ad.Backward(all[3].Mul(all[20]).Add(all[39]).Sum())
		require.NoError(t, err)
		d, ok := ad.Grad(w, g)
		require.True(t, ok)
		if want[-1] == nil {
			want[-1] = list(t, d)
		}
		require.Equal(t, want[-1], list(t, d))
	})
}

func TestKeepOfSetAside(t *testing.T) {
	ad := over(Budget{0})
	w := leaf(ad, []float64{0.5, 0.25})
	early := w.Gelu()
	x := early
	for range 20 {
		x = x.Gelu()
	}
	require.Nil(t, early.v.(*variable).value, "was not set aside")
	ad.Keep(early)
	_, err := ad.Backward(x.Sum())
	require.NoError(t, err)
	require.Equal(t, list(t, w.Gelu()), list(t, early))
}

// TestBudgetForgetsDroppedGraphs drops graphs whose results fill a budget:
// the next one has it for itself.
func TestBudgetForgetsDroppedGraphs(t *testing.T) {
	be := &counting{CPU: NewCPUThreads(1), n: map[Op]int{}}
	ad := New[*counting, Strategy](be, Budget{200_000})
	p := NewParams(ad, 1)
	for range 5 {
		require.NoError(t, chain(ad, p, 10).Err())
		runtime.GC()
	}
	loss := chain(ad, p, 4).Mean()
	be.n = map[Op]int{}
	_, err := ad.Backward(loss)
	require.NoError(t, err)
	require.Equal(t, 7, be.n[OpMatMul], "a product was computed again")
}

// A strategy may give up any result, whatever goes into it.
func TestOwnStrategy(t *testing.T) {
	want := [][]float64(nil)
	for _, s := range []Strategy{None{}, nothing{}} {
		be := &counting{CPU: NewCPUThreads(1), n: map[Op]int{}}
		ad := New(be, s)
		w, c := ad.Track(Normal(ad, 1, 0, 1, 4, 4)), Normal(ad, 2, 0, 1, 4, 4)
		h := w.MatMul(c).Tanh().Linear(c, Float[*Autodiff[*counting, Strategy]]{}).Exp()
		loss := Cat(0, h, c.Add(c), c).CumSum(1).PowScalar(2).Sum()
		be.n = map[Op]int{}
		g, err := ad.Backward(loss)
		require.NoError(t, err)
		dw, _ := ad.Grad(w, g)
		want = append(want, list(t, dw))
		require.Equal(t, want[0], want[len(want)-1])
		if s == (nothing{}) {
			require.Equal(t, [2]int{1, 1}, [2]int{be.n[OpMatMul] - 2, be.n[OpLinear]}, "each once, but for two that are gradients")
		}
	}
}

// Balanced gives up nothing for constants as large, which it would have to hold.
func TestBalancedHoldsNoConstantsInVain(t *testing.T) {
	made := func(s Strategy) int64 {
		defer debug.SetGCPercent(debug.SetGCPercent(-1))
		be := NewCPUThreads(1)
		ad := New(be, s)
		h := ad.Track(Zeros(ad, 100, 100))
		for i := range 50 {
			noise, before := Normal(ad, uint64(i), 0, 1, 100, 100), h
			h = h.Add(noise)
			noise.Release()
			if i > 0 {
				before.Release()
			}
		}
		_, err := ad.Backward(h, WithSum())
		require.NoError(t, err)
		bytes, _ := be.MemoryStats()
		return bytes
	}
	require.LessOrEqual(t, made(Balanced{}), made(None{}))
}

// Positions count, too, though they cannot be given up.
func TestBudgetCountsPositions(t *testing.T) {
	ad := over(Budget{100_000})
	w := ad.Track(Normal(ad, 1, 0, 1, 1000))
	for range 8 {
		w, _ = w.Exp().Sort(0)
	}
	e := ad.engine
	require.GreaterOrEqual(t, e.keep.total, int64(8*8*1000), "positions")
	require.LessOrEqual(t, e.keep.total, int64(100_000))
	for range 8 {
		w, _ = w.Exp().Sort(0)
	}
	require.LessOrEqual(t, e.keep.total, int64(16*8*1000+4*1000), "and at most one result")
	_, err := ad.Backward(w, WithSum())
	require.NoError(t, err)
	require.Zero(t, e.keep.total)
}

// Balanced computes up to eight operations in a row again, and keeps what the ninth gives.
func TestBalancedKeepsEveryNinthOfAChain(t *testing.T) {
	ad := over(Balanced{})
	x := leaf(ad, []float64{0.5, 0.25, -1})
	var all []Float[adf]
	for range 20 {
		x = x.Gelu()
		all = append(all, x)
	}
	var kept []int
	for i, y := range all {
		if nodeOf(y.v).val != nil {
			kept = append(kept, i+1)
		}
	}
	require.Equal(t, []int{9, 18}, kept)
}
