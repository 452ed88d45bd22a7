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

// The gradients of both gradients, by differences of grid_sample_backward.
func TestGridSampleSecondGradients(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for _, mode := range []string{"bilinear", "nearest", "bicubic"} {
		for _, padding := range []string{"zeros", "border", "reflection"} {
			for _, corners := range []bool{false, true} {
				keys := fmt.Sprintf(" mode=%s padding_mode=%s align_corners=%v", mode, padding, corners)
				checkSecond(t, r, keys, corners, []int64{3, 4})
				checkSecond(t, r, keys, corners, []int64{2, 3, 4})
			}
		}
	}
}

func checkSecond(t *testing.T, r *rand.Rand, keys string, corners bool, size []int64) {
	image, where, out := append([]int64{2, 3}, size...), []int64{2, 2, 5, 2}, []int64{2, 3, 2, 5}
	if len(size) == 3 {
		where, out = []int64{2, 1, 2, 5, 3}, []int64{2, 3, 1, 2, 5}
	}
	shape := tensor.ShapeString
	shapes := " grad_output=f64" + shape(out) + " input=f64" + shape(image) + " grid=f64" + shape(where) + keys
	for gradient, input := range map[string]string{"grad_input": "input", "grad_grid": "grid"} {
		other := map[string]string{"grad_input": "grad_grid", "grad_grid": "grad_input"}[gradient]
		inputs := tensors{"grad_output": uniform(r, -1, 1, out...), "input": uniform(r, -1, 1, image...), "grid": betweenKinks(r, corners, size, where)}
		backward := performing(t, "grid_sample_backward"+shapes+" "+other+"=none", gradient)
		w := uniform(r, -1, 1, inputs[input].Shape...)
		loss := func() (sum float64) {
			for i, v := range backward(inputs) {
				sum += v * tensor.Slice[float64](w)[i]
			}
			return sum
		}
		all := tensors{"grad_" + gradient: w, "grad_output": inputs["grad_output"], "input": inputs["input"], "grid": inputs["grid"]}
		text := "grid_sample_double_backward" + shapes + " grad_" + other + "=none"
		perform(t, text, all)
		for name, of := range map[string]string{"grad_grad_output": "grad_output", "grad_input": "input", "grad_grid": "grid"} {
			x := inputs.f64(of)
			for i, got := range all.f64(name) {
				require.InDelta(t, slope(x, i, loss), got, 1e-6, "%s[%d] of %s: %s", name, i, gradient, text)
			}
		}
	}
}

// Any number of threads, any layout, and jobs of several bands: the same bits.
func TestGridSampleSecondOnThreads(t *testing.T) {
	defer plans.SetParallelCost(1)()
	r := rand.New(rand.NewPCG(2, 1))
	for _, shapes := range []string{
		"grad_output=f32[1,18,17,300] input=f32[1,18,9,7] grid=f32[1,17,300,2] mode=bilinear",
		"grad_output=f64[2,3,5,700] input=f64[2,3,8,3] grid=f64[2,5,700,2] mode=bicubic padding_mode=border",
		"grad_output=bf16[1,2,3,20,60] input=bf16[1,2,4,5,6] grid=f32[1,3,20,60,3] padding_mode=reflection",
		"grad_output=bf16[1,18,2,20,40] input=bf16[1,18,4,1,6] grid=f32[1,2,20,40,3] mode=bicubic padding_mode=reflection",
		"grad_output=f16[2,2,30,30] input=f16[2,2,1,1] grid=f16[2,30,30,2] align_corners=true",
		"grad_output=f32[2,2,30,30] input=f32[2,2,5,6] grid=f32[2,30,30,2] mode=nearest",
	} {
		c := caseOf(t, testcase.Small, "grid_sample_double_backward "+shapes)
		want := run(t, c, testcase.Options{Preference: plans.Preference{Threads: 1}})
		for _, n := range []int{2, 3, 8} {
			o := testcase.Options{Preference: plans.Preference{Threads: n}}
			same(t, c, o, want, "threads")
			o.Layout = testcase.Mixed(r)
			same(t, c, o, want, "layout")
		}
	}
}

// Without the grid's tangent the input's gradient is +0, also where products
// with +0 would be NaN.
func TestGridSampleSecondWithoutTangents(t *testing.T) {
	inf := float32(math.Inf(1))
	dy, input := tensor.Of([]float32{inf}, 1, 1, 1, 1), tensor.Of([]float32{1, 2, 3, 4}, 1, 1, 2, 2)
	grid, u := tensor.Of([]float32{0, 0}, 1, 1, 1, 2), tensor.Of([]float32{1, 1, 1, 1}, 1, 1, 2, 2)
	for _, mode := range []string{"bilinear", "bicubic", "nearest"} {
		text := fmt.Sprintf("grid_sample_double_backward grad_output=%s input=%s grid=%s grad_grad_grid=none grad_grid=none padding_mode=border mode=%s", &dy, &input, &grid, mode)
		plan, err := plans.Select(0, plans.MustParse(text), plans.Preference{Threads: 1})
		require.NoError(t, err)
		require.Positive(t, plan.WorkspaceSize())
		y, di := tensor.New(tensor.F32, 1, 1, 1, 1), tensor.New(tensor.F32, 1, 1, 2, 2)
		args := []tensor.View{dy, input, grid, u, {}, y, di, {}}
		require.NoError(t, plan.Run(0, make([]byte, plan.WorkspaceSize()), args))
		require.Equal(t, []float32{0, 0, 0, 0}, tensor.Slice[float32](di), mode)
		require.Equal(t, []float32{1}, tensor.Slice[float32](y), mode)

		wrong := args
		wrong[3] = tensor.New(tensor.F32, 1, 1, 2, 3)
		e := requireKind(t, plan.CanImplement(wrong), plans.InvalidArgument)
		require.Equal(t, "grad_grad_input", e.Arg)
		require.Equal(t, "has shape [1,1,2,3]; want [1,1,2,2]", e.Msg)
	}
}
