package plans_test

import (
	"math/rand/v2"
	"testing"

	"github.com/isobit-ml/isobit/internal/testcase"
	"github.com/isobit-ml/isobit/plans"
)

// Stores around the caches give the definition's bits, on one thread and on
// several, whether memory is read in strands or not.
func TestStream(t *testing.T) {
	defer plans.SetStreamFrom(0)()
	defer plans.SetParallelCost(1 << 10)()
	test := func(t *testing.T, c *testcase.Case, r *rand.Rand) {
		defer plans.SetReadsStrands(r.IntN(2) == 0)()
		c.ExpandParams(r)
		want := defined(t, c)
		for _, threads := range []int{1, 3} {
			o := testcase.Options{Preference: plans.Preference{Row: anyRow(r, c), Threads: threads}, Memory: testcase.Memory(r.IntN(3))}
			same(t, c, o, want, "stream")
			o.Layout = testcase.Mixed(r)
			same(t, c, o, want, "stream, views")
			o.Layout, o.Params = testcase.Alike(r), testcase.Mixed(r)
			same(t, c, o, want, "stream, dimensions in another order")
		}
	}
	forEachOp(t, testcase.Small, 4, test)
	forEachOp(t, testcase.Wide, 2, test)
	forEachOp(t, testcase.Large, 1, test)
}

// Windows of strands take a dimension more, which a layout with all that there may be has no room for.
func TestStreamInAllDimensions(t *testing.T) {
	defer plans.SetStreamFrom(0)()
	defer plans.SetReadsStrands(true)()
	c := caseOf(t, testcase.Large, "fake_quantize_per_block x=f16[4,4,4,4,4,4,4,512] zero_point=none block_size=[2,2,2,2,2,2,2,256] qmin=-128 qmax=127")
	same(t, c, testcase.Options{}, defined(t, c), "stream")
}
