package plans_test

import (
	"testing"

	"github.com/isobit-ml/isobit/internal/testcase"
	"github.com/isobit-ml/isobit/plans"
)

// Groups side by side with more elements than a block of a sum has.
func TestBlocksOfGroupsSideBySide(t *testing.T) {
	for _, text := range []string{
		"fake_quantize_per_channel_backward grad_output=f32[65600,17] axis=1 qmin=-8 qmax=7 zero_point=f32 grad_scale=f32 grad_zero_point=f32",
		"dequantize_per_block_backward grad_output=bf16[65600,32] q=s8 block_size=[65539,1] qmin=-128 qmax=127 grad_scale=f32 grad_input=none",
		"dynamic_quantize_per_channel x=f16[65600,16] q=u8 axis=1 qmin=0 qmax=255 symmetric=false zero_point=i32",
	} {
		c := finiteCase(t, text)
		want := defined(t, c)
		for _, threads := range []int{1, 3} {
			same(t, c, testcase.Options{Preference: plans.Preference{Threads: threads}}, want, "blocks")
		}
	}
}

// Scales and zero points with strides of their own beside compact elements.
// Each of these once gave other bits, or read beside a tensor.
func TestStridesOfParameters(t *testing.T) {
	for _, tc := range []struct {
		text   string
		layout testcase.Layout
	}{
		// Extremes of groups side by side: scales, which are not known yet, were
		// read as if they lay one after the other.
		{"dynamic_quantize_per_token x=bf16[1,3,64,2] q=u8 qmin=0 qmax=255 scale=f16 symmetric=false zero_point=i64", testcase.Reversed},
		{"dynamic_quantize_per_channel x=f32[40,64] q=s8 axis=1 qmin=-128 qmax=127 symmetric=false zero_point=i32", testcase.Reversed},
	} {
		c := caseOf(t, testcase.Small, tc.text)
		want := defined(t, c)
		for _, threads := range []int{1, 3} {
			o := testcase.Options{Preference: plans.Preference{Threads: threads}, Params: tc.layout}
			for _, o.Memory = range []testcase.Memory{testcase.EndsPage, testcase.BeginsPage} {
				same(t, c, o, want, "strides of parameters")
			}
		}
	}
}
