package plans_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/isobit-ml/isobit/internal/testcase"
	"github.com/isobit-ml/isobit/plans"
	"github.com/isobit-ml/isobit/tensor"
)

// Ways of grid_sample that its size decides on give the definition's bits:
// images whole or in bands, pixels with and without chunks, sums of channels in
// planes and side by side, tiles of wide outputs. Special values first, then
// numbers whose sums show their order.
func TestWaysOfGridSample(t *testing.T) {
	defer plans.SetParallelCost(1)()
	for _, mode := range []string{"bilinear", "bicubic"} {
		t.Run(mode, func(t *testing.T) { waysOfGridSample(t, mode) })
	}
}

func waysOfGridSample(t *testing.T, mode string) {
	r := rand.New(rand.NewPCG(1, 1))
	for _, size := range []struct{ images, h, w, outH, outW int }{
		{2, 3, 4, 10, 11},     // no pixel has a chunk
		{2, 3, 4, 40, 50},     // most have, from some block on
		{5, 1, 1, 30, 30},     // every tap but one is outside
		{1, 30, 31, 2, 7},     // fewer positions than a vector has
		{6, 28, 28, 28, 28},   // whole vectors
		{2, 40, 500, 33, 450}, // tiles
	} {
		for _, channels := range []int{1, 2, 3, 4, 7, 15, 18} {
			if channels > 4 && size.w > 100 {
				continue
			}
			for _, types := range []string{"f32", "bf16"} {
				if types == "bf16" && channels%3 != 0 {
					continue
				}
				shapes := fmt.Sprintf("input=%[1]s[%[2]d,%[3]d,%[4]d,%[5]d] grid=f32[%[2]d,%[6]d,%[7]d,2]", types, size.images, channels, size.h, size.w, size.outH, size.outW)
				for _, text := range []string{
					"grid_sample " + shapes,
					fmt.Sprintf("grid_sample_backward grad_output=%s[%d,%d,%d,%d] ", types, size.images, channels, size.outH, size.outW) + shapes,
				} {
					text += " mode=" + mode + " padding_mode=" + []string{"zeros", "border", "reflection"}[r.IntN(3)]
					text += fmt.Sprintf(" align_corners=%t", r.IntN(2) == 0)
					c, err := testcase.NewCase(testcase.NewSource(r.Uint64(), testcase.Small), text)
					require.NoError(t, err)
					want := run(t, c, definition)
					for _, n := range []int{1, 3} {
						o := testcase.Options{Preference: plans.Preference{Row: anyRow(r, c), Threads: n}}
						same(t, c, o, want, "threads")
						o.Layout = testcase.Mixed(r)
						same(t, c, o, want, "layout")
					}
					sameOnNumbers(t, c.Op.Name, c.Problem)
				}
			}
		}
	}
}

// The gradient of the grid alone, of small images with more channels than fold
// at once: those from the 17th on were once left out.
func TestGridGradientOfManyChannels(t *testing.T) {
	for _, channels := range []int{16, 17, 33} {
		text := fmt.Sprintf("grid_sample_backward grad_output=f32[1,%[1]d,7,4] grad_input=none align_corners=true input=f32[1,%[1]d,3,7] grid=f32[1,7,4,2]", channels)
		sameOnNumbers(t, "grid_sample_backward", plans.MustParse(text))
	}
}

// sameOnNumbers compares a problem's rows with its definition on numbers in [-1, 1).
func sameOnNumbers(t *testing.T, op string, p plans.Problem) {
	t.Helper()
	result := func(pref plans.Preference) (outputs [][]byte) {
		plan, err := plans.Select(0, p, pref)
		require.NoError(t, err)
		var args []tensor.View
		for _, a := range plans.Describe(plan).Args {
			v := noise(0, p.DType(a.Name), a.Shape...)
			args = append(args, v)
			if a.Direction == "out" {
				outputs = append(outputs, tensor.Bytes(v))
			}
		}
		require.NoError(t, plan.Run(0, make([]byte, plan.WorkspaceSize()), args))
		return outputs
	}
	want := result(plans.Preference{Row: "go", Threads: 1})
	for _, row := range rowsOf(op) {
		for _, n := range []int{1, 3} {
			pref := plans.Preference{Row: row, Threads: n}
			if _, err := plans.Select(0, p, pref); err != nil {
				requireKind(t, err, plans.Unsupported)
				continue
			}
			require.Equal(t, want, result(pref), "%v, row %s on %d threads", &p, row, n)
		}
	}
}
