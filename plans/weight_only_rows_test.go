package plans_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/isobit-ml/isobit/internal/testcase"
	"github.com/isobit-ml/isobit/plans"
)

// Rows of weights longer than what is packed at a time, groups that begin before
// it and end after it, groups that kernels know, few rows of x, and more than are
// taken at once.
func TestWeightOnlyLinearLong(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	pick := func(words ...string) string { return words[rng.IntN(len(words))] }
	for seed := range uint64(300) {
		m, k, n, group := rng.IntN(20), rng.IntN(7000), rng.IntN(7), 1+rng.IntN(200)
		switch rng.IntN(12) {
		case 0:
			group = 1 + rng.IntN(5000)
		case 1:
			m, k = 1+rng.IntN(6), 64000+rng.IntN(4000)
		case 2:
			m, k, n = 40+rng.IntN(120), rng.IntN(300), 60+rng.IntN(20)
		}
		switch rng.IntN(3) {
		case 0:
			group = 32 << rng.IntN(8)
		case 1:
			m = rng.IntN(7)
			group = []int{32, 64, 128, 4096, max(1, k)}[rng.IntN(5)]
		}
		c, err := testcase.NewCase(testcase.NewSource(seed, testcase.Large), fmt.Sprintf(
			"weight_only_linear x=%s[%d,%d] weight=%s[%d,%d] group_size=%d weight_scale=%s weight_zero_point=%s bias=%s",
			pick("f32", "f32", "bf16", "f16", "f64"), m, k, pick("s8", "u8", "s4", "u4"), n, k, group,
			pick("f32", "bf16", "f64"), pick("none", "u8", "i32", "f32"), pick("none", "f32")))
		require.NoError(t, err)
		want := defined(t, c)
		for _, row := range rowsOf("weight_only_linear") {
			o := testcase.Options{Preference: plans.Preference{Row: row, Threads: 1 + rng.IntN(3)}}
			got, err := c.Run(o)
			if err != nil {
				requireKind(t, err, plans.Unsupported)
				continue
			}
			require.NoError(t, c.Compare(got, want), "%s\n%s", c.Text, row)
		}
	}
}

// A limit of the workspace picks a row that stays within it: the definition needs
// none, where kernels pack x.
func TestWorkspaceLimitPicksARow(t *testing.T) {
	c, err := testcase.NewCase(testcase.NewSource(1, testcase.Small), "weight_only_linear x=f32[5,70] weight=u8[9,70] group_size=32")
	require.NoError(t, err)
	free, err := plans.Select(0, c.Problem, plans.Preference{})
	require.NoError(t, err)
	n := free.WorkspaceSize()
	for _, limit := range []int64{n, n - 1, 1} {
		if limit <= 0 {
			continue
		}
		pref := plans.Preference{MaxWorkspace: limit}
		p, err := plans.Select(0, c.Problem, pref)
		require.NoError(t, err)
		require.LessOrEqual(t, p.WorkspaceSize(), limit)
		if limit == n {
			require.Equal(t, free.SKU(), p.SKU())
		}
		got, err := c.Run(testcase.Options{Preference: pref})
		require.NoError(t, err)
		require.NoError(t, c.Compare(got, defined(t, c)))
	}
}
