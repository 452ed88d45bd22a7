package plans_test

import (
	"testing"

	"github.com/isobit-ml/isobit/internal/testcase"
	"github.com/isobit-ml/isobit/plans"
)

// Groups of some runs each, such as an axis in the middle: of one block and of more, the last one short, also cut within
// a run; runs that end with the last lane and others, longer than all lanes and not; mapped in the same job and later.
// And of one run each, more than a call takes.
func TestGroupsOfRows(t *testing.T) {
	for _, text := range []string{
		"fake_quantize_per_channel_backward grad_output=f32[9,70,196] axis=1 zero_point=f32 grad_scale=f32 grad_zero_point=f32 qmin=-8 qmax=7",
		"fake_quantize_per_channel_backward grad_output=bf16[7,3,65] axis=1 zero_point=f32 grad_input=none grad_scale=f32 grad_zero_point=f32 qmin=-8 qmax=7",
		"fake_quantize_per_channel_backward grad_output=f64[6,4,1001] axis=1 scale=f64 zero_point=f64 grad_scale=f64 grad_zero_point=f64 qmin=-8 qmax=7",
		"fake_quantize_per_channel_backward grad_output=f32[1030,3,64] axis=1 zero_point=f32 grad_scale=f32 grad_zero_point=f32 qmin=-8 qmax=7",
		"dequantize_per_channel_backward grad_output=f32[11,66,100] q=s8 axis=1 zero_point=f32 grad_scale=f32 grad_zero_point=f32 qmin=-128 qmax=127",
		"dequantize_per_channel_backward grad_output=f32[2056,3,32] q=u8 axis=1 zero_point=f32 grad_scale=f32 grad_zero_point=f32 qmin=0 qmax=255",
		"fake_quantize_per_channel_backward grad_output=f32[1400,3,49] axis=1 zero_point=f32 grad_scale=f32 grad_zero_point=f32 qmin=-8 qmax=7",
		"fake_quantize_per_channel_backward grad_output=bf16[100,70,9] axis=1 zero_point=f32 grad_scale=f32 grad_zero_point=f32 qmin=-8 qmax=7",
		"fake_quantize_per_channel_backward grad_output=f32[80,300,4] axis=1 zero_point=f32 grad_input=none grad_scale=f32 grad_zero_point=f32 qmin=-8 qmax=7",
		"dequantize_per_channel_backward grad_output=f16[30,66,25] q=s8 axis=1 zero_point=f32 grad_scale=f32 grad_zero_point=f32 qmin=-128 qmax=127",
		"dequantize_per_channel_backward grad_output=f32[66000,3,7] q=none axis=1 zero_point=f32 grad_zero_point=f32 qmin=-128 qmax=127",
		"fake_quantize_per_token_backward grad_output=f32[1000,5] zero_point=f32 grad_scale=f32 grad_zero_point=f32 qmin=-8 qmax=7",
		"fake_quantize_per_token_backward grad_output=f16[300,49] zero_point=f32 grad_scale=f32 grad_zero_point=f32 qmin=-8 qmax=7",
		"dequantize_per_token_backward grad_output=f32[600,100] q=s8 zero_point=f32 grad_scale=f32 grad_zero_point=f32 qmin=-128 qmax=127",
		"dynamic_quantize_per_channel x=f32[130,3,512] q=s8 axis=1 qmin=-128 qmax=127",
		"dynamic_quantize_per_channel x=f32[1030,3,64] q=s8 axis=1 zero_point=i32 symmetric=false qmin=-128 qmax=127",
		"choose_qparams_per_channel x=f32[1030,3,64] axis=1 qmin=-128 qmax=127",
		"fake_quantize_per_token_backward grad_output=f32[700,16] zero_point=f32 grad_scale=f32 grad_zero_point=f32 qmin=-8 qmax=7",
		"dynamic_quantize_per_group x=f32[40,1024] q=u8 zero_point=i32 group_size=32 symmetric=false qmin=0 qmax=255",
		"dynamic_quantize_per_group x=bf16[90,70] q=s8 scale=bf16 group_size=35 qmin=-127 qmax=127",
		"dynamic_quantize_per_group x=f16[300,511] q=s16 group_size=511 qmin=-127 qmax=127",
		"choose_qparams_per_group x=f64[300,26] group_size=13 qmin=-127 qmax=127",
	} {
		c := finiteCase(t, text)
		want := defined(t, c)
		for _, row := range rowsFor(c) {
			for _, threads := range []int{1, 8} {
				same(t, c, testcase.Options{Preference: plans.Preference{Row: row, Threads: threads}}, want, row)
			}
		}
	}
}
