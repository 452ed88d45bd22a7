package tests

import (
	"strings"
	"testing"

	"github.com/isobit-ml/isobit/plans"
)

// expand replaces each word {a|b} of a text by every choice.
func expand(text string) (all []string) {
	head, rest, found := strings.Cut(text, "{")
	if !found {
		return []string{text}
	}
	choices, tail, _ := strings.Cut(rest, "}")
	for _, choice := range strings.Split(choices, "|") {
		for _, end := range expand(tail) {
			all = append(all, head+choice+end)
		}
	}
	return all
}

// deviceTexts are the problems that run on the shim.
var deviceTexts = []string{
	"quantize_per_tensor x={f32|f64|f16|bf16}[5,7] scale={f32|f16} q={s8|f32|f64|f16|bf16} qmin=-128 qmax=127",
	"quantize_per_tensor x={f32|f64|f16|bf16}[67] scale=f64 zero_point={i64|u8|none} q=u8 qmin=0 qmax=255",
	"quantize_per_channel x={f32|f16}[3,16,8] zero_point={s8|f32|bf16} q=s8 axis={0|1|-1} qmin=-8 qmax=7 rounding={nearest|reciprocal}",
	"quantize_per_token x={f32|bf16}[4,32] zero_point=f16 q=s8 qmin=-8 qmax=7",
	"quantize_per_group x={f32|f16}[3,20] zero_point={none|f64} q=s8 group_size={4|16|8|7} qmin=-8 qmax=7",
	"quantize_per_block x=f32[6,7,9] q=s8 block_size={[2,3,4]|[1,7,9]|[6,1,4]|[4,7,9]|[1,1,1]} qmin=-8 qmax=7",
	"quantize_per_token_backward grad_output={f32|f64|f16|bf16}[4,20] x={f32|f64|f16|bf16} zero_point=f32 qmin=-8 qmax=7 rounding={nearest|reciprocal}",
	"dequantize_per_channel q={s8|u8|f32|f64|f16|bf16}[3,16,5] y={f32|f64|f16|bf16} zero_point={none|f32} axis=1 qmin=-8 qmax=7",
	"dequantize_per_tensor q=u8[3,16,5] y={f32|f64|f16|bf16} qmin=0 qmax=255",
	"dequantize_per_tensor q={s8|f16}[100] y={f32|f16} qmin=-128 qmax=127",
	"fake_quantize_per_channel x={f32|f64|f16|bf16}[3,8,8] zero_point={i32|f32} axis={0|2} qmin=-8 qmax=7 rounding={nearest|reciprocal}",
	"fake_quantize_per_group x={f32|bf16}[3,50] group_size=16 qmin=0 qmax=255",
	"fake_quantize_per_group_backward grad_output={f32|f64|f16|bf16}[3,50] zero_point={i32|f32} group_size=16 qmin=-8 qmax=7",
	"fake_quantize_per_tensor_backward grad_output={f32|f64|f16|bf16}[3000] zero_point=f32 grad_scale=f32 grad_zero_point=f32 qmin=-8 qmax=7 grad_factor=0.01",
	"fake_quantize_per_tensor_backward grad_output={f32|f64|f16}[140001] zero_point=f64 grad_scale=f32 grad_zero_point=f64 qmin=-8 qmax=7 rounding=reciprocal",
	"fake_quantize_per_channel_backward grad_output={f32|f16|f64}[4,40,50] scale=f16 zero_point=f16 grad_input={none|f32|f16|f64} grad_scale={none|f16} grad_zero_point=f16 axis={0|1|2} qmin=-8 qmax=7",
	"fake_quantize_per_block_backward grad_output={f32|f64}[6,7,9] zero_point=f32 grad_scale=f32 grad_zero_point=f32 block_size={[2,3,4]|[1,7,9]|[6,1,4]|[4,7,9]} qmin=-8 qmax=7",
	"fake_quantize_per_token_backward grad_output={f32|bf16}[{5|0},{0|3|64|65|129|300|1100}] zero_point=f32 grad_scale=f32 grad_zero_point=f32 qmin=-8 qmax=7",
	"fake_quantize_per_channel_backward grad_output=f32[2,3,70000] zero_point=f32 grad_scale=f32 grad_zero_point=f32 axis=1 qmin=-8 qmax=7",
	"dequantize_per_group_backward grad_output={f32|f64|f16|bf16}[7,33] q={s8|u8} zero_point={none|i32|f32} group_size=8 qmin=-8 qmax=7",
	"dequantize_per_group_backward grad_output={f32|f64|f16|bf16}[7,33] q={s8|f16|f32} zero_point=f32 grad_input={f32|f64|f16|bf16} grad_scale=f32 grad_zero_point=f32 group_size=8 qmin=-8 qmax=7",
	"dequantize_per_tensor_backward grad_output={f32|f64|f16|bf16}[131073] zero_point=f32 grad_scale=f32 grad_zero_point=f32 qmin=-8 qmax=7",
	"dequantize_per_token_backward grad_output=f32[70,100] q=none zero_point=f32 grad_input=none grad_zero_point=f32 qmin=-8 qmax=7",
	"choose_qparams_per_{tensor|token} x={f32|f64|f16|bf16}[3,70] scale={f32|f16|f64} qmin=-128 qmax=127 symmetric={true|false}",
	"choose_qparams_per_tensor x={f32|f64|f16|bf16}[70000] qmin=0 qmax=255 symmetric={true|false}",
	"choose_qparams_per_channel x={f32|f64}[3,40,7] zero_point=i64 axis={0|1|2} qmin=-8 qmax=7 symmetric={true|false}",
	"dynamic_quantize_per_token x={f32|f64|f16|bf16}[9,{64|70|0}] q={s8|u8} qmin=0 qmax=127 symmetric={true|false}",
	"dynamic_quantize_per_{tensor|channel axis=1} x={f32|bf16}[9,64] q=s8 qmin=-128 qmax=127",
	"embedding weight={f32|f64|f16|bf16}[11,{8|5|0}] indices={i32|i64}[3,7] bounds=skip",
	"embedding weight={f32|bf16}[11,16] indices={i32|i64}[30] bounds=error",
	"embedding_renorm weight={f32|f64|f16|bf16}[11,{8|100}] indices={i32|i64}[3,7] max_norm=2.5 norm_type={2|1|+Inf} bounds=skip",
	"embedding_renorm weight={f32|f64|f16|bf16}[3,70000] indices=i64[4] max_norm=2.5 bounds=error",
	"embedding_backward grad_output={f32|f64|f16|bf16}[40,{8|5}] indices={i32|i64}[40] grad_weight={f32|f64|f16|bf16}[9,{8|5}]",
	"embedding_backward grad_output=f32[2,3000,4] indices=i64[2,3000] grad_weight=f32[2,4] padding_idx=1 accumulate={true|false} scale_grad_by_freq={true|false}",
	"embedding_backward grad_output={f32|bf16}[1000,4] indices=i64[1000] grad_weight={f32|bf16}[{1|300|70000},4]",
	"embedding_backward grad_output=f64[20000,9] indices=i32[20000] grad_weight=f64[3,9]",
	"embedding_backward grad_output=f32[0,8] indices=i32[0] grad_weight=f32[5,8] accumulate={true|false}",
	"grid_sample input={f32|f64|f16|bf16}[2,3,5,7] grid={f32|f64|f16|bf16}[2,4,6,2] mode={bilinear|nearest} padding_mode={zeros|border|reflection} align_corners={true|false}",
	"grid_sample input={f32|f64|f16|bf16}[2,{0|1|9},3,5,4] grid={f32|f64|f16|bf16}[2,2,3,5,3] mode={bilinear|nearest} padding_mode={zeros|border|reflection} align_corners={true|false}",
	"grid_sample input=f32[1,70,1,1] grid=f32[1,1,9,2] padding_mode={zeros|border|reflection} align_corners={true|false}",
	"grid_sample_backward grad_output={f32|f64|f16|bf16}[2,3,4,6] input={f32|f64|f16|bf16}[2,3,5,7] grid={f32|f64|f16|bf16}[2,4,6,2] mode={bilinear|nearest} padding_mode={zeros|border|reflection} align_corners={true|false}",
	"grid_sample_backward grad_output={f32|f64|f16|bf16}[2,{1|9},2,3,5] input={f32|f64|f16|bf16}[2,{1|9},3,5,4] grid={f32|f64|f16|bf16}[2,2,3,5,3] mode={bilinear|nearest} padding_mode={zeros|border|reflection} align_corners={true|false}",
	"grid_sample_backward grad_output=f32[1,{1|3|17|64},64,50] input=f32[1,{1|3|17|64},6,5] grid=f32[1,64,50,2] mode={bilinear|nearest}",
	"grid_sample_backward grad_output=f64[1,5,40,20,10] input=f64[1,5,3,2,1] grid=f64[1,40,20,10,3] mode={bilinear|nearest} padding_mode=border",
	"grid_sample_backward grad_output=f32[1,{150|5},3,3] input=f32[1,{150|5},4,4] grid=f32[1,3,3,2] grad_input={none|f32}",
	"grid_sample_backward grad_output=f32[2,4,0,3] input=f32[2,4,4,4] grid=f32[2,0,3,2]",
	"affine_grid theta={f32|f64|f16|bf16}[2,2,3] grid={f32|f64|f16|bf16}[2,{5|1},4,2] align_corners={true|false}",
	"affine_grid theta={f32|f64|f16|bf16}[2,3,4] grid={f32|f64|f16|bf16}[2,3,{5|1},4,3] align_corners={true|false}",
	"affine_grid_backward grad_grid={f32|f64|f16|bf16}[2,{5|40|0},14,2] align_corners={true|false}",
	"affine_grid_backward grad_grid={f32|f64|f16|bf16}[2,3,{5|1},4,3] align_corners={true|false}",
	"affine_grid_backward grad_grid={f32|f64|f16|bf16}[1,300,250,2]",
	"affine_grid_backward grad_grid=f32[1,300,700,2]",
	"affine_grid_backward grad_grid={f32|f64|f16|bf16}[1,41,40,42,3]",
	"quantized_linear x=s8[{1|65|70},{4|37|64|0}] weight=s8[{3|66},{4|37|64|0}] bias={none|f32|f16} y={f32|f64|f16|bf16}",
	"quantized_linear x=s8[1,140004] x_scale=f16 weight=s8[1,140004] weight_scale=bf16",
	"quantized_linear x=s8[1,65601] weight=s8[2,65601]",
}

// deviceCases lists every choice that is a valid problem (choices of several
// tensors need not fit), with several kinds of data and layouts.
func deviceCases(t *testing.T) (list []deviceCase) {
	for _, line := range deviceTexts {
		valid := 0
		for _, text := range expand(line) {
			if _, err := plans.Parse(text); err != nil {
				continue
			}
			valid++
			c := deviceCase{text: text, data: [...]string{"mixed", "plain", "hot"}[valid%3], layout: compact}
			switch {
			case strings.Contains(text, "bounds=error"):
				c.data = "valid"
			case strings.Contains(text, "140004"): // more than 32 bits hold
				c.data = "extreme"
			}
			list = append(list, c)
			if valid%2 == 0 {
				c.shift = 8
			} else {
				c.layout = strided
			}
			list = append(list, c)
		}
		if valid == 0 {
			t.Errorf("no choice is a valid problem: %s", line)
		}
	}
	return list
}
