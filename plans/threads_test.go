package plans_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/isobit-ml/isobit/internal/testcase"
	"github.com/isobit-ml/isobit/plans"
)

var threadCounts = []int{1, 2, 3, 8}

// patience is how long a worker waits for another one that has to come.
const patience = 60 * time.Millisecond

// fanOut counts the workers that take jobs while f runs. One that is alone waits
// for a second one to come, in its first jobs: they may be over before it is there,
// and of a stage of one job none comes.
func fanOut(wait time.Duration, f func()) int {
	var mu sync.Mutex
	seen, alone := map[int]bool{}, 0
	defer plans.SetBeforeJob(func(worker int) {
		mu.Lock()
		seen[worker] = true
		first := len(seen) == 1 && alone < 4
		alone++
		mu.Unlock()
		for start := time.Now(); first && time.Since(start) < wait; time.Sleep(100 * time.Microsecond) {
			mu.Lock()
			first = len(seen) == 1
			mu.Unlock()
		}
	})()
	f()
	return len(seen)
}

// Large cases give the definition's bits on any number of threads.
func TestThreads(t *testing.T) {
	defer plans.SetParallelCost(1 << 10)()
	most := map[string]int{}
	test := func(t *testing.T, c *testcase.Case, r *rand.Rand) {
		c.ExpandParams(r)
		want := defined(t, c)
		for _, n := range threadCounts {
			o := testcase.Options{Preference: plans.Preference{Row: anyRow(r, c), Threads: n}}
			switch n {
			case 2:
				o.Layout, o.Params = testcase.Alike(r), testcase.Mixed(r)
			case 3:
				o.Layout = testcase.Mixed(r)
			}
			wait := patience
			if n == 1 || most[c.Op.Name] > 1 { // none has to come
				wait = time.Millisecond
			}
			workers := fanOut(wait, func() { same(t, c, o, want, "threads") })
			require.LessOrEqual(t, workers, n)
			most[c.Op.Name] = max(most[c.Op.Name], workers)
		}
	}
	cases := 2
	if testing.Short() { // under the race detector, where the definition takes long
		cases = 1
	}
	forEachOp(t, testcase.Wide, cases, test)
	forEachOp(t, testcase.Large, cases, test)
	// Packed codes, of which rows or groups end in the middle of a byte where a
	// job would.
	for _, text := range []string{
		"quantize_per_tensor x=f32[40003,3] q=s4 qmin=-8 qmax=7",
		"quantize_per_channel x=f32[1000,129] q=u4 axis=1 qmin=0 qmax=15",
		"dynamic_quantize_per_group x=f32[1000,129] q=s4 group_size=31 qmin=-8 qmax=7",
		"dequantize_per_channel_backward grad_output=f32[1000,129] q=s4 grad_scale=f32 axis=1 qmin=-8 qmax=7",
		"dequantize_per_block_backward grad_output=f32[500,259] q=u4 grad_scale=f32 block_size=[16,15] qmin=0 qmax=15",
		"dequantize_per_block_backward grad_output=f32[128,260] q=s8 zero_point=f32 grad_input=none grad_scale=f32 grad_zero_point=f32 block_size=[16,16] qmin=-128 qmax=127",
		"fake_quantize_per_block_backward grad_output=f32[70,300] zero_point=f32 grad_scale=f32 grad_zero_point=f32 block_size=[3,32] qmin=-128 qmax=127",
		"fake_quantize_per_block_backward grad_output=bf16[70,600] zero_point=f32 grad_scale=f32 grad_zero_point=f32 block_size=[7,128] qmin=-128 qmax=127",
		"fake_quantize_per_block_backward grad_output=f64[12,90] scale=f64 zero_point=none grad_scale=f64 grad_zero_point=none block_size=[5,8] qmin=-128 qmax=127",
		"dynamic_quantize_per_block x=f32[130,700] q=s8 block_size=[5,300] qmin=-128 qmax=127",
		"dynamic_quantize_per_block x=f32[130,700] q=s8 zero_point=i32 symmetric=false block_size=[64,16] qmin=-128 qmax=127",
		"choose_qparams_per_block x=f16[60,230] block_size=[4,23] qmin=-128 qmax=127",
	} {
		c := finiteCase(t, text)
		want := defined(t, c)
		for range 5 {
			same(t, c, testcase.Options{Preference: plans.Preference{Threads: 8}}, want, "threads")
		}
	}
	for op, workers := range most {
		require.Greater(t, workers, 1, "%s never ran on two threads", op)
	}
}

// The process-wide count is used where the preference names none.
func TestSetNumThreads(t *testing.T) {
	defer plans.SetNumThreads(0)
	c := caseOf(t, testcase.Large, "fake_quantize_per_tensor x=f32[1000,1000] qmin=-128 qmax=127")
	want := defined(t, c)
	for _, n := range threadCounts {
		require.NoError(t, plans.SetNumThreads(n))
		require.Equal(t, n, plans.NumThreads())
		wait := patience
		if n > 1 { // one has to come, however busy the machine is
			wait = 10 * time.Second
		}
		workers := fanOut(wait, func() { same(t, c, testcase.Options{}, want, "threads") })
		require.LessOrEqual(t, workers, n)
		require.Equal(t, n > 1, workers > 1)
	}
	require.NoError(t, plans.SetNumThreads(0))
	require.Equal(t, runtime.GOMAXPROCS(0), plans.NumThreads())
	for _, n := range []int{-1, plans.MaxThreads + 1} {
		e := requireKind(t, plans.SetNumThreads(n), plans.InvalidArgument)
		require.Equal(t, fmt.Sprintf("SetNumThreads: n is %d; want 0 to 1024", n), e.Error())
	}
}

// A plan is shared by 8 goroutines, each with tensors of its own.
func TestConcurrentRuns(t *testing.T) {
	defer plans.SetParallelCost(1)()
	forEachOp(t, testcase.Small, 1, func(t *testing.T, c *testcase.Case, _ *rand.Rand) { shareAPlan(t, c, 10) })
	for _, text := range []string{
		"fake_quantize_per_channel_backward grad_output=f32[3,70000] zero_point=f32 grad_scale=f32 grad_zero_point=f32 axis=0 qmin=-128 qmax=127",
		"embedding_backward grad_output=f32[9000,8] indices=i64[9000] grad_weight=f32[20,8]",
		"grid_sample_backward grad_output=f32[4,3,50,60] input=f32[4,3,9,9] grid=f32[4,50,60,2]",
		"grid_sample_backward grad_output=f32[4,3,50,60] input=f32[4,3,9,9] grid=f32[4,50,60,2] mode=bicubic",
		"grid_sample_backward grad_output=f32[2,3,3,20,30] input=f32[2,3,4,5,6] grid=f32[2,3,20,30,3] mode=bicubic padding_mode=border",
		"grid_sample_double_backward grad_output=f32[4,3,50,60] input=f32[4,3,9,9] grid=f32[4,50,60,2]",
	} {
		c := caseOf(t, testcase.Large, text)
		shareAPlan(t, c, 2)
	}
}

func shareAPlan(t *testing.T, c *testcase.Case, runs int) {
	want := defined(t, c)
	plan, err := plans.Select(0, c.Problem, plans.Preference{Threads: 2})
	require.NoError(t, err)
	var wg sync.WaitGroup
	for range 8 {
		placed, workspace, free := c.Place(plan, testcase.Options{})
		defer free()
		wg.Go(func() {
			for range runs {
				placed.Reset(c)
				if err := plan.Run(0, workspace, placed.Views()); err != nil {
					t.Error(c.Text, err)
				} else if err := c.Compare(placed.Outputs(c), want); err != nil {
					t.Error(c.Text, err)
				}
			}
		})
	}
	wg.Wait()
}

// A panic in a job surfaces in the caller, on every thread count, and the
// library works on as before.
func TestPanicInAJobReachesTheCaller(t *testing.T) {
	c := caseOf(t, testcase.Large, "fake_quantize_per_tensor x=f32[1000,1000] qmin=-128 qmax=127")
	want := defined(t, c)
	defer plans.SetParallelCost(1000)()
	for _, n := range threadCounts {
		for _, failing := range []int{0, n - 1} {
			o := testcase.Options{Preference: plans.Preference{Threads: n}}
			var once sync.Once
			begun := make(chan struct{}) // for which the others leave it a job
			restore := plans.SetBeforeJob(func(worker int) {
				if worker == failing {
					once.Do(func() { close(begun) })
					panic("a bug in a kernel")
				}
				select {
				case <-begun:
				case <-time.After(5 * time.Second):
				}
			})
			message := func() (v any) {
				defer func() { v = recover() }()
				c.Run(o)
				return nil
			}()
			restore()
			require.NotNil(t, message, "worker %d of %d", failing, n)
			require.Contains(t, fmt.Sprint(message), "a bug in a kernel")
			same(t, c, o, want, "after a panic")
		}
	}
}

// A limit of the workspace lowers the number of threads, where each has a part of it. One byte less
// than all need took matmul to the definition, and was an error of grid_sample_backward, whose
// definition needs as much.
func TestWorkspaceLimitLowersThreads(t *testing.T) {
	for text, without := range map[string]bool{ // whether the definition needs none
		"matmul input=f32[300,200] other=f32[200,300]":                                             true,
		"grid_sample_backward grad_output=f32[2,3,20,20] input=f32[2,3,30,20] grid=f32[2,20,20,2]": false,
	} {
		c := caseOf(t, testcase.Small, text)
		within := func(threads int, limit int64) (plans.Plan, error) {
			return plans.Select(0, c.Problem, plans.Preference{Threads: threads, MaxWorkspace: limit})
		}
		one, err := within(1, 0)
		require.NoError(t, err)
		if without && one.SKU().Row == "go" {
			continue // a processor without kernels of this op
		}
		six, err := within(6, 0)
		require.NoError(t, err)
		least, most := one.WorkspaceSize(), six.WorkspaceSize()
		require.Less(t, least, most)
		for _, limit := range []int64{most, most - 1, least} {
			p, err := within(6, limit)
			require.NoError(t, err)
			require.Equal(t, six.SKU(), p.SKU(), "a limit of %d", limit)
			require.LessOrEqual(t, p.WorkspaceSize(), limit)
			same(t, c, testcase.Options{Preference: plans.Preference{Threads: 6, MaxWorkspace: limit}}, defined(t, c), "within a limit")
		}
		p, err := within(6, least-1)
		if without {
			require.NoError(t, err)
			require.Equal(t, "go", p.SKU().Row)
		} else {
			require.ErrorContains(t, err, fmt.Sprintf("allows %d bytes of workspace; the row go needs %d", least-1, least))
		}
	}
}
