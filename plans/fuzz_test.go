package plans_test

import (
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/stretchr/testify/require"

	"github.com/isobit-ml/isobit/internal/testcase"
	"github.com/isobit-ml/isobit/plans"
)

// FuzzParse asks that no text makes Parse or Select panic, and that what
// parses has a text which parses to the same.
//
//	go test -fuzz FuzzParse ./plans
func FuzzParse(f *testing.F) {
	for i := range testcase.Table {
		c, err := testcase.Table[i].New(testcase.NewSource(1, testcase.Small))
		require.NoError(f, err)
		f.Add(c.Text)
	}
	for _, text := range []string{
		"quantize_per_group x=f32[3,4] q=s8 group_size=9223372036854775807 qmin=0 qmax=1",
		"quantize_per_block x=f32[3,4] q=s8 block_size=[9223372036854775807,1] qmin=0 qmax=1",
		"weight_only_linear x=f32[2,3] weight=s8[4,3] group_size=9223372036854775807",
		"grid_sample input=f32[1,1,2,2] grid=f32[1,1,2,2] mo\ne=nearest",
		"dequantize_per_tensor q=s8\n[3] qmin=-128 qmax=127",
		"dequantize_per_tensor q=s\x1b qmin=-128 qmax=127",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, err := plans.Parse(text)
		if err != nil {
			requireKind(t, err, plans.InvalidProblem)
			require.False(t, strings.ContainsFunc(err.Error(), unicode.IsControl), "one line: %q", err)
			return
		}
		again, err := plans.Parse(p.String())
		require.NoError(t, err, "the text of %q", text)
		require.Equal(t, p.String(), again.String())
		if !p.Device().IsCPU() {
			return
		}
		plan, err := plans.Select(0, p, plans.Preference{})
		require.NoError(t, err)
		require.GreaterOrEqual(t, plan.WorkspaceSize(), int64(0), text)
		for _, a := range plans.Describe(plan).Args {
			for _, d := range a.Shape {
				require.GreaterOrEqual(t, d, int64(0), "%s of %s", a.Name, text)
				require.Less(t, d, int64(1<<48+1), "%s of %s", a.Name, text)
			}
		}
		require.Error(t, plan.CanImplement(nil))
	})
}

// FuzzRun draws a case from a seed and runs it in every way.
//
//	go test -fuzz FuzzRun ./plans
func FuzzRun(f *testing.F) {
	for seed := range uint64(4) {
		f.Add(seed, false)
		f.Add(seed, true)
	}
	f.Fuzz(runEveryWay)
}

func runEveryWay(t *testing.T, seed uint64, edge bool) {
	size := testcase.Small
	switch {
	case edge:
		size = testcase.Edge
	case seed%4 == 1:
		size = testcase.Wide
	}
	s := testcase.NewSource(seed, size)
	c, err := testcase.Table[s.IntN(len(testcase.Table))].New(s)
	require.NoError(t, err)
	if seed%4 < 2 {
		c.Expand(s.Rand)
	} else {
		c.ExpandParams(s.Rand)
	}
	want := defined(t, c)
	// What the cap leaves out is left out of the helpers of kernels, too.
	defer limitRowsAgain()
	require.NoError(t, plans.SetRows([]string{"", "", "avx2", "go"}[s.IntN(4)]))
	for i, threads := range threadCounts {
		o := testcase.Options{Preference: plans.Preference{Row: anyRow(s.Rand, c), Threads: threads}, Memory: testcase.Memory(1 + s.IntN(2)), Alternate: i%2 == 0}
		same(t, c, o, want, "compact")
		o.Layout = testcase.Mixed(s.Rand)
		same(t, c, o, want, "mixed strides")
		o.Layout, o.Params = nil, testcase.Mixed(s.Rand)
		same(t, c, o, want, "mixed strides of parameters")
		o.Layout = testcase.Alike(s.Rand)
		same(t, c, o, want, "dimensions in another order")
	}
}

// TestRandom runs cases of new seeds for a second. ISOBIT_SEED repeats one.
func TestRandom(t *testing.T) {
	seed, until := rand.Uint64(), time.Now().Add(time.Second)
	if text := os.Getenv("ISOBIT_SEED"); text != "" {
		var err error
		seed, err = strconv.ParseUint(text, 10, 64)
		require.NoError(t, err)
	}
	for ; time.Now().Before(until) && !t.Failed(); seed++ {
		t.Run("", func(t *testing.T) {
			defer func() {
				if t.Failed() {
					t.Logf("repeat with ISOBIT_SEED=%d go test -run TestRandom ./plans", seed)
				}
			}()
			runEveryWay(t, seed, seed%2 == 0)
		})
	}
}
