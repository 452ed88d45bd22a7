package autodiff

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestGridSampleTwice differentiates the gradients of grid_sample, of images and of
// volumes, which are then two operations; their bits are those of one.
func TestGridSampleTwice(t *testing.T) {
	cpu := NewCPUThreads(1)
	grids := []data{
		values([]int{1, 2, 2, 2}, 0.13, -0.41, -0.71, 0.22, 0.61, 0.35, -0.27, -0.88),
		values([]int{1, 1, 1, 2, 3}, 0.13, -0.41, 0.22, -0.71, 0.35, -0.17),
	}
	for dims, image := range []data{noise(1, 2, 4, 3), noise(1, 2, 3, 4, 3)} {
		for _, mode := range []string{"bilinear", "nearest", "bicubic"} {
			for _, padding := range []string{"zeros", "border", "reflection"} {
				c := testCase{name: mode + " " + padding, op: OpGridSample, inputs: []data{image, grids[dims]}, f: func(x []dyn) dyn {
					return x[0].GridSample(x[1], SampleMode{Mode: mode, Padding: padding})
				}}
				t.Run(c.name, func(t *testing.T) {
					c.compareSecond(t, cpu)
					c.squared().compareSecond(t, cpu)
					at := &Attr{Mode: mode, Padding: padding}
					points := c.points()
					x := dyn{fromSlice[Backend](cpu, points[0], image.shape)}
					grid := dyn{fromSlice[Backend](cpu, points[1], grids[dims].shape)}
					dy := x.GridSample(grid, SampleMode{Mode: mode, Padding: padding}).AddScalar(1)
					joint := dy.runAll(OpGridSampleBackward, at, x.Tensor, grid.Tensor)
					for i, op := range []Op{OpGridSampleDX, OpGridSampleDGrid} {
						want, err := dyn{joint[i]}.Float64s()
						require.NoError(t, err)
						got, err := dyn{dy.run(op, at, x.Tensor, grid.Tensor)}.Float64s()
						require.NoError(t, err)
						require.Equal(t, want, got, op.String())
					}
				})
			}
		}
	}
}
