package plans_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/isobit-ml/isobit/internal/testcase"
	"github.com/isobit-ml/isobit/plans"
	"github.com/isobit-ml/isobit/tensor"
)

// Problems in which plans once made pointers to where a tensor ends, though
// they read nothing there: the collector stops a program that has one. They
// are seen for sure where pointers are checked (build.sh), otherwise by luck.
func TestPointersStayInTensors(t *testing.T) {
	for _, text := range []string{
		// Nearly all indices name the last row: some jobs have no row left.
		"embedding_backward grad_output=f32[20000,4] indices=i64[20000] grad_weight=f32[9,4]",
		// The last bags are empty: no weight is left for them.
		"embedding_bag weight=f32[9,64] indices=i64[40] offsets=i64[5] per_sample_weights=f32 mode=sum padding_idx=1",
		// A row's whole lanes leave no rest.
		"embedding_bag_per_sample_weights_backward grad_output=f32[5,64] weight=f32[9,64] indices=i64[40] offsets=i64[5]",
	} {
		s := testcase.NewSource(2, testcase.Small)
		c, err := testcase.NewCase(s, text)
		require.NoError(t, err)
		set := func(name string, n int64, value func(i int64) float64) {
			a := c.Arg(name)
			a.Before = nil
			for i := range n {
				a.Before = testcase.Encode(a.Before, a.DType, value(i))
			}
		}
		n := c.Arg("indices").Shape[0]
		// All but every thousandth are 8.
		set("indices", n, func(i int64) float64 { return float64(8 - i%1000/999*(i/1000%9)) })
		if strings.Contains(text, "offsets") {
			set("offsets", 5, func(i int64) float64 { return []float64{0, 10, 40, 40, 40}[i] })
		}
		want := defined(t, c)
		for _, row := range rowsFor(c) {
			for threads := 1; threads <= 2; threads++ {
				same(t, c, testcase.Options{Preference: plans.Preference{Row: row, Threads: threads}}, want, row)
			}
		}
	}
}

// Memory that later runs use again holds no address of what an earlier one was given:
// the caller may have given that back, and the collector stops a program that has one.
func TestPooledMemoryHoldsNoPointers(t *testing.T) {
	test := func(t *testing.T, c *testcase.Case, r *rand.Rand) {
		defer plans.SetStreamFrom([]int64{1, 1 << 40}[r.IntN(2)])() // what streams keeps no calls
		for _, layout := range []testcase.Layout{nil, testcase.Mixed(r)} {
			plan, err := plans.Select(0, c.Problem, plans.Preference{Row: anyRow(r, c), Threads: 1})
			require.NoError(t, err)
			placed, workspace, free := c.Place(plan, testcase.Options{Layout: layout})
			defer free()
			for range 2 { // the second may find all as the first
				require.NoError(t, plan.Run(0, workspace, placed.Views()), c.Text)
				for i, v := range append(placed.Views(), tensor.Of(workspace)) {
					if lo, hi := v.Extent(); hi > lo {
						start := uintptr(v.Data)
						require.Empty(t, plans.HeldFrom(plan, start+uintptr(lo), start+uintptr(hi)), "argument %d of %s", i, c.Text)
					}
				}
			}
		}
	}
	forEachOp(t, testcase.Small, 8, test)
	r := rand.New(rand.NewPCG(3, 4))
	for _, text := range []string{
		"embedding_backward grad_output=f32[3,4] indices=i64[3] grad_weight=f32[500,4]", // named_rows.go
		"embedding_bag_backward grad_output=f32[3,4] indices=i64[3,90] chosen=i64 grad_weight=f32[7,4] mode=max",
	} {
		test(t, finiteCase(t, text), r)
	}
}
