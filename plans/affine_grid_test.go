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

// Rows of affine_grid take positions in chunks and stripes, across the rows of
// an image: chunks that begin and end anywhere in them, rows longer than a
// chunk, images less than a stripe and more than a stripe block, and positions
// that do not lie one after the other. Special values first, then numbers.
func TestAffineRows(t *testing.T) {
	defer plans.SetParallelCost(1)()
	r := rand.New(rand.NewPCG(7, 8))
	for _, size := range []string{
		"1,1,1,2", "3,7,9,2", "2,1,64,2", "2,64,1,2", "5,8,8,2", "2,37,53,2", "1,3,700,2", "1,259,257,2", "1,1,70001,2",
		"3,1,1,1,3", "2,3,5,7,3", "2,4,4,4,3", "1,9,1,130,3", "1,2,3,600,3", "1,41,40,41,3",
	} {
		for _, dtype := range []string{"f32", "f64", "bf16", "f16"} {
			dims := size[len(size)-1] - '0'
			for _, text := range []string{
				fmt.Sprintf("affine_grid theta=%s[%c,%d,%d] grid=%[1]s[%[5]s]", dtype, size[0], dims, dims+1, size),
				fmt.Sprintf("affine_grid_backward grad_grid=%s[%s]", dtype, size),
			} {
				text += fmt.Sprintf(" align_corners=%t", r.IntN(2) == 0)
				sameOnRows(t, r, text)
			}
		}
	}
}

// The gradient of a sum has one element for all positions.
func TestAffineOfExpandedGradient(t *testing.T) {
	c, err := testcase.NewCase(testcase.NewSource(1, testcase.Small), "affine_grid_backward grad_grid=f32[2,20,31,2]")
	require.NoError(t, err)
	c.Expand(rand.New(rand.NewPCG(3, 4)))
	want := defined(t, c)
	for _, row := range rowsFor(c) {
		same(t, c, testcase.Options{Preference: plans.Preference{Row: row, Threads: 1}, Layout: testcase.Expanded}, want, "row "+row)
	}
}

// The gradient of images without positions is zeros, whatever a worker's memory holds from a run before.
func TestAffineOfNoPositions(t *testing.T) {
	for _, size := range []string{"4,5,2", "0,5,2", "4,0,2", "2,4,5,3", "0,4,5,3", "2,0,5,3", "2,4,0,3"} {
		p, err := plans.Parse(fmt.Sprintf("affine_grid_backward grad_grid=f32[2,%s]", size))
		require.NoError(t, err)
		plan, err := plans.Select(0, p, plans.Preference{Threads: 1})
		require.NoError(t, err)
		of, to := tensor.New(tensor.F32, p.Shape("grad_grid")...), tensor.New(tensor.F32, p.Shape("grad_theta")...)
		for _, v := range []tensor.View{of, to} {
			for i := range tensor.Slice[float32](v) {
				tensor.Slice[float32](v)[i] = 1
			}
		}
		require.NoError(t, plan.Run(0, make([]byte, plan.WorkspaceSize()), []tensor.View{of, to}))
		if of.NumElements() == 0 {
			require.Equal(t, make([]float32, to.NumElements()), tensor.Slice[float32](to), size)
		}
	}
}
