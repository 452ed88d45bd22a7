package plans_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/isobit-ml/isobit/internal/testcase"
	"github.com/isobit-ml/isobit/plans"
)

// Products of few rows take the columns of a weight where they lie, a square or two
// at a time, from a cache or from memory: in pieces along K, with remainders along K
// and across. Where rows lie one after the other, they take wide panels of those. Zeros make
// rows up to a multiple of four.
func TestProductsOfFewRows(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	for _, dtype := range []string{"f32", "bf16", "f16", "f64"} {
		for number := range 24 {
			m, k, n, layout := 1+rng.IntN([]int{4, 26}[number/4%2]), 1+rng.IntN(600), 1+rng.IntN(150), testcase.Layout(testcase.Transposed)
			switch number % 4 {
			case 0:
				m, k = 1+rng.IntN([]int{2, 26}[number/4%2]), 500+rng.IntN(3800)
			case 1:
				m, k, n, layout = 1+rng.IntN([]int{7, 50}[number/4%2]), 1+rng.IntN(140), 30+rng.IntN(400), nil
			}
			c, err := testcase.NewCase(testcase.NewSource(rng.Uint64(), testcase.Large), fmt.Sprintf(
				"matmul input=%s[%d,%d] other=%[1]s[%[3]d,%[4]d] bias=%[5]s y=%[1]s", dtype, m, k, n, []string{"none", dtype}[rng.IntN(2)]))
			require.NoError(t, err)
			want := defined(t, c)
			for _, row := range rowsFor(c) {
				for _, far := range []int64{0, 1 << 40} {
					restore := plans.SetStreamFrom(far)
					o := testcase.Options{Preference: plans.Preference{Row: row, Threads: 1 + rng.IntN(3)}, Layout: layout, Memory: testcase.Memory(1 + rng.IntN(2))}
					same(t, c, o, want, fmt.Sprintf("%s, from %d bytes on from memory", row, far))
					restore()
				}
			}
		}
	}
}

// Columns that lie pages apart would push each other out of the nearest cache: the second half of the squares of one or
// two rows follows the first one, unless they are few or leave some, and copies for more rows are made in strips.
func TestColumnsThatLiePagesApart(t *testing.T) {
	for _, dtype := range []string{"f32", "bf16", "f16", "f64"} {
		for i, k := range []int{40, 504, 520, 1000, 2048, 4104} {
			apart := func(shape []int64, _ []bool) (strides []int64, first, n int64) {
				return []int64{1, 1 << 13}, 0, shape[1] << 13
			}
			c, err := testcase.NewCase(testcase.NewSource(uint64(k), testcase.Large), fmt.Sprintf(
				"matmul input=%s[%d,%d] other=%[1]s[%[3]d,37] y=%[1]s", dtype, []int{1, 2, 30}[i%3], k))
			require.NoError(t, err)
			want := defined(t, c)
			for _, row := range rowsFor(c) {
				o := testcase.Options{Preference: plans.Preference{Row: row}, Layouts: map[string]testcase.Layout{"other": apart}}
				same(t, c, o, want, row)
			}
		}
	}
}

// A tile's rows of the left factor meet a copy of the right one some at a time; zeros make up the last of them. Of
// many steps sums lie apart from rows of y that are pages apart. Without steps there is nothing to read.
func TestProductsOfManyRows(t *testing.T) {
	for _, dtype := range []string{"f32", "bf16", "f64"} {
		for i, s := range [][3]int{{145, 70, 20}, {289, 270, 17}, {575, 3, 20}, {577, 9, 9}, {25, 520, 1024}, {300, 0, 70}} {
			c, err := testcase.NewCase(testcase.NewSource(uint64(i), testcase.Large), fmt.Sprintf(
				"matmul input=%s[%d,%d] other=%[1]s[%[3]d,%d] bias=%[1]s y=%[1]s", dtype, s[0], s[1], s[2]))
			require.NoError(t, err)
			want := defined(t, c)
			for _, row := range rowsFor(c) {
				for _, layout := range []testcase.Layout{nil, testcase.Transposed} {
					o := testcase.Options{Preference: plans.Preference{Row: row, Threads: 1 + i%2}, Layout: layout}
					same(t, c, o, want, row)
				}
			}
		}
	}
}

// Few columns are copied one by one, whether they lie side by side, apart or are expanded.
func TestProductsOfFewColumns(t *testing.T) {
	twice := func(shape []int64, _ []bool) (strides []int64, first, n int64) {
		return []int64{2 * shape[1], 2}, 0, 2 * shape[0] * shape[1]
	}
	for _, dtype := range []string{"f32", "bf16", "f16", "f64"} {
		for i, s := range [][3]int{{1, 5000, 1}, {1, 2051, 3}, {2, 70, 1}, {3, 515, 2}, {5, 3, 3}, {2, 1030, 3}, {1, 4, 7}} {
			c, err := testcase.NewCase(testcase.NewSource(uint64(i), testcase.Large), fmt.Sprintf(
				"matmul input=%s[%d,%d] other=%[1]s[%[3]d,%d] bias=%[1]s y=%[1]s", dtype, s[0], s[1], s[2]))
			require.NoError(t, err)
			for _, expands := range []bool{false, true} {
				if expands {
					c.Expand(rand.New(rand.NewPCG(uint64(i), 1)))
				}
				want := defined(t, c)
				for _, row := range rowsFor(c) {
					for memory, layout := range []testcase.Layout{nil, testcase.Transposed, testcase.Expanded, twice} {
						o := testcase.Options{Preference: plans.Preference{Row: row}, Layouts: map[string]testcase.Layout{"other": layout}, Memory: testcase.Memory(1 + memory%2)}
						same(t, c, o, want, row)
					}
				}
			}
		}
	}
}
