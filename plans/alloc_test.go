package plans_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/isobit-ml/isobit/internal/testcase"
	"github.com/isobit-ml/isobit/plans"
)

// Checking and running allocate nothing: small cases, strided ones, and
// reductions of several blocks.
func TestNoAllocation(t *testing.T) {
	forEachOp(t, testcase.Small, 4, func(t *testing.T, c *testcase.Case, r *rand.Rand) {
		requireNoAllocation(t, c, testcase.Options{})
		requireNoAllocation(t, c, testcase.Options{Layout: testcase.Mixed(r)})
	})
	for _, text := range []string{
		"fake_quantize_per_channel_backward grad_output=f32[2,70000] zero_point=f32 grad_scale=f32 grad_zero_point=f32 axis=0 qmin=-128 qmax=127",
		"dynamic_quantize_per_tensor x=f32[2,70000] q=s8 qmin=-128 qmax=127",
		"dynamic_quantize_per_tensor x=f32[2,70000] q=s4 qmin=-8 qmax=7",
		"quantize_per_token x=f32[300,7] q=s4 qmin=-8 qmax=7",
		"dequantize_per_channel q=u4[300,7] y=f32 axis=1 qmin=0 qmax=15",
		"dequantize_per_channel_backward grad_output=f32[70,30] q=u4 grad_scale=f32 axis=1 qmin=0 qmax=15",
		"affine_grid_backward grad_grid=f32[1,300,300,2]",
		"embedding_renorm weight=f32[2,70000] indices=i32[2] max_norm=1",
		"embedding_bag_backward grad_output=f32[4,40] indices=i64[4,3] grad_weight=f32[5,40]",
		"grid_sample_backward grad_output=f32[1,3,4,4] input=f32[1,3,200,200] grid=f32[1,4,4,2]",
		"grid_sample_backward grad_output=f32[1,8,4,4] input=f32[1,8,200,200] grid=f32[1,4,4,2]",
		"grid_sample_backward grad_output=f16[1,8,4,4] input=f16[1,8,200,200] grid=f16[1,4,4,2] mode=bicubic",
		"grid_sample_backward grad_output=f32[1,3,40,40] input=f32[1,3,1,1] grid=f32[1,40,40,2] padding_mode=border",
		"grid_sample_backward grad_output=f32[1,3,40,40] input=f32[1,3,5,5] grid=f32[1,40,40,2] mode=bicubic padding_mode=reflection",
		"grid_sample_double_backward grad_output=f32[1,3,40,40] input=f32[1,3,5,5] grid=f32[1,40,40,2] mode=bicubic padding_mode=reflection",
		"grid_sample_double_backward grad_output=f64[1,3,4,10,10] input=f64[1,3,1,1,1] grid=f64[1,4,10,10,3]",
		"grid_sample input=f32[1,3,5,4,3] grid=f32[1,4,10,10,3] mode=bicubic padding_mode=border",
		"grid_sample_backward grad_output=f32[1,3,4,10,10] input=f32[1,3,5,4,3] grid=f32[1,4,10,10,3] mode=bicubic",
		"grid_sample_double_backward grad_output=f64[1,3,4,10,10] input=f64[1,3,5,4,3] grid=f64[1,4,10,10,3] mode=bicubic",
	} {
		c := caseOf(t, testcase.Small, text)
		requireNoAllocation(t, c, testcase.Options{})
	}
}

func requireNoAllocation(t *testing.T, c *testcase.Case, o testcase.Options) {
	plan, err := plans.Select(0, c.Problem, plans.Preference{Threads: 1})
	require.NoError(t, err)
	placed, workspace, free := c.Place(plan, o)
	defer free()
	args := placed.Views()
	assert.Zero(t, testing.AllocsPerRun(5, func() { err = plan.Run(0, workspace, args) }), "Run: %s", c.Text)
	require.NoError(t, err)
	assert.Zero(t, testing.AllocsPerRun(5, func() { err = plan.CanImplement(args) }), "CanImplement: %s", c.Text)
}

// Goroutines that are started anew, as all are where runs are rare, take no memory either.
func TestNoAllocationByGoroutines(t *testing.T) {
	c := caseOf(t, testcase.Small, "grid_sample_backward grad_output=f32[2,8,40,41] input=f32[2,8,33,31] grid=f32[2,40,41,2] mode=bicubic")
	plan, err := plans.Select(0, c.Problem, plans.Preference{Threads: 8})
	require.NoError(t, err)
	placed, workspace, free := c.Place(plan, testcase.Options{})
	defer free()
	args := placed.Views()
	assert.Zero(t, testing.AllocsPerRun(20, func() {
		err = plan.Run(0, workspace, args)
		time.Sleep(time.Millisecond) // until none is idle
	}))
	require.NoError(t, err)
}
