package plans_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

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
