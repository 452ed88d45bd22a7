package plans_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/isobit-ml/isobit/internal/testcase"
	"github.com/isobit-ml/isobit/plans"
	"github.com/isobit-ml/isobit/tensor"
)

// crossed is a tensor of drawn values, stored along its second dimension, and the same row-major.
func crossed(r *rand.Rand, batch, rows, n int64) (across, plain tensor.View) {
	return laid(r, []int64{n * rows, 1, rows}, batch, rows, n)
}

// laid is a tensor of drawn values with these strides, and the same row-major.
func laid(r *rand.Rand, strides []int64, shape ...int64) (apart, plain tensor.View) {
	apart, plain = tensor.New(tensor.F32, shape...), tensor.New(tensor.F32, shape...)
	stored, same := tensor.Slice[float32](apart), tensor.Slice[float32](plain)
	for b := range shape[0] {
		for i := range shape[1] {
			for j := range shape[2] {
				v := float32(r.NormFloat64() * 4)
				stored[b*strides[0]+i*strides[1]+j*strides[2]], same[(b*shape[1]+i)*shape[2]+j] = v, v
			}
		}
	}
	apart.Strides = strides
	return apart, plain
}

// straightened is a tensor of crossed as a row-major one.
func straightened(v tensor.View) tensor.View {
	batch, rows, n := v.Shape[0], v.Shape[1], v.Shape[2]
	to := tensor.New(v.DType, v.Shape...)
	stored := unsafe.Slice((*float32)(v.Data), batch*rows*n)
	for b := range batch {
		for i := range rows {
			for j := range n {
				tensor.Slice[float32](to)[(b*rows+i)*n+j] = stored[(b*n+j)*rows+i]
			}
		}
	}
	return to
}

// Inputs that lie across the output, around the sizes of tiles, and in Fortran's order: the bits of inputs that do not.
func TestInputsAcrossTheOutput(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for _, size := range [][3]int64{{1, 2, 8}, {1, 16, 496}, {2, 15, 495}, {3, 17, 497}, {1, 33, 993}, {2, 3, 2000}, {1, 300, 9}, {1, 64, 7}, {2, 100, 600}, {16, 3, 70}, {33, 5, 500}} {
		shape := size[:]
		strides := []int64{size[2] * size[1], 1, size[1]}
		if size[0] > 3 { // Fortran's order
			strides = []int64{1, size[0], size[0] * size[1]}
		}
		x, plainX := laid(r, strides, shape...)
		dy, plainDy := laid(r, strides, shape...)
		for axis := range 3 {
			scale, zero := make([]float32, size[axis]), make([]float32, size[axis])
			for i := range scale {
				scale[i], zero[i] = 0.1+r.Float32(), float32(r.IntN(5)-2)
			}
			run := func(op string, threads int, inputs ...tensor.View) []float32 {
				text := fmt.Sprintf(op, tensor.ShapeString(shape), axis)
				plan, err := plans.Select(0, plans.MustParse(text), plans.Preference{Threads: threads})
				require.NoError(t, err)
				y := tensor.New(tensor.F32, shape...)
				args := append(inputs, tensor.Of(scale), tensor.Of(zero), y)
				require.NoError(t, plan.Run(0, nil, args))
				return unsafe.Slice((*float32)(y.Data), y.NumElements())
			}
			forward := "fake_quantize_per_channel x=f32%s zero_point=f32 axis=%d qmin=-8 qmax=7"
			backward := "quantize_per_channel_backward grad_output=f32%s zero_point=f32 axis=%d qmin=-8 qmax=7"
			want, wantDx := run(forward, 1, plainX), run(backward, 1, plainDy, plainX)
			for _, threads := range []int{1, 3} {
				require.Equal(t, want, run(forward, threads, x), "%v, axis %d", shape, axis)
				require.Equal(t, wantDx, run(backward, threads, dy, x), "%v, axis %d", shape, axis)
				require.Equal(t, wantDx, run(backward, threads, plainDy, x), "%v, axis %d", shape, axis)
			}
		}
	}
}

// The first of a case's tensors with a shape of three extents lies across the others.
func firstAcross() testcase.Layout {
	met := false
	return func(shape []int64, expanded []bool) (strides []int64, first, n int64) {
		if len(shape) != 3 || met {
			return testcase.Compact(shape, expanded)
		}
		met = true
		rows, n := shape[1], shape[2]
		return []int64{rows * n, 1, rows}, 0, shape[0] * rows * n
	}
}

// Codes and parameters of every kind for inputs that lie across the output, in every row: of columns,
// of rows, of both and of all elements, many tiles in a job.
func TestParametersAcrossTheOutput(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 7))
	for _, shape := range []string{"[2,100,600]", "[3,40,64]", "[1,19,1001]"} {
		for _, text := range []string{
			"quantize_per_channel x=f32%s q=s8 zero_point=i32 axis=2 qmin=-128 qmax=127",
			"quantize_per_channel x=bf16%s q=u8 zero_point=none axis=1 qmin=0 qmax=255",
			"quantize_per_tensor x=f64%s q=s16 zero_point=i64 qmin=-300 qmax=300",
			"fake_quantize_per_token x=f16%s zero_point=f32 qmin=-8 qmax=7",
			"fake_quantize_per_group x=f32%s zero_point=u8 group_size=50 qmin=0 qmax=255 rounding=reciprocal",
			"dequantize_per_channel y=f32 q=s8%s zero_point=i32 axis=2 qmin=-128 qmax=127",
			"dequantize_per_channel q=f8e4m3%s zero_point=none axis=2 y=bf16 qmin=-448 qmax=448",
			"dequantize_per_tensor y=f32 q=u8%s zero_point=u8 qmin=0 qmax=255",
		} {
			c, err := testcase.NewCase(testcase.NewSource(r.Uint64(), testcase.Small), fmt.Sprintf(text, shape))
			require.NoError(t, err)
			want := run(t, c, definition)
			for _, row := range rowsFor(c) {
				o := testcase.Options{Preference: plans.Preference{Row: row, Threads: 1 + r.IntN(3)}, Layout: firstAcross()}
				same(t, c, o, want, row)
			}
		}
	}
}

// The same for sums and extremes along an image's channels, and of images.
func TestReductionsAcrossMemory(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	for _, size := range [][3]int64{{1, 1, 9}, {2, 3, 20}, {1, 16, 512}, {3, 17, 513}, {2, 40, 1100}, {1, 5, 70000}, {2, 33, 4100}, {2, 20, 1024}} {
		for axis := range 2 {
			dims := tensor.ShapeString(size[:])
			x, plainX := crossed(r, size[0], size[1], size[2])
			dy, plainDy := crossed(r, size[0], size[1], size[2])
			scale, zero := random(r, size[axis]), random(r, size[axis])
			gradients := fmt.Sprintf("fake_quantize_per_channel_backward grad_output=f32%s axis=%d qmin=-8 qmax=7 zero_point=f32 grad_scale=f32 grad_zero_point=f32", dims, axis)
			want := outputs(t, gradients, plainDy, plainX, scale, zero)
			requireSame(t, outputs(t, gradients, dy, plainX, scale, zero), want)
			requireSame(t, outputs(t, gradients, plainDy, x, scale, zero), want)
			requireSame(t, outputs(t, gradients, dy, x, scale, zero), want)

			// With the gradient of the input across, beside inputs that are not.
			plan, err := plans.Select(0, plans.MustParse(gradients), plans.Preference{})
			require.NoError(t, err)
			dx, _ := crossed(r, size[0], size[1], size[2])
			gradScale, gradZero := tensor.New(tensor.F32, size[axis]), tensor.New(tensor.F32, size[axis])
			workspace := make([]byte, plan.WorkspaceSize())
			require.NoError(t, plan.Run(0, workspace, []tensor.View{plainDy, plainX, scale, zero, dx, gradScale, gradZero}))
			requireSame(t, []tensor.View{straightened(dx), gradScale, gradZero}, want)

			choose := fmt.Sprintf("choose_qparams_per_channel x=f32%s axis=%d qmin=-128 qmax=127", dims, axis)
			requireSame(t, outputs(t, choose, x), outputs(t, choose, plainX))
		}
	}
}
