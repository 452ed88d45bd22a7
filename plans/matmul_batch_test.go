package plans_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/isobit-ml/isobit/internal/testcase"
	"github.com/isobit-ml/isobit/plans"
)

// columnByColumn lays out matrices of a batch column by column, with a gap between them.
func columnByColumn(shape []int64, expanded []bool) (strides []int64, first, n int64) {
	if len(shape) != 3 {
		return testcase.Compact(shape, expanded)
	}
	apart := shape[1]*shape[2] + 3
	return []int64{apart, 1, shape[1]}, 0, shape[0] * apart
}

// Products of many small matrices, a lane each, give the definition's bits: a last call with fewer,
// matrices that lie row by row, column by column and with gaps, with and without depth.
func TestSmallProducts(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 7))
	for _, size := range [][4]int64{ // products, M, K, N
		{8, 4, 4, 4}, {64, 3, 3, 3}, {65, 1, 9, 1}, {130, 5, 2, 7}, {70, 33, 4, 3}, {9, 4, 64, 4}, {20, 2, 0, 3}, {66, 1, 1, 1}, {15, 9, 10, 15}, {12, 4, 6, 17},
		{40, 14, 14, 13}, {50, 16, 20, 20}, {9, 27, 300, 41}, {8, 33, 17, 9}, // several of a job, parts of panels
		{70, 8, 8, 8}, {9, 150, 9, 8}, {10, 23, 12, 24}, // that kernels take where they lie
	} {
		for _, dtype := range []string{"f32", "f64", "bf16", "f16"} {
			for _, bias := range []string{"", " bias=" + dtype} {
				text := fmt.Sprintf("matmul input=%[1]s[%[2]d,%[3]d,%[4]d] other=%[1]s[%[2]d,%[4]d,%[5]d]%[6]s", dtype, size[0], size[1], size[2], size[3], bias)
				c, err := testcase.NewCase(testcase.NewSource(r.Uint64(), testcase.Small), text)
				require.NoError(t, err)
				want := run(t, c, definition)
				for _, row := range rowsFor(c) {
					for _, layout := range []testcase.Layout{nil, testcase.Mixed(r), columnByColumn} {
						same(t, c, testcase.Options{Preference: plans.Preference{Row: row, Threads: 1}, Layout: layout}, want, row)
					}
				}
				lift := plans.SetParallelCost(1)
				same(t, c, testcase.Options{Preference: plans.Preference{Threads: 3}}, want, "threads")
				lift()
				sameOnNumbers(t, "matmul", c.Problem)
			}
		}
	}
}
