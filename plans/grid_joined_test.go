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

// Images with so few positions that a block has those of several give the definition's bits: whole
// vectors and not, several blocks, a last block of one image, rows of images that lie apart,
// positions outside, images that kernels do not read in pairs.
func TestGridSampleOfManyImages(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 4))
	for _, size := range [][5]int64{ // images, channels, H and W, positions
		{5, 1, 9, 10, 7}, {37, 1, 6, 7, 7}, {19, 3, 5, 4, 17}, {3, 2, 30, 31, 100}, {11, 18, 8, 9, 1}, {9, 1, 1, 20, 33}, {4, 70, 3, 5, 6}, {6, 16, 5, 6, 5},
		{3, 1, 17, 16, 128}, {2, 4, 21, 20, 129}, {1, 3, 40, 41, 9},
		{2, 1, 41, 40, 256}, {3, 16, 33, 31, 35}, {4, 5, 25, 24, 50}, {3, 20, 23, 24, 9}, {2, 70, 30, 31, 7},
		{2, 5, 100, 101, 300}, {3, 1, 100, 41, 513}, {1, 18, 61, 62, 257}, // few, but more than a block has
	} {
		for i, dtype := range []string{"f32", "bf16", "f64", "f16"} {
			for _, mode := range []string{"bilinear", "nearest", "bicubic"} {
				depth, outDepth, dims := "", "", 2
				if (i+int(size[4]))%3 == 0 {
					depth, outDepth, dims = "2,", "1,", 3
				}
				grid := map[bool]string{true: "f64", false: "f32"}[dtype == "f64"]
				shapes := fmt.Sprintf("input=%s[%d,%d,%s%d,%d] grid=%s[%d,%s1,%d,%d] mode=%s padding_mode=%s align_corners=%t", dtype, size[0], size[1], depth, size[2], size[3],
					grid, size[0], outDepth, size[4], dims, mode, []string{"zeros", "border", "reflection"}[r.IntN(3)], r.IntN(2) == 0)
				upstream := fmt.Sprintf("grad_output=%s[%d,%d,%s1,%d] ", dtype, size[0], size[1], outDepth, size[4])
				for _, text := range []string{"grid_sample " + shapes, "grid_sample_backward " + upstream + shapes, "grid_sample_backward grad_input=none " + upstream + shapes} {
					c, err := testcase.NewCase(testcase.NewSource(r.Uint64(), testcase.Small), text)
					require.NoError(t, err)
					want := run(t, c, definition)
					input := func(shape []int64) bool { return slices.Equal(shape, c.Problem.Shape("input")) }
					for _, row := range rowsFor(c) {
						for _, layout := range []testcase.Layout{nil, testcase.Mixed(r), channelsLast(size[1], 1, input)} {
							same(t, c, testcase.Options{Preference: plans.Preference{Row: row, Threads: 1}, Layout: layout}, want, row)
						}
					}
					lift := plans.SetParallelCost(1)
					same(t, c, testcase.Options{Preference: plans.Preference{Threads: 3}}, want, "threads")
					lift()
					sameOnNumbers(t, c.Op.Name, c.Problem)
				}
			}
		}
	}
}

// A pixel that all positions of an image read: as many as a chunk has, one more, and those of several blocks.
func TestFewPositionsOfOnePixel(t *testing.T) {
	for _, dtype := range []string{"f32", "f64", "bf16", "f16"} {
		for _, n := range []int64{256, 257, 600} {
			for depth, dims := range map[string]int64{"": 2, "11,": 3} {
				for _, mode := range []string{"bilinear", "nearest"} {
					text := fmt.Sprintf("grid_sample_backward grad_output=%[1]s[2,5,%[4]s1,%[2]d] input=%[1]s[2,5,%[3]s100,101] grid=%[7]s[2,%[4]s1,%[2]d,%[5]d] mode=%[6]s",
						dtype, n, depth, map[int64]string{2: "", 3: "1,"}[dims], dims, mode, map[bool]string{true: "f64", false: "f32"}[dtype == "f64"])
					sameOn(t, "grid_sample_backward", plans.MustParse(text), func(i int64) float64 { return 0.1 + float64(i/dims)/1e5 })
				}
			}
		}
	}
}

// Blocks whose gradients are made together where kernels do not read the upstream gradient, or positions
// are fewer than a vector: the definition, or a copy, writes over what the input's gradient is made from.
func TestBothGradientsOfViews(t *testing.T) {
	for _, dtype := range []string{"f32", "f64"} {
		for _, out := range []string{"20,15,1", "7,37,1", "3,200,1"} {
			text := fmt.Sprintf("grid_sample_backward grad_output=%[1]s[2,5,%[2]s] input=%[1]s[2,5,3,4,5] grid=%[1]s[2,%[2]s,3]", dtype, out)
			c := finiteCase(t, text)
			want := defined(t, c)
			for _, row := range rowsFor(c) {
				o := testcase.Options{Preference: plans.Preference{Row: row, Threads: 1}}
				same(t, c, o, want, row)
				for _, l := range layouts {
					o.Layout = l.layout
					same(t, c, o, want, row+" "+l.name)
				}
			}
		}
	}
}
