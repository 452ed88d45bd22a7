package plans_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/isobit-ml/isobit/internal/testcase"
	"github.com/isobit-ml/isobit/plans"
)

// onGoroutines is a thread pool that makes some calls too few or too many.
func onGoroutines(more int, asked *atomic.Int64) plans.Parallel {
	return func(ticket, maxThreads int) {
		asked.Add(1)
		var wg sync.WaitGroup
		for i := range max(0, maxThreads+more) {
			wg.Go(func() { plans.Work(ticket, i) })
		}
		wg.Wait()
	}
}

// Large cases give the definition's bits on the program's own threads.
func TestParallel(t *testing.T) {
	defer plans.SetParallelCost(1 << 10)()
	defer plans.SetParallel(nil)
	var asked atomic.Int64
	forEachOp(t, testcase.Large, 2, func(t *testing.T, c *testcase.Case, _ *rand.Rand) {
		want := run(t, c, definition)
		for _, more := range []int{0, -1, -8, 3} {
			plans.SetParallel(onGoroutines(more, &asked))
			same(t, c, testcase.Options{Preference: plans.Preference{Threads: 4}}, want, fmt.Sprint("host's threads, more ", more))
		}
	})
	require.Positive(t, asked.Load(), "no run asked for the program's threads")
}

// More calls at once than there are tickets, and panics among them.
func TestParallelIsShared(t *testing.T) {
	defer plans.SetParallelCost(1 << 10)()
	c := caseOf(t, testcase.Large, "fake_quantize_per_tensor x=f32[100,1000] qmin=-128 qmax=127")
	want := run(t, c, definition)
	plan, err := plans.Select(0, c.Problem, plans.Preference{Threads: 2})
	require.NoError(t, err)
	var asked, panics atomic.Int64
	plans.SetParallel(onGoroutines(0, &asked))
	defer plans.SetParallel(nil)
	var jobs atomic.Int64
	defer plans.SetBeforeJob(func(int) {
		if jobs.Add(1)%100 == 0 {
			panic("a bug in a kernel")
		}
	})()
	var wg sync.WaitGroup
	for range 100 {
		placed, workspace, free := c.Place(plan, testcase.Options{})
		defer free()
		wg.Go(func() {
			for range 5 {
				failed := func() (failed bool) {
					defer func() { failed = recover() != nil }()
					if err := plan.Run(0, workspace, placed.Views()); err != nil {
						t.Error(err)
					}
					return false
				}()
				if failed {
					panics.Add(1)
				} else if err := c.Compare(placed.Outputs(c), want); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	require.Positive(t, asked.Load())
	require.Positive(t, panics.Load())
}

// A host that returns before its calls, which then are this run's, another's or
// nobody's; some are too many.
func TestParallelThatDoesNotWait(t *testing.T) {
	defer plans.SetParallelCost(1 << 10)()
	defer plans.SetParallel(nil)
	defer plans.SetBeforeJob(func(worker int) {
		if worker > 0 {
			time.Sleep(time.Millisecond) // jobs that last longer than the caller's
		}
	})()
	var calls sync.WaitGroup
	plans.SetParallel(func(ticket, maxThreads int) {
		for i := range maxThreads + 3 {
			calls.Go(func() { plans.Work(ticket, math.MaxInt-i) }) // threads have any number
		}
		runtime.Gosched()
	})
	for _, text := range []string{
		"fake_quantize_per_tensor x=f32[100,1000] qmin=-128 qmax=127",
		"grid_sample_backward grad_output=f64[8,2,20,20] input=f64[8,2,9,9] grid=f64[8,20,20,2]", // each worker has memory of its own
	} {
		c := caseOf(t, testcase.Large, text)
		want := run(t, c, definition)
		for range 100 {
			same(t, c, testcase.Options{Preference: plans.Preference{Threads: 4}}, want, "a host that does not wait")
		}
	}
	calls.Wait()
}

// A host that panics, as often as there are tickets and once more, and calls of
// Work that belong to no run.
func TestParallelThatPanics(t *testing.T) {
	defer plans.SetParallelCost(1 << 10)()
	defer plans.SetParallel(nil)
	c, err := testcase.NewCase(testcase.NewSource(1, testcase.Large), "fake_quantize_per_tensor x=f32[100,1000] qmin=-128 qmax=127")
	require.NoError(t, err)
	want := run(t, c, definition)
	o := testcase.Options{Preference: plans.Preference{Threads: 2}}
	tickets := map[int]bool{}
	plans.SetParallel(func(ticket, _ int) {
		tickets[ticket] = true
		plans.Work(ticket, -1)
		panic("a bug in the host")
	})
	for range 100 {
		require.PanicsWithValue(t, "a bug in the host", func() { c.Run(o) })
	}
	require.Len(t, tickets, 1, "tickets are given back")
	var asked atomic.Int64
	plans.SetParallel(onGoroutines(0, &asked))
	same(t, c, o, want, "after the panics")
	require.Positive(t, asked.Load())
	for _, ticket := range []int{-1, 0, 63, 64, 1 << 30} {
		plans.Work(ticket, 0)
	}
}
