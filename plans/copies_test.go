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
// pieces: the definition's bits, in every layout.
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
	}
	for _, shape := range []string{"[2,3,60,28]", "[40,2,9,30]", "[9000,2]", "[2,8193]", "[1,3,2,1500]"} {
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
