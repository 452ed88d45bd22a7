package plans_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/isobit-ml/isobit/plans"
	"github.com/isobit-ml/isobit/tensor"
)

// A scale that all channels share, by a stride of 0, beside a zero point for
// each: channels side by side took the first channel's zero point.
func TestSharedScaleOfSideBySideChannels(t *testing.T) {
	const rows, channels = 40, 96
	rng := rand.New(rand.NewPCG(9, 10))
	dy, x, zero := random(rng, rows, channels), random(rng, rows, channels), random(rng, channels)
	for i := range tensor.Slice[float32](zero) {
		tensor.Slice[float32](zero)[i] = float32(i%5) - 2
		tensor.Slice[float32](x)[i] *= 100
	}
	same := tensor.New(tensor.F32, channels)
	for i := range tensor.Slice[float32](same) {
		tensor.Slice[float32](same)[i] = 0.25
	}
	shared := same
	shared.Strides = []int64{0}
	text := fmt.Sprintf("fake_quantize_per_channel_backward grad_output=f32[%d,%d] axis=1 qmin=-8 qmax=7 zero_point=f32 grad_scale=f32 grad_zero_point=f32", rows, channels)
	requireSame(t, outputs(t, text, dy, x, shared, zero), outputs(t, text, dy, x, same, zero))
}

// Channels side by side whose elements make two blocks of a sum, more of them than have accumulators
// at a time, with a few left over, and a few. Rows overlap, each beginning an element after the one before: they take no memory.
func TestManySideBySideChannels(t *testing.T) {
	for _, size := range [][2]int64{{65_600, 256}, {70, 9000}, {70, 516}, {70, 12}} {
		rows, channels := size[0], size[1]
		rng := rand.New(rand.NewPCG(11, 12))
		x, q := random(rng, rows+channels), tensor.New(tensor.S8, rows+channels)
		for i, v := range tensor.Slice[float32](x) {
			tensor.Slice[int8](q)[i] = int8(i*i%251 - 125)
			tensor.Slice[float32](x)[i] = v * float32(1+i%7)
		}
		for _, v := range []*tensor.View{&x, &q} {
			v.Shape, v.Strides = []int64{rows, channels}, []int64{1, 1}
		}
		scale, zero := random(rng, channels), tensor.New(tensor.I32, channels)
		for text, inputs := range map[string][]tensor.View{
			"dequantize_per_channel_backward grad_output=f32[%d,%d] q=s8 axis=1 qmin=-128 qmax=127 grad_input=none grad_scale=f32": {x, q, scale, zero},
			"choose_qparams_per_channel x=f32[%d,%d] axis=1 qmin=-128 qmax=127":                                                    {x},
		} {
			text = fmt.Sprintf(text, rows, channels)
			got := outputs(t, text, inputs...)
			restore := plans.SetOneByOne()
			want := outputs(t, text, inputs...)
			restore()
			requireSame(t, got, want)
		}
	}
}
