package plans_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/isobit-ml/isobit/internal/testcase"
	"github.com/isobit-ml/isobit/plans"
	"github.com/isobit-ml/isobit/tensor"
)

// Tensors whose elements lie apart or in short runs, around the sizes of copied
// pieces and tiles: the definition's bits, in every layout.
func TestCopiedPieces(t *testing.T) {
	defer plans.SetParallelCost(1)()
	texts := []string{
		"quantize_per_tensor x=f32$ q=s8 qmin=-128 qmax=127",
		"quantize_per_channel x=bf16$ q=u8 zero_point=i32 axis=1 qmin=0 qmax=255",
		"dequantize_per_channel q=s8$ y=f16 axis=-1 qmin=-128 qmax=127",
		"fake_quantize_per_channel x=f64$ zero_point=f32 axis=0 qmin=-8 qmax=7",
		"fake_quantize_per_token x=f32$ zero_point=f32 qmin=-8 qmax=7",
		"fake_quantize_per_tensor_backward grad_output=f32$ zero_point=f32 qmin=-8 qmax=7",
		"fake_quantize_per_channel_backward grad_output=bf16$ zero_point=f32 axis=1 qmin=-8 qmax=7",
		"fake_quantize_per_channel_backward grad_output=f64$ zero_point=none axis=-1 qmin=-8 qmax=7",
		"dequantize_per_tensor_backward grad_output=f32$ q=s8 zero_point=f32 qmin=-128 qmax=127",
		"choose_qparams_per_tensor x=f32$ qmin=-128 qmax=127",
		"choose_qparams_per_channel x=f16$ axis=1 qmin=-128 qmax=127",
		"dynamic_quantize_per_token x=f32$ q=s8 qmin=-128 qmax=127",
		"quantize_per_channel x=f16$ q=s8 zero_point=f32 axis=-2 qmin=-128 qmax=127",
		"dequantize_per_channel q=u8$ y=f32 zero_point=i32 axis=-2 qmin=0 qmax=255",
		"fake_quantize_per_channel_backward grad_output=f32$ zero_point=none axis=-2 qmin=-8 qmax=7",
		"fake_quantize_per_token_backward grad_output=f32$ zero_point=f32 qmin=-8 qmax=7",
		"dequantize_per_token_backward grad_output=bf16$ q=s8 zero_point=i32 qmin=-128 qmax=127",
		"choose_qparams_per_token x=f32$ qmin=-128 qmax=127",
		"quantize_per_group x=f32$ q=s8 zero_point=f32 qmin=-128 qmax=127 group_size=16",
		"fake_quantize_per_group_backward grad_output=f32$ zero_point=f32 grad_scale=f32 grad_zero_point=f32 qmin=-8 qmax=7 group_size=5",
		"dynamic_quantize_per_group x=bf16$ q=s8 symmetric=false qmin=-128 qmax=127 group_size=24",
	}
	for _, shape := range []string{"[2,3,60,28]", "[40,2,9,30]", "[9000,2]", "[2,8193]", "[1,3,2,1500]", "[30,5,400,6]", "[700,3,7,2]", "[114,29,3]", "[256,259]", "[1,260,512]", "[3,40,28,20]"} {
		for _, text := range texts {
			text = strings.ReplaceAll(text, "$", shape)
			t.Run(text, func(t *testing.T) {
				c := finiteCase(t, text)
				c.Expand(rand.New(rand.NewPCG(1, 2)))
				want := defined(t, c)
				for _, l := range layouts {
					for _, row := range []string{"", "go"} {
						for _, threads := range []int{1, 3} {
							o := testcase.Options{Layout: l.layout, Preference: plans.Preference{Row: row, Threads: threads}}
							same(t, c, o, want, fmt.Sprintf("%s, row %q, %d threads", l.name, row, threads))
						}
					}
				}
			})
		}
	}
}

// One number that is expanded, as the gradient of a sum is, and images whose
// channels lie last, around the sizes of pieces.
func TestCopiedGradients(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, size := range [][3]int64{{2, 30, 28 * 28}, {1, 3, 8200}, {5, 40, 41}, {1, 70, 1000}} {
		dims := tensor.ShapeString(size[:])
		x, plainX := crossed(r, size[0], size[1], size[2])
		dy, plainDy := crossed(r, size[0], size[1], size[2])
		scale, zero := tensor.Of([]float32{0.3}, []int64{}...), tensor.Of([]float32{0.5}, []int64{}...)
		gradients := "fake_quantize_per_tensor_backward grad_output=f32" + dims + " qmin=-8 qmax=7 zero_point=f32 grad_scale=f32 grad_zero_point=f32"
		want := outputs(t, gradients, plainDy, plainX, scale, zero)
		requireSame(t, outputs(t, gradients, dy, x, scale, zero), want)
		requireSame(t, outputs(t, gradients, plainDy, x, scale, zero), want)
		choose := "choose_qparams_per_tensor x=f32" + dims + " qmin=-128 qmax=127"
		requireSame(t, outputs(t, choose, x), outputs(t, choose, plainX))

		expanded, ones := tensor.Of([]float32{0.7}, 1), tensor.New(tensor.F32, size[:]...)
		for i := range tensor.Slice[float32](ones) {
			tensor.Slice[float32](ones)[i] = 0.7
		}
		expanded.Shape, expanded.Strides = size[:], []int64{0, 0, 0}
		requireSame(t, outputs(t, gradients, expanded, x, scale, zero), outputs(t, gradients, ones, plainX, scale, zero))
		require.NotEqual(t, want, outputs(t, gradients, ones, plainX, scale, zero))
	}
}

// cropped lays out the rows of tensors with other elements between them.
func cropped(shape []int64, _ []bool) (strides []int64, first, n int64) {
	strides, n = make([]int64, len(shape)), 1
	for d := len(shape) - 1; d >= 0; d-- {
		strides[d] = n
		n *= shape[d] + 2
	}
	return strides, n / 3, n + n/3
}

// Cropped images, places and gradients of grid_sample, rows of which are shorter and longer than a block.
func TestGridSampleOfCroppedInputs(t *testing.T) {
	for _, size := range []string{"[2,3,9,11] [2,3,7,30] [2,7,30,2]", "[1,2,5,6] [1,2,3,300] [1,3,300,2]", "[2,3,4,5,6] [2,3,1,4,9] [2,1,4,9,3]"} {
		shapes := strings.Fields(size)
		for _, mode := range []string{"bilinear", "nearest"} {
			for _, text := range []string{"grid_sample input=f32%[2]s grid=f32%[3]s", "grid_sample_backward grad_output=f64%s input=f64%s grid=f64%s"} {
				c, err := testcase.NewCase(testcase.NewSource(1, testcase.Small), fmt.Sprintf(text, shapes[1], shapes[0], shapes[2])+" mode="+mode)
				require.NoError(t, err)
				for _, row := range rowsFor(c) {
					same(t, c, testcase.Options{Preference: plans.Preference{Row: row, Threads: 2}, Layout: cropped}, defined(t, c), row)
				}
			}
		}
	}
}

// Inputs that are copied as a whole, in several jobs: images whose channels lie
// last, upstream gradients that are stored by columns, and weights of which some
// rows are read.
func TestCompactInputs(t *testing.T) {
	defer plans.SetParallelCost(1)()
	r := rand.New(rand.NewPCG(5, 6))
	images := func(v tensor.View) tensor.View {
		stride := v.Stride(2)
		return tensor.View{Data: v.Data, DType: v.DType, Shape: []int64{v.Shape[0], v.Shape[1], 96, 96}, Strides: []int64{v.Stride(0), v.Stride(1), 96 * stride, stride}}
	}
	x, plainX := crossed(r, 2, 3, 96*96)
	dy, plainDy := crossed(r, 2, 3, 96*96)
	grid := tensor.New(tensor.F32, 2, 96, 96, 2)
	for i := range tensor.Slice[float32](grid) {
		tensor.Slice[float32](grid)[i] = 2.2*r.Float32() - 1.1
	}
	forward := "grid_sample input=f32[2,3,96,96] grid=f32[2,96,96,2]"
	requireSame(t, outputs(t, forward, images(x), grid), outputs(t, forward, images(plainX), grid))
	backward := "grid_sample_backward grad_output=f32[2,3,96,96] input=f32[2,3,96,96] grid=f32[2,96,96,2]"
	want := outputs(t, backward, images(plainDy), images(plainX), grid)
	requireSame(t, outputs(t, backward, images(dy), images(x), grid), want)
	requireSame(t, outputs(t, backward, images(plainDy), images(x), grid), want)

	across, plain := crossed(r, 1, 300, 200)
	indices := tensor.New(tensor.I64, 1, 300)
	for i := range tensor.Slice[int64](indices) {
		tensor.Slice[int64](indices)[i] = r.Int64N(40)
	}
	embedding := "embedding_backward grad_output=f32[1,300,200] indices=i64[1,300] grad_weight=f32[40,200]"
	requireSame(t, outputs(t, embedding, across, indices), outputs(t, embedding, plain, indices))
	matrix := func(v tensor.View) tensor.View {
		return tensor.View{Data: v.Data, DType: v.DType, Shape: v.Shape[1:], Strides: []int64{v.Stride(1), v.Stride(2)}}
	}
	lookup := "embedding weight=f32[300,200] indices=i64[1,300]"
	requireSame(t, outputs(t, lookup, matrix(across), indices), outputs(t, lookup, matrix(plain), indices))
}
