package plans_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/isobit-ml/isobit/internal/testcase"
	"github.com/isobit-ml/isobit/plans"
)

// Rows of weights shorter than a stripe, of whole stripes and not, and longer
// than a stripe block, which are scaled or not. Special values first, then
// numbers.
func TestRenormRows(t *testing.T) {
	defer plans.SetParallelCost(1)()
	r := rand.New(rand.NewPCG(9, 10))
	for _, size := range []struct{ rows, columns int }{{7, 1}, {9, 63}, {300, 64}, {20, 65}, {5, 768}, {3, 1000}, {1, 65536}, {1, 131200}} {
		for _, dtype := range []string{"f32", "f64", "bf16", "f16"} {
			for _, p := range []string{"1", "2", "3", "inf", "1.5", "0", "-inf"} {
				if size.columns > 65536 && (p == "1.5" || p == "0" || p == "-inf") { // the definition's
					continue
				}
				text := fmt.Sprintf("embedding_renorm weight=%s[%d,%d] indices=i64[%d] max_norm=%v norm_type=%s bounds=skip",
					dtype, size.rows, size.columns, size.rows, []float64{0.5, 3, 40}[r.IntN(3)], p)
				sameOnRows(t, r, text)
			}
		}
	}
}

// Powers of other exponents than these are Go's math.Pow, which has not the same
// bits on every processor; a plan of one says so.
func TestRenormGuarantee(t *testing.T) {
	for norm, everywhere := range map[string]bool{
		"0": true, "1": true, "2": true, "inf": true, "-inf": true, "3": false, "-1": false, "1.5": false,
	} {
		p := plans.MustParse("embedding_renorm weight=f32[5,3] indices=i32[2] max_norm=1 norm_type=" + norm)
		plan, err := plans.Select(0, p, plans.Preference{})
		require.NoError(t, err)
		g := plan.PrecisionGuarantee()
		require.Equal(t, []bool{true, true, everywhere}, []bool{g.Deterministic, g.BitStable, g.SameEverywhere}, norm)
		require.Equal(t, everywhere, plans.Describe(plan).Guarantee.SameEverywhere)
		require.Equal(t, "inout", plans.Describe(plan).Args[0].Direction)
	}
}

// sameOnRows compares a problem's rows with its definition on one thread and on
// many, on special values and on numbers whose sums show their order.
func sameOnRows(t *testing.T, r *rand.Rand, text string) {
	t.Helper()
	for _, finite := range []bool{false, true} {
		s := testcase.NewSource(r.Uint64(), testcase.Small)
		s.Finite = finite
		c, err := testcase.NewCase(s, text)
		require.NoError(t, err)
		want := defined(t, c)
		for _, row := range rowsFor(c) {
			for _, n := range []int{1, 8} {
				o := testcase.Options{Preference: plans.Preference{Row: row, Threads: n}, Memory: testcase.Memory(1 + r.IntN(2))}
				same(t, c, o, want, "row "+row)
				o.Layout = testcase.Mixed(r)
				same(t, c, o, want, "row "+row+", mixed strides")
			}
		}
	}
}
