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

// Every row gives the definition's bits, whatever is absent: on special values,
// then on numbers whose sums show their order. Images of a few pixels are hot.
func TestRowsOfSecondGradients(t *testing.T) {
	defer plans.SetParallelCost(1)()
	r := rand.New(rand.NewPCG(5, 1))
	draw := func(words ...string) string { return words[r.IntN(len(words))] }
	for _, dtype := range []string{"f32", "f64", "bf16", "f16"} {
		sameOnRows(t, r, fmt.Sprintf("grid_sample_double_backward grad_output=%[1]s[2,3,3,33] input=%[1]s[2,3,7,8] grid=%[1]s[2,3,33,2]", dtype))
	}
	draws := 200
	if testing.Short() { // where every pointer is checked
		draws = 60
	}
	for range draws {
		dtype, size := draw("f32", "f32", "f64", "bf16", "f16"), []int64{1, 2, 3, 7, 18, 31}
		grid := dtype
		if dtype == "bf16" || dtype == "f16" {
			grid = draw(dtype, "f32")
		}
		batch, channels := 1+r.Int64N(2), []int64{0, 1, 2, 3, 4, 5, 8, 15, 16, 17, 33}[r.IntN(11)]
		image, where, out := []int64{batch, channels}, []int64{batch}, []int64{batch, channels}
		dims := 2 + r.IntN(2)
		for i := range dims {
			n := 1 + r.Int64N(9)
			if dims == 3 { // as many positions as an image has
				n = 1 + n/3
			}
			if i == dims-1 {
				n = []int64{1, 5, 16, 17, 33, 64, 300}[r.IntN(7)]
			}
			image, where, out = append(image, size[r.IntN(len(size))]), append(where, n), append(out, n)
		}
		shape := tensor.ShapeString
		text := "grid_sample_double_backward grad_output=" + dtype + shape(out) + " input=" + dtype + shape(image) +
			" grid=" + grid + shape(append(where, int64(dims))) + " mode=" + draw("bilinear", "bilinear", "nearest", "bicubic") +
			" padding_mode=" + draw("zeros", "border", "reflection") + " align_corners=" + draw("true", "false") +
			draw("", "", " grad_grad_input=none", " grad_grad_grid=none") + draw("", "", "", " grad_grad_output=none", " grad_input=none", " grad_grid=none", " grad_input=none grad_grid=none")
		c, err := testcase.NewCase(testcase.NewSource(r.Uint64(), testcase.Small), text)
		require.NoError(t, err)
		want := run(t, c, definition)
		for _, row := range rowsFor(c) {
			o := testcase.Options{Preference: plans.Preference{Row: row, Threads: 1 + r.IntN(3)}}
			same(t, c, o, want, row)
			o.Layout = testcase.Mixed(r)
			same(t, c, o, want, row+" and a layout")
		}
		sameOnNumbers(t, c.Op.Name, c.Problem)
	}
}

// What the padding set aside has no term, also where a product with +0 would be a NaN.
func TestSecondGradientsOfInfinities(t *testing.T) {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	for i, shapes := range []string{
		"grad_output=f32[1,%[1]d,5,20] input=f32[1,%[1]d,6,7] grid=f32[1,5,20,2]",
		"grad_output=f32[1,%[1]d,5,2,20] input=f32[1,%[1]d,6,7,5] grid=f32[1,5,2,20,3]",
	} {
		for _, keys := range []string{"mode=bilinear", "mode=nearest", "mode=bicubic", "mode=bilinear padding_mode=border", "mode=bicubic padding_mode=border", "mode=bilinear padding_mode=reflection", "mode=bicubic padding_mode=reflection", "mode=bicubic padding_mode=reflection align_corners=true"} {
			for _, channels := range []int{0, 1, 3} {
				text := fmt.Sprintf("grid_sample_double_backward "+shapes+" "+keys, channels)
				result := func(row string) (outputs []float32) {
					plan, err := plans.Select(0, plans.MustParse(text), plans.Preference{Row: row, Threads: 1})
					require.NoError(t, err)
					var args []tensor.View
					for n, a := range plans.Describe(plan).Args {
						v := noiseFrom(uint64(n), 0, tensor.F32, a.Shape...)
						every := map[string]int{"input": 35, "grid": 4, "grad_grad_grid": 13 + i}[a.Name]
						for j, x := range tensor.Slice[float32](v) {
							switch {
							case every == 0 || j%every != 0:
							case a.Name == "grid":
								tensor.Slice[float32](v)[j] = []float32{inf, -inf, nan, 3, -3, x}[j/every%6]
							default:
								tensor.Slice[float32](v)[j] = inf
							}
						}
						args = append(args, v)
					}
					require.NoError(t, plan.Run(0, make([]byte, plan.WorkspaceSize()), args))
					for _, v := range args[len(args)-3:] {
						outputs = append(outputs, tensor.Slice[float32](v)...)
					}
					for j, x := range outputs {
						if x != x {
							outputs[j] = nan
						}
					}
					return outputs
				}
				bits := func(values []float32) (b []uint32) {
					for _, x := range values {
						b = append(b, math.Float32bits(x))
					}
					return b
				}
				want := bits(result("go"))
				for _, row := range rowsFor(caseOf(t, testcase.Small, text)) {
					require.Equal(t, want, bits(result(row)), "%s, row %s", text, row)
				}
			}
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
		require.Equal(t, "has shape [1, 1, 2, 3]; want [1, 1, 2, 2]", e.Msg)
	}
}
