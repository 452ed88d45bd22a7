package plans_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/isobit-ml/isobit/internal/testcase"
	"github.com/isobit-ml/isobit/plans"
	"github.com/isobit-ml/isobit/tensor"
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
		case 3:
			m, k, n = 60+rng.IntN(90), 900+rng.IntN(4000), 1+rng.IntN(20)
		}
		switch rng.IntN(3) {
		case 0:
			group = 32 << rng.IntN(8)
		case 1:
			m, n = rng.IntN(7), rng.IntN(40)
			group = []int{2, 16, 24, 32, 64, 96, 128, 4096, max(1, k)}[rng.IntN(9)]
		}
		c, err := testcase.NewCase(testcase.NewSource(seed, testcase.Large), fmt.Sprintf(
			"weight_only_linear x=%s[%d,%d] weight=%s[%d,%d] group_size=%d weight_scale=%s weight_zero_point=%s bias=%s",
			pick("f32", "f32", "bf16", "f16", "f64"), m, k, pick("s8", "u8", "s4", "u4"), n, k, group,
			pick("f32", "bf16", "f64"), pick("none", "u8", "i32", "f32"), pick("none", "f32")))
		require.NoError(t, err)
		want := defined(t, c)
		for _, row := range rowsOf("weight_only_linear") {
			o := testcase.Options{Preference: plans.Preference{Row: row, Threads: 1 + rng.IntN(3)}, Memory: testcase.EndsPage} // some kernels read whole stripes
			got, err := c.Run(o)
			if err != nil {
				requireKind(t, err, plans.Unsupported)
				continue
			}
			require.NoError(t, c.Compare(got, want), "%s\n%s", c.Text, row)
		}
	}
}

// Rows of f64 that end within a stripe, or where positions end that are multiplied at a time; more rows of x than a tile
// has, an odd number of columns, and groups that no kernel takes.
func TestWeightOnlyLinearOfDoubles(t *testing.T) {
	for i, size := range [][4]int{{1, 64, 1, 64}, {3, 511, 2, 32}, {4, 512, 5, 100}, {5, 513, 7, 1}, {73, 1100, 3, 300}, {2, 65536, 1, 65536}, {1, 65537, 1, 16}} {
		for _, codes := range []string{"s8", "u8", "s4", "u4"} {
			for _, zero := range []string{"none", "f32"} {
				c, err := testcase.NewCase(testcase.NewSource(uint64(i), testcase.Large), fmt.Sprintf(
					"weight_only_linear x=f64[%d,%d] weight=%s[%d,%d] group_size=%d weight_scale=f64 weight_zero_point=%s bias=f64",
					size[0], size[1], codes, size[2], size[1], size[3], zero))
				require.NoError(t, err)
				want := defined(t, c)
				for _, row := range rowsOf("weight_only_linear") {
					got, err := c.Run(testcase.Options{Preference: plans.Preference{Row: row, Threads: 2}})
					if err != nil {
						requireKind(t, err, plans.Unsupported)
						continue
					}
					require.NoError(t, c.Compare(got, want), "%s\n%s", c.Text, row)
				}
			}
		}
	}
}

// Sums begin at +0, also where kernels begin with a product that is -0. Behind a row's codes there are no weights, which
// would be NaNs by an infinite scale.
func TestWeightOnlyLinearOfNegativeZerosAndInfinity(t *testing.T) {
	const n = 5
	for _, row := range rowsOf("weight_only_linear") {
		for _, k := range []int64{1, 64, 100, 1025, 2049, 4097} {
			for _, m := range []int64{1, 2, 3, 5, 8} {
				weight, scale := tensor.New(tensor.S8, n, k), tensor.New(tensor.F32, n, 1)
				fill(weight, func() int8 { return -1 })
				fill(scale, func() float32 { return 1 })
				x, y := tensor.New(tensor.F32, m, k), tensor.New(tensor.F32, m, n)
				args := []tensor.View{x, weight, scale, {}, {}, y}
				p, err := plans.Parse(fmt.Sprintf("weight_only_linear x=f32[%d,%d] weight=s8[%d,%d] group_size=%d weight_scale=f32 bias=none", m, k, n, k, k))
				require.NoError(t, err)
				plan, err := plans.Select(0, p, plans.Preference{Row: row})
				if rank(row) > rank(plans.ISA()) {
					requireKind(t, err, plans.Unsupported)
					continue
				}
				require.NoError(t, err)
				workspace := tensor.Bytes(tensor.New(tensor.I64, plan.WorkspaceSize()/8+1))
				require.NoError(t, plan.Run(0, workspace, args))
				for _, bits := range tensor.Slice[float32](y) {
					require.Zero(t, math.Float32bits(bits), "%s, %d rows, K = %d", row, m, k)
				}
				fill(x, func() float32 { return -1 })
				fill(scale, func() float32 { return float32(math.Inf(1)) })
				require.NoError(t, plan.Run(0, workspace, args))
				for _, v := range tensor.Slice[float32](y) {
					require.Equal(t, float32(math.Inf(1)), v, "%s, %d rows, K = %d", row, m, k)
				}
			}
		}
	}
}

// A limit of the workspace picks a row that stays within it: of weight_only_linear the definition needs none, where
// kernels pack x; those of quantized_linear do without.
func TestWorkspaceLimitPicksARow(t *testing.T) {
	for _, text := range []string{"weight_only_linear x=f32[5,70] weight=u8[9,70] group_size=32", "quantized_linear x=s8[173,70] weight=s8[77,70]"} {
		c, err := testcase.NewCase(testcase.NewSource(1, testcase.Small), text)
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
			if limit == n || p.Problem().Op() == "quantized_linear" {
				require.Equal(t, free.SKU(), p.SKU())
			}
			got, err := c.Run(testcase.Options{Preference: pref})
			require.NoError(t, err)
			require.NoError(t, c.Compare(got, defined(t, c)))
		}
	}
}
