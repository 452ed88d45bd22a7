package plans_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/isobit-ml/isobit/internal/testcase"
	"github.com/isobit-ml/isobit/plans"
)

// channelsLast lays out images of so many channels with those side by side, and at times with a
// gap behind each pixel; shapes that it does not know are compact.
func channelsLast(channels, gap int64, of func(shape []int64) bool) testcase.Layout {
	return func(shape []int64, expanded []bool) (strides []int64, first, n int64) {
		if len(shape) < 4 || shape[1] != channels || !of(shape) {
			return testcase.Compact(shape, expanded)
		}
		strides, n = make([]int64, len(shape)), channels+gap
		for d := len(shape) - 1; d >= 0; d-- {
			if d != 1 {
				strides[d] = n
				n *= shape[d]
			}
		}
		strides[1] = 1
		return strides, 0, n
	}
}

// withGaps lays out elements one apart, and rows of them one more.
func withGaps(shape []int64, _ []bool) (strides []int64, first, n int64) {
	strides, n = make([]int64, len(shape)), 2
	for d := len(shape) - 1; d >= 0; d-- {
		strides[d] = n
		n = n*shape[d] + 1
	}
	return strides, 0, n
}

// Images whose channels lie side by side give the definition's bits: blocks that are whole and not,
// more channels than are summed at once, taps outside, outputs of either layout, or with gaps, of
// few positions, too.
func TestGridSampleOfChannelsLast(t *testing.T) {
	defer plans.SetParallelCost(1)()
	r := rand.New(rand.NewPCG(1, 2))
	for i, size := range [][5]int64{ // channels, H and W, H and W of the output
		{16, 5, 7, 9, 11}, {16, 1, 1, 20, 30}, {32, 40, 41, 3, 300}, {48, 3, 5, 1, 1}, {528, 9, 10, 17, 19}, {15, 5, 7, 9, 11}, {32, 9, 9, 5, 2},
		{24, 5, 7, 9, 11}, {101, 9, 9, 5, 7}, {519, 5, 7, 4, 9}, {64, 9, 9, 16, 16}, {8, 9, 9, 3, 5}, {31, 4, 3, 32, 64}, {576, 1, 2, 16, 32},
	} {
		for _, volumes := range []bool{false, true} {
			for j, dtype := range []string{"f32", "f64", "bf16"} {
				depth, outDepth, dims := "", "", 2
				if volumes {
					depth, outDepth, dims = "3,", "2,", 3
				}
				grid := map[bool]string{true: "f64", false: "f32"}[dtype == "f64"]
				text := fmt.Sprintf("grid_sample input=%s[2,%d,%s%d,%d] grid=%s[2,%s%d,%d,%d] mode=%s padding_mode=%s align_corners=%t", dtype, size[0], depth, size[1], size[2],
					grid, outDepth, size[3], size[4], dims, []string{"bilinear", "nearest", "bicubic"}[(i+j)%3], []string{"zeros", "border", "reflection"}[r.IntN(3)], r.IntN(2) == 0)
				c, err := testcase.NewCase(testcase.NewSource(r.Uint64(), testcase.Small), text)
				require.NoError(t, err)
				want := run(t, c, definition)
				input := func(shape []int64) bool { return slices.Equal(shape, c.Problem.Shape("input")) }
				all := func([]int64) bool { return true }
				gaps := func(shape []int64, expanded []bool) ([]int64, int64, int64) {
					if input(shape) {
						return channelsLast(size[0], 0, input)(shape, expanded)
					}
					return withGaps(shape, expanded)
				}
				for _, layout := range []testcase.Layout{channelsLast(size[0], 0, input), channelsLast(size[0], 3, input), channelsLast(size[0], 3, all), gaps} {
					for _, row := range rowsFor(c) {
						same(t, c, testcase.Options{Preference: plans.Preference{Row: row, Threads: 1 + r.IntN(3)}, Layout: layout}, want, row)
					}
				}
			}
		}
	}
}

// So does the grid's gradient of such images, and both gradients together.
func TestGridSampleBackwardOfChannelsLast(t *testing.T) {
	defer plans.SetParallelCost(1)()
	r := rand.New(rand.NewPCG(1, 3))
	for n, size := range [][5]int64{
		{16, 5, 7, 9, 11}, {16, 1, 1, 20, 30}, {32, 40, 41, 3, 300}, {48, 3, 5, 1, 1}, {528, 9, 10, 17, 19}, {15, 5, 7, 9, 11}, {4112, 2, 3, 3, 7},
	} {
		for i, dtype := range []string{"f32", "bf16", "f64", "f32", "f16"} {
			depth, outDepth, dims := "", "", 2
			if (i+n)%2 == 1 {
				depth, outDepth, dims = "3,", "2,", 3
			}
			grid := map[bool]string{true: "f64", false: "f32"}[dtype == "f64"]
			text := fmt.Sprintf("grid_sample_backward grad_output=%[1]s[2,%[2]d,%[7]s%[8]d,%[9]d] input=%[1]s[2,%[2]d,%[3]s%[4]d,%[5]d] grid=%[6]s[2,%[7]s%[8]d,%[9]d,%[10]d] padding_mode=%[11]s align_corners=%[12]t",
				dtype, size[0], depth, size[1], size[2], grid, outDepth, size[3], size[4], dims, []string{"zeros", "border", "reflection"}[r.IntN(3)], r.IntN(2) == 0)
			if r.IntN(2) == 0 {
				text += " grad_input=none"
			}
			c, err := testcase.NewCase(testcase.NewSource(r.Uint64(), testcase.Small), text)
			require.NoError(t, err)
			want := run(t, c, definition)
			input := func(shape []int64) bool { return slices.Equal(shape, c.Problem.Shape("input")) }
			all := func([]int64) bool { return true }
			for _, layout := range []testcase.Layout{channelsLast(size[0], 0, input), channelsLast(size[0], 3, all)} {
				for _, row := range rowsFor(c) {
					same(t, c, testcase.Options{Preference: plans.Preference{Row: row, Threads: 1 + r.IntN(3)}, Layout: layout}, want, row)
				}
			}
		}
	}
}
