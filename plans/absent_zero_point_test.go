package plans_test

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/isobit-ml/isobit/cpu"
	"github.com/isobit-ml/isobit/plans"
	"github.com/isobit-ml/isobit/tensor"
)

// TestAbsentZeroPointOutsideRange: no zero point means 0, also where 0 lies
// outside [qmin, qmax]; a learned one would be clamped into it. Rows that hand
// prepared parameters to the definition once had them clamped again.
func TestAbsentZeroPointOutsideRange(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	x := random(rng, 31, 15)
	for i, v := range tensor.Slice[float32](x) {
		tensor.Slice[float32](x)[i] = v * 300
	}
	for _, c := range []struct {
		text   string
		scales tensor.View
	}{
		{"fake_quantize_per_token x=f32[31,15] zero_point=none qmin=26 qmax=167", random(rng, 31)},
		{"fake_quantize_per_channel x=f32[31,15] zero_point=none axis=-1 qmin=-236 qmax=-149", random(rng, 15)},
		{"fake_quantize_per_group x=f32[31,15] zero_point=none group_size=7 qmin=191 qmax=251", random(rng, 31, 3)},
		{"quantize_per_token x=f32[31,15] zero_point=none q=f64 qmin=-236 qmax=-149", random(rng, 31)},
	} {
		problem := plans.MustParse(c.text)
		var want []byte
		for _, row := range cpu.ISANames() {
			plan, err := plans.Select(0, problem, plans.Preference{Row: row})
			if err != nil {
				continue // not on this machine, or not for these types
			}
			info := plans.Describe(plan).Args[3]
			out := tensor.New(problem.DType(info.Name), info.Shape...)
			require.NoError(t, plan.Run(0, nil, []tensor.View{x, c.scales, {}, out}))
			if want == nil {
				want = tensor.Bytes(out)
			}
			require.Equal(t, want, tensor.Bytes(out), "%s row=%s", c.text, row)
		}
	}
}
