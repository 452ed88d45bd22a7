package plans_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/isobit-ml/isobit/internal/testcase"
	"github.com/isobit-ml/isobit/plans"
	"github.com/isobit-ml/isobit/tensor"
)

// A problem's text and the problem are inverse to each other, whatever the
// order of keys.
func TestTextRoundTrip(t *testing.T) {
	forEachOp(t, testcase.Small, 30, func(t *testing.T, c *testcase.Case, r *rand.Rand) {
		canonical := c.Problem.String()
		p, err := plans.Parse(canonical)
		require.NoError(t, err)
		require.Equal(t, c.Problem, p)
		require.Equal(t, canonical, p.String())
		fields := strings.Split(c.Text, " ")
		r.Shuffle(len(fields)-1, func(i, j int) { fields[i+1], fields[j+1] = fields[j+1], fields[i+1] })
		p, err = plans.Parse(strings.Join(fields, " ") + " device=cpu")
		require.NoError(t, err)
		require.Equal(t, canonical, p.String())
	})
	const device = "embedding weight=f32[5,3] indices=i32[2] device=cuda:3"
	p := plans.MustParse(device)
	require.Equal(t, device, p.String())
	require.Equal(t, tensor.Device{Kind: tensor.CUDA, Index: 3}, p.Device())
	const largest = "matmul input=f32[0,281474976710656] other=f32[281474976710656,0] device=cuda:0"
	require.Equal(t, largest, plans.MustParse(largest).String())
	require.Equal(t, "", plans.Problem{}.String())
	require.PanicsWithValue(t, `plans: the op "embedding" has no argument "x"`, func() { p.DType("x") })
	require.PanicsWithValue(t, `plans: the op "" has no argument "x"`, func() { plans.Problem{}.Shape("x") })
}

// Defaults are left out; what differs from them stays.
func TestTextLeavesDefaultsOut(t *testing.T) {
	for text, want := range map[string]string{
		"quantize_per_tensor x=f32[2] scale=f32 zero_point=i32 q=s8 qmin=-0 qmax=+7 rounding=nearest": "quantize_per_tensor x=f32[2] q=s8 qmin=0 qmax=7",
		"quantize_per_tensor x=f32[] zero_point=none q=s8 qmin=0 qmax=7 rounding=reciprocal":          "quantize_per_tensor x=f32[] zero_point=none q=s8 qmin=0 qmax=7 rounding=reciprocal",
		"embedding_renorm weight=f32[2,3] indices=i32[] max_norm=1e0 norm_type=2.0":                   "embedding_renorm weight=f32[2,3] indices=i32[] max_norm=1",
		"embedding_renorm weight=f32[2,3] indices=i32[] max_norm=Inf norm_type=+inf":                  "embedding_renorm weight=f32[2,3] indices=i32[] max_norm=inf norm_type=inf",
		"choose_qparams_per_token x=f64[2] scale=f64 qmin=0 qmax=7 zero_point=none":                   "choose_qparams_per_token x=f64[2] qmin=0 qmax=7",
		"choose_qparams_per_token x=f64[2] scale=f32 qmin=0 qmax=7 zero_point=i32":                    "choose_qparams_per_token x=f64[2] scale=f32 zero_point=i32 qmin=0 qmax=7",
		"fake_quantize_per_tensor_backward grad_output=f16[2] grad_factor=0x1p-2 qmin=0 qmax=7":       "fake_quantize_per_tensor_backward grad_output=f16[2] qmin=0 qmax=7 grad_factor=0.25",
	} {
		p, err := plans.Parse(text)
		require.NoError(t, err, text)
		require.Equal(t, want, p.String())
	}
}

// A text of very many keys is refused at once.
func TestTextOfManyKeys(t *testing.T) {
	var text strings.Builder
	text.WriteString("quantize_per_tensor x=f32[2] q=s8 qmin=0 qmax=7")
	for i := range 1_000_000 {
		fmt.Fprintf(&text, " k%d=1", i)
	}
	begin := time.Now()
	_, err := plans.Parse(text.String())
	require.ErrorContains(t, err, "is not a key of this op; want x, scale, zero_point, q, ")
	require.Less(t, time.Since(begin), 10*time.Second)
}

// Each bad text gives an error that names the op, the key, what came and what
// was wanted.
func TestBadTexts(t *testing.T) {
	const quantize = "quantize_per_channel x=f32[2,3] q=s8 axis=0 qmin=-128 qmax=127"
	for _, tc := range []struct{ text, op, arg, want string }{
		{"", "", "op", `^"" is not known; want an op of OPS.md or plans.Support$`},
		{"quantise x=f32[2]", "", "op", `^"quantise" is not known; want an op of OPS.md or plans.Support, such as quantize_per_tensor, quantize_per_channel, quantize_per_token$`},
		{" " + quantize, "", "op", `^"" is not known`},
		{quantize + " ", "quantize_per_channel", "text", `^has ""; want key=value, each key once, separated by single spaces$`},
		{quantize + " \xff=1", "quantize_per_channel", "text", `^has "\\xff=1"; want key=value`},
		{quantize + " scale=\xc3", "quantize_per_channel", "text", `^has "scale=\\xc3"; want key=value`},
		{"\xff" + quantize, "", "op", `^"\\xffquantize_per_channel" is not known`},
		{quantize + " axis=1", "quantize_per_channel", "axis", `^is "0", and then "1"; want each key once$`},
		{strings.Repeat("é", 1<<20), "", "op", `^"é{32}\.\.\." is not known; want an op of OPS.md or plans.Support$`},
		{quantize + " rounding=" + strings.Repeat("u", 1<<20), "quantize_per_channel", "rounding", `^is "u{64}\.\.\."; want one of nearest, reciprocal$`},
		{quantize + " axis", "quantize_per_channel", "text", `^has "axis"; want key=value`},
		{quantize + " rounding=", "quantize_per_channel", "text", `^has "rounding="; want key=value`},
		{quantize + " =1", "quantize_per_channel", "text", `^has "=1"; want key=value`},
		{quantize + " axes=1", "quantize_per_channel", "axes", `^is not a key of this op; want x, scale, zero_point, q, axis, qmin, qmax, rounding, device$`},
		{quantize + " rounding=up", "quantize_per_channel", "rounding", `^is "up"; want one of nearest, reciprocal$`},
		{quantize + " scale=s8", "quantize_per_channel", "scale", `^is s8; want one of f32, f64, f16, bf16$`},
		{quantize + " scale=f32[2]", "quantize_per_channel", "scale", `^is "f32\[2\]"; want a type without a shape$`},
		{quantize + " scale=[2]", "quantize_per_channel", "scale", `^is "\[2\]"; want one of f32, f64, f16, bf16$`},
		{quantize + " scale=F32", "quantize_per_channel", "scale", `^is "F32"; want one of f32`},
		{quantize + " zero_point=none[1]", "quantize_per_channel", "zero_point", `^is "none\[1\]"; want one of i32`},
		{"matmul input=f32[0,281474976710657] other=f32[281474976710657,0]", "matmul", "input", `want at most 2\^48 elements, where an extent of 0 counts as 1$`},
		{quantize + " scale=none", "quantize_per_channel", "scale", `^is none, but it is required$`},
		{quantize + " device=gpu", "quantize_per_channel", "device", `^is "gpu"; want cpu or cuda:N$`},
		{quantize + " device=5", "quantize_per_channel", "device", `^is "5"; want cpu or cuda:N$`},
		{quantize + " device=cuda:2147483648", "quantize_per_channel", "device", `^is "cuda:2147483648"; want`},
		{quantize + " device=cuda:-1", "quantize_per_channel", "device", `^is "cuda:-1"; want`},
		{quantize + " device=cuda:01", "quantize_per_channel", "device", `^is "cuda:01"; want`},
		{"quantize_per_channel x=f32[2,3] q=s8 qmin=0 qmax=1", "quantize_per_channel", "axis", `^is missing; want a whole number$`},
		{"quantize_per_channel q=s8 axis=0 qmin=0 qmax=1", "quantize_per_channel", "x", `^is missing; want a type and a shape, such as f32\[8,64\]$`},
		{"quantize_per_channel x=f32[2] axis=0 qmin=0 qmax=1", "quantize_per_channel", "q", `^is missing; want a type$`},
		{"quantize_per_channel x=f32 q=s8 axis=0 qmin=0 qmax=1", "quantize_per_channel", "x", `^is "f32"; want a type with a shape$`},
		{"quantize_per_channel x=f32[2 q=s8 axis=0 qmin=0 qmax=1", "quantize_per_channel", "x", `^is "f32\[2"; want a shape such as \[8,64\]$`},
		{"quantize_per_channel x=f32[-2] q=s8 axis=0 qmin=0 qmax=1", "quantize_per_channel", "x", `^is "f32\[-2\]"; want a shape such as`},
		{"quantize_per_channel x=f32[2,] q=s8 axis=0 qmin=0 qmax=1", "quantize_per_channel", "x", `^is "f32\[2,\]"; want a shape such as`},
		{"quantize_per_channel x=f32[1,1,1,1,1,1,1,1,1] q=s8 axis=0 qmin=0 qmax=1", "quantize_per_channel", "x", `^has 9 dimensions; want at most 8$`},
		{"quantize_per_channel x=f32[99999999999999999999] q=s8 axis=0 qmin=0 qmax=1", "quantize_per_channel", "x", `^is "f32\[99999999999999999999\]"; want at most 2\^48 elements$`},
		{"quantize_per_channel x=f32[99999999999999999999,a] q=s8 axis=0 qmin=0 qmax=1", "quantize_per_channel", "x", `want a shape such as`},
		{"quantize_per_channel x=f32[2] q=s8 axis=0 qmin=0 qmax=9223372036854775808", "quantize_per_channel", "qmax", `^is "9223372036854775808"; want a whole number within -2\^63 to 2\^63 - 1$`},
		{"quantize_per_channel x=f32[2] q=s8 axis=0 qmin=-9223372036854775809 qmax=1", "quantize_per_channel", "qmin", `within -2\^63 to 2\^63 - 1$`},
		{"quantize_per_channel x=f32[2] q=s8 axis=0 qmin=1e3 qmax=1", "quantize_per_channel", "qmin", `^is "1e3"; want a whole number$`},
		{"quantize_per_block x=f32[4] q=s8 block_size=[99999999999999999999] qmin=0 qmax=7", "quantize_per_block", "block_size", `^is "\[99999999999999999999\]"; want a list such as \[1,32\] of whole numbers within -2\^63 to 2\^63 - 1$`},
		{"fake_quantize_per_tensor_backward grad_output=f32[2] grad_factor=-1e400 qmin=0 qmax=7", "fake_quantize_per_tensor_backward", "grad_factor", `^is "-1e400"; want a number that f64 holds, up to 1\.797693134862315e308, or inf$`},
		{"quantize_per_channel x=f32[4294967296,65537] q=s8 axis=0 qmin=0 qmax=1", "quantize_per_channel", "x", `^has shape \[4294967296, 65537\]; want at most 2\^48 elements$`},
		{"quantize_per_channel x=f32[0,9223372036854775807] q=s8 axis=1 qmin=0 qmax=1", "quantize_per_channel", "x", `want at most 2\^48`},
		{"choose_qparams_per_token x=f32[9223372036854775807,0] qmin=0 qmax=1", "choose_qparams_per_token", "x", `want at most 2\^48`},
		{"embedding weight=f32[1,1099511627776] indices=i32[1099511627776]", "embedding", "y", `^has shape \[1099511627776, 1099511627776\]; want at most 2\^48`},
		{"embedding_backward grad_output=f32[0] indices=i64[] grad_weight=f32[9223372036854775807,0]", "embedding_backward", "grad_weight", `want at most 2\^48`},
		{"grid_sample input=f32[1,1099511627776,1,1] grid=f32[1,1,1099511627776,2]", "grid_sample", "y", `want at most 2\^48`},
		{"quantized_linear x=s8[1099511627776,1] weight=s8[1099511627776,1]", "quantized_linear", "y", `want at most 2\^48`},
		{"quantize_per_channel x=f32[2,3] q=s8 axis=2 qmin=0 qmax=1", "quantize_per_channel", "axis", `^is 2; want -2 to 1 for shape \[2, 3\]$`},
		{"quantize_per_channel x=f32[2,3] q=s8 axis=-3 qmin=0 qmax=1", "quantize_per_channel", "axis", `^is -3; want -2 to 1 for shape \[2, 3\]$`},
		{"quantize_per_channel x=f32[] q=s8 axis=0 qmin=0 qmax=1", "quantize_per_channel", "axis", `^is 0; want`},
		{"quantize_per_channel x=f32[2,3] q=s8 axis=a qmin=0 qmax=1", "quantize_per_channel", "axis", `^is "a"; want a whole number$`},
		{"quantize_per_channel x=f32[2,3] q=s8 axis=0 qmin=1 qmax=0", "quantize_per_channel", "qmin", `^is 1, above qmax, which is 0$`},
		{"quantize_per_channel x=f32[2,3] q=s8 axis=0 qmin=-129 qmax=0", "quantize_per_channel", "qmin", `^is -129; s8 starts at -128$`},
		{"quantize_per_channel x=f32[2,3] q=u8 axis=0 qmin=0 qmax=256", "quantize_per_channel", "qmax", `^is 256; u8 ends at 255$`},
		{"quantize_per_tensor x=f64[2] q=bf16 qmin=0 qmax=257", "quantize_per_tensor", "qmax", `^is 257; bf16 ends at 256$`},
		{"quantize_per_tensor x=f32[2] q=f64 qmin=0 qmax=16777217", "quantize_per_tensor", "qmax", `^is 16777217; `},
		{"quantize_per_tensor_backward grad_output=f16[2] qmin=-2147483649 qmax=7", "quantize_per_tensor_backward", "qmin", `^is -2147483649; the range of codes starts at -2147483648$`},
		{"quantize_per_tensor_backward grad_output=f64[2] x=f32 qmin=0 qmax=16777217", "quantize_per_tensor_backward", "qmax", `^is 16777217, which f32 does not hold; want a number that it does, or 2147483647$`},
		{"dequantize_per_tensor q=f64[2] y=f32 qmin=-16777217 qmax=7", "dequantize_per_tensor", "qmin", `^is -16777217; f64 computed in f32 starts at -16777216$`},
		{"choose_qparams_per_tensor x=f32[2] qmin=0 qmax=16777217", "choose_qparams_per_tensor", "qmax", `^is 16777217; the range of exact whole numbers ends at 16777216$`},
		{"fake_quantize_per_tensor x=f64[2] qmin=-8388609 qmax=0", "fake_quantize_per_tensor", "qmin", `^is -8388609; the range of fake-quantized codes starts at -8388608$`},
		{"quantize_per_tensor x=f32[] q=s4 qmin=0 qmax=7", "quantize_per_tensor", "x", `^has shape \[\]; want at least one dimension to pack along$`},
		{"quantize_per_tensor x=f32[2] q=f8e4m3 qmin=0 qmax=7", "quantize_per_tensor", "zero_point", `^is i32; f8e4m3 codes have a scale only: want none$`},
		{"quantize_per_token x=f32[] q=s8 qmin=0 qmax=7", "quantize_per_token", "x", `^has shape \[\]; want at least one dimension$`},
		{"quantize_per_group x=f32[] q=s8 group_size=2 qmin=0 qmax=7", "quantize_per_group", "x", `^has shape \[\]; want at least one dimension$`},
		{"quantize_per_group x=f32[4] q=s8 group_size=0 qmin=0 qmax=7", "quantize_per_group", "group_size", `^is 0; want at least 1$`},
		{"quantize_per_block x=f32[4,4] q=s8 block_size=[2] qmin=0 qmax=7", "quantize_per_block", "block_size", `^is \[2\]; want one extent of at least 1 for each dimension of shape \[4, 4\]$`},
		{"quantize_per_block x=f32[4] q=s8 block_size=2 qmin=0 qmax=7", "quantize_per_block", "block_size", `^is "2"; want a list such as \[1,32\]$`},
		{"quantize_per_block x=f32[4] q=s8 block_size=2] qmin=0 qmax=7", "quantize_per_block", "block_size", `^is "2\]"; want a list such as`},
		{"fake_quantize_per_tensor x=f32[2] y=f64 qmin=0 qmax=7", "fake_quantize_per_tensor", "y", `^is f64; want f32, the type of x$`},
		{"fake_quantize_per_tensor_backward grad_output=f32[2] grad_input=none qmin=0 qmax=7", "fake_quantize_per_tensor_backward", "grad_input", `^is none, and so are grad_scale and grad_zero_point; want at least one$`},
		{"fake_quantize_per_tensor_backward grad_output=f32[2] grad_zero_point=f32 qmin=0 qmax=7", "fake_quantize_per_tensor_backward", "grad_zero_point", `only a float zero point has a gradient$`},
		{"fake_quantize_per_tensor_backward grad_output=f32[2] grad_scale=f64 qmin=0 qmax=7", "fake_quantize_per_tensor_backward", "grad_scale", `^is f64; want f32, the type of scale$`},
		{"fake_quantize_per_tensor_backward grad_output=f32[2] grad_factor=one qmin=0 qmax=7", "fake_quantize_per_tensor_backward", "grad_factor", `^is "one"; want a number$`},
		{"fake_quantize_per_tensor_backward grad_output=f32[2] grad_factor=1_0 qmin=0 qmax=7", "fake_quantize_per_tensor_backward", "grad_factor", `^is "1_0"; want a number$`},
		{"dequantize_per_tensor_backward grad_output=f32[2] q=none grad_scale=f32 qmin=0 qmax=7", "dequantize_per_tensor_backward", "q", `^is none, but grad_scale is computed from it$`},
		{"choose_qparams_per_token x=f32[2] symmetric=false zero_point=none qmin=0 qmax=7", "choose_qparams_per_token", "zero_point", `^is none, but symmetric=false chooses one$`},
		{"choose_qparams_per_token x=f32[2] qmin=-7 qmax=0", "choose_qparams_per_token", "qmax", `^is 0; want at least 1 with symmetric=true: scales are max\|x\| / qmax$`},
		{"dynamic_quantize_per_token x=f32[2] q=s8 qmin=-7 qmax=-3", "dynamic_quantize_per_token", "qmax", `^is -3; want at least 1 with symmetric=true`},
		{"dynamic_quantize_per_token x=f32[2] q=s8 symmetric=false qmin=3 qmax=3", "dynamic_quantize_per_token", "qmax", `^is 3, and so is qmin; want more with symmetric=false: scales are a range divided by their difference$`},
		{"choose_qparams_per_token x=f32[2] qmin=0 qmax=7 eps=-0x1p-9", "choose_qparams_per_token", "eps", `^is -0\.001953125; want at least 0, and finite in f32$`},
		{"choose_qparams_per_token x=bf16[2] qmin=0 qmax=7 eps=3.41e38", "choose_qparams_per_token", "eps", `^is 3\.41e\+38; want at least 0, and finite in f32$`},
		{"dynamic_quantize_per_token x=f64[2] q=s8 qmin=0 qmax=7 eps=inf", "dynamic_quantize_per_token", "eps", `^is inf; want at least 0, and finite in f64$`},
		{"dynamic_quantize_per_token x=f64[2] q=s8 qmin=0 qmax=7 eps=nan", "dynamic_quantize_per_token", "eps", `^is nan; want at least 0, and finite in f64$`},
		{"choose_qparams_per_token x=f32[2] symmetric=0 qmin=0 qmax=7", "choose_qparams_per_token", "symmetric", `^is "0"; want true or false$`},
		{"embedding weight=f32[5] indices=i32[2]", "embedding", "weight", `^has shape \[5\]; want \[V, D\]$`},
		{"embedding weight=f32[5,3] indices=i32[1,1,1,1,1,1,1,1]", "embedding", "indices", `^has 8 dimensions; want at most 7$`},
		{"embedding_backward grad_output=f32[2,4] indices=i32[2] grad_weight=f32[5,3]", "embedding_backward", "grad_output", `^has shape \[2, 4\]; want \[2, 3\]$`},
		{"embedding_backward grad_output=f32[2,3] indices=i32[2] grad_weight=f32[5,3] padding_idx=-2", "embedding_backward", "padding_idx", `^is -2; want a row, or -1 for none$`},
		{"embedding_backward grad_output=f32[2,3] indices=i32[2] grad_weight=f32[5]", "embedding_backward", "grad_weight", `^has shape \[5\]; want \[V, D\]$`},
		{"embedding_renorm weight=f32[5] indices=i32[2] max_norm=1", "embedding_renorm", "weight", `^has shape \[5\]; want \[V, D\]$`},
		{"embedding_renorm weight=f32[5,3] indices=i32[2] max_norm=nan", "embedding_renorm", "max_norm", `^is NaN; want a number$`},
		{"embedding_renorm weight=f32[5,3] indices=i32[2] max_norm=1 norm_type=nan", "embedding_renorm", "norm_type", `^is NaN; want a number$`},
		{"embedding_bag weight=f32[5] indices=i32[2,2]", "embedding_bag", "weight", `^has shape \[5\]; want \[V, D\]$`},
		{"embedding_bag weight=f32[5,3] indices=i32[2]", "embedding_bag", "indices", `^has shape \[2\]; want \[B, L\], or \[N\] and offsets$`},
		{"embedding_bag weight=f32[5,3] indices=i32[2,2] include_last_offset=true", "embedding_bag", "include_last_offset", `^is true; want false without offsets$`},
		{"embedding_bag weight=f32[5,3] indices=i32[2,2] offsets=i32[2]", "embedding_bag", "indices", `^has shape \[2, 2\]; want \[N\] beside offsets$`},
		{"embedding_bag weight=f32[5,3] indices=i32[2] offsets=i32[2,1]", "embedding_bag", "offsets", `^has shape \[2, 1\]; want \[B\]$`},
		{"embedding_bag weight=f32[5,3] indices=i32[2] offsets=i32[0] include_last_offset=true", "embedding_bag", "offsets", `^has shape \[0\]; want at least the last offset$`},
		{"embedding_bag weight=f32[5,3] indices=i32[2,2] padding_idx=-2", "embedding_bag", "padding_idx", `^is -2; want a row, or -1 for none$`},
		{"embedding_bag weight=f32[5,3] indices=i32[2,2] padding_idx=5", "embedding_bag", "padding_idx", `^is 5; want a row of weight, which has 5, or -1 for none$`},
		{"embedding_bag_backward grad_output=f32[2,3] indices=i32[2,2] grad_weight=f32[5,3] padding_idx=6", "embedding_bag_backward", "padding_idx", `^is 6; want a row of grad_weight, which has 5`},
		{"embedding_bag weight=f32[5,3] indices=i32[2,2] per_sample_weights=f32", "embedding_bag", "per_sample_weights", `^is f32; want none with mode=mean, only mode=sum has them$`},
		{"embedding_bag weight=f32[5,3] indices=i32[2,2] per_sample_weights=f64 mode=sum", "embedding_bag", "per_sample_weights", `^is f64; want f32, the type of weight$`},
		{"embedding_bag weight=f32[5,3] indices=i32[2,2] chosen=i64 mode=sum", "embedding_bag", "chosen", `^is i64; want none with mode=sum$`},
		{"embedding_bag weight=f32[5,3] indices=i32[2,2] chosen=i32 mode=max", "embedding_bag", "chosen", `^is i32; want one of i64$`},
		{"embedding_bag weight=f32[5,3] indices=i32[2,2] mode=avg", "embedding_bag", "mode", `^is "avg"; want one of sum, mean, max$`},
		{"embedding_bag_backward grad_output=f32[3,3] indices=i32[2,2] grad_weight=f32[5,3]", "embedding_bag_backward", "grad_output", `^has shape \[3, 3\]; want \[2, 3\]$`},
		{"embedding_bag_backward grad_output=f32[2,3] indices=i32[2,2] grad_weight=f32[5]", "embedding_bag_backward", "grad_weight", `^has shape \[5\]; want \[V, D\]$`},
		{"embedding_bag_backward grad_output=f32[2,3] indices=i32[2,2] grad_weight=f32[5,3] mode=max", "embedding_bag_backward", "chosen", `^is none; want i64 with mode=max$`},
		{"embedding_bag_backward grad_output=f32[2,3] indices=i32[2,2] grad_weight=f32[5,3] mode=max chosen=i64 scale_grad_by_freq=true", "embedding_bag_backward", "scale_grad_by_freq", `^is true; want false with mode=max$`},
		{"embedding_bag_backward grad_output=f32[2,3] indices=i32[2,2] grad_weight=f64[5,3]", "embedding_bag_backward", "grad_weight", `^is f64; want f32, the type of grad_output$`},
		{"embedding_bag_per_sample_weights_backward grad_output=f32[2,4] weight=f32[5,3] indices=i32[2,2]", "embedding_bag_per_sample_weights_backward", "grad_output", `^has shape \[2, 4\]; want \[2, 3\]$`},
		{"embedding_bag_per_sample_weights_backward grad_output=f16[2,3] weight=f32[5,3] indices=i32[2,2]", "embedding_bag_per_sample_weights_backward", "grad_output", `^is f16; want f32, the type of weight$`},
		{"embedding_bag_per_sample_weights_backward grad_output=f16[2,3] weight=f32[5] indices=i32[2,2]", "embedding_bag_per_sample_weights_backward", "weight", `^has shape \[5\]; want \[V, D\]$`},
		{"grid_sample input=f32[1,2,3] grid=f32[1,2,2]", "grid_sample", "input", `want \[N, C, H, W\] or \[N, C, D, H, W\]$`},
		{"grid_sample input=f32[1,2,3,3] grid=f32[2,2,2,2]", "grid_sample", "grid", `^has shape \[2, 2, 2, 2\]; want 4 dimensions, the first 1, the last 2$`},
		{"grid_sample input=f32[1,2,0,3] grid=f32[1,2,2,2]", "grid_sample", "input", `want spatial extents of at least 1$`},
		{"grid_sample input=bf16[1,1,1,16777217] grid=f32[1,1,1,2]", "grid_sample", "input", `^has shape \[1, 1, 1, 16777217\]; want spatial extents of at most 16777216, whose pixels f32 tells apart$`},
		{"grid_sample_backward grad_output=f32[1,1,1,1] input=f32[1,1,16777217,1] grid=f32[1,1,1,2]", "grid_sample_backward", "input", `want spatial extents of at most 16777216`},
		{"grid_sample input=f32[1,2,3,3,3] grid=f32[1,2,2,2] mode=bicubic", "grid_sample", "grid", `^has shape \[1, 2, 2, 2\]; want 5 dimensions, the first 1, the last 3$`},
		{"grid_sample_backward grad_output=f32[1,2,2,2,1] input=f32[1,2,3,3,3] grid=f32[1,2,2,2,3] mode=bicubic", "grid_sample_backward", "grad_output", `^has shape \[1, 2, 2, 2, 1\]; want \[1, 2, 2, 2, 2\]$`},
		{"grid_sample input=f32[1,2,3,3] grid=f64[1,2,2,2]", "grid_sample", "grid", `^is f64 with an input of f32; want f32$`},
		{"grid_sample input=f16[1,2,3,3] grid=bf16[1,2,2,2]", "grid_sample", "grid", `^is bf16 with an input of f16; want f16 or f32$`},
		{"grid_sample_backward grad_output=f32[1,2,2,3] input=f32[1,2,3,3] grid=f32[1,2,2,2]", "grid_sample_backward", "grad_output", `^has shape \[1, 2, 2, 3\]; want \[1, 2, 2, 2\]$`},
		{"grid_sample_backward grad_output=f32[1,2,2,2] input=f32[1,2,3,3] grid=f32[1,2,2,2] grad_input=none grad_grid=none", "grid_sample_backward", "grad_input", `^is none, and so is grad_grid; want at least one$`},
		{"grid_sample_double_backward grad_output=f32[1,2,2,2] input=f32[1,2,3,3] grid=f32[1,2,2,2] grad_grad_input=none grad_grad_grid=none", "grid_sample_double_backward", "grad_grad_input", `^is none, and so is grad_grad_grid; want at least one$`},
		{"grid_sample_double_backward grad_output=f32[1,2,2,2] input=f32[1,2,3,3] grid=f32[1,2,2,2] grad_grad_output=none grad_input=none grad_grid=none", "grid_sample_double_backward", "grad_grad_output", `^is none, and so are grad_input and grad_grid; want at least one$`},
		{"grid_sample_double_backward grad_output=f32[1,2,2,2] input=f32[1,2,3,3] grid=f32[1,2,2,2] grad_grad_input=f64", "grid_sample_double_backward", "grad_grad_input", `^is f64; want f32, the type of input$`},
		{"grid_sample_double_backward grad_output=f32[1,2,2,2] input=f32[1,2,3,3] grid=f32[1,2,2,2] grad_grad_grid=f16", "grid_sample_double_backward", "grad_grad_grid", `^is f16; want f32, the type of grid$`},
		{"grid_sample_double_backward grad_output=f32[1,2,2,2] input=f32[1,2,3,3] grid=f32[1,2,2,2] grad_grad_output=f16", "grid_sample_double_backward", "grad_grad_output", `^is f16; want f32, the type of input$`},
		{"grid_sample_double_backward grad_output=f32[1,2,2,3] input=f32[1,2,3,3] grid=f32[1,2,2,2]", "grid_sample_double_backward", "grad_output", `^has shape \[1, 2, 2, 3\]; want \[1, 2, 2, 2\]$`},
		{"affine_grid theta=f32[1,3,3] grid=f32[1,4,4,2]", "affine_grid", "theta", `^has shape \[1, 3, 3\]; want \[1, 2, 3\]$`},
		{"affine_grid theta=f32[1,2,3] grid=f32[1,4,4,3]", "affine_grid", "grid", `^has shape \[1, 4, 4, 3\]; want \[N, H, W, 2\] or \[N, D, H, W, 3\]$`},
		{"quantized_linear x=s8[3] weight=s8[4,3]", "quantized_linear", "x", `^has shape \[3\]; want \[M, K\]$`},
		{"quantized_linear x=s8[2,3] weight=s8[4,5]", "quantized_linear", "weight", `^has shape \[4, 5\]; want \[N, 3\]$`},
		{"weight_only_linear x=f32[3] weight=s8[4,3] group_size=2", "weight_only_linear", "x", `^has shape \[3\]; want \[M, K\]$`},
		{"weight_only_linear x=f32[2,3] weight=u4[3] group_size=2", "weight_only_linear", "weight", `^has shape \[3\]; want \[N, 3\]$`},
		{"weight_only_linear x=f32[2,3] weight=s8[4,3] group_size=0", "weight_only_linear", "group_size", `^is 0; want at least 1$`},
	} {
		_, err := plans.Parse(tc.text)
		require.Error(t, err, tc.text)
		e := requireKind(t, err, plans.InvalidProblem)
		require.Equal(t, []string{tc.op, tc.arg}, []string{e.Op, e.Arg}, "%s: %v", tc.text, err)
		require.Regexp(t, tc.want, e.Msg, tc.text)
	}
	_, err := plans.Select(0, plans.Problem{}, plans.Preference{})
	requireKind(t, err, plans.InvalidProblem)
}

// Ops that are not known bring the nearest ones to mind, in as many bytes as C
// callers have for an error.
func TestNearestOps(t *testing.T) {
	for name, want := range map[string]string{
		"grid_sampler":                "grid_sample",
		"gridsample_backward":         "grid_sample_backward",
		"embeding":                    "embedding",
		"Embedding_Bag":               "embedding_bag",
		"linear":                      "matmul, quantized_linear",
		"gemm":                        "matmul",
		"fake_quant_per_channel":      "fake_quantize_per_channel",
		"fake_quantize_per_tensor_bw": "fake_quantize_per_tensor",
		"quantize_per_row":            "quantize_per_tensor",
		"dequantize":                  "dequantize_per_tensor",
	} {
		_, err := plans.Parse(name + " x=f32[2]")
		require.Regexp(t, `such as (\w+, ){0,2}`+want+`\b`, err, name)
	}
	for _, name := range []string{"conv2d", "x", "_", "softmax", strings.Repeat("_", 100)} {
		_, err := plans.Parse(name)
		require.NotContains(t, err.Error(), "such as", name)
	}
	for _, name := range plans.OpNames() {
		for _, wrong := range []string{name + "s", name[1:], name + strings.Repeat("_x", 99)} {
			_, err := plans.Parse(wrong)
			require.Less(t, len(err.Error()), 256, wrong)
		}
	}
}

// What Parse returns with an error is the zero Problem, whichever step refused
// the text; to select it is an error, too.
func TestSelectOfFailedParse(t *testing.T) {
	for _, text := range []string{
		"quantise x=f32[2]",
		"quantize_per_channel x=f32[2,3] x=f32[2,3]",
		"quantize_per_channel x=f32[2,3] q=s8 axis=0 qmin=0",
		"quantize_per_channel x=f32[2,3] q=s8 axis=0 qmin=0 qmax=1 axes=1",
		"quantize_per_channel x=f32[2,3] q=s8 axis=7 qmin=0 qmax=1",
		"grid_sample_backward grad_output=f32[1,2,2,2] input=f32[1,2,3,3] grid=f32[1,2,2,2] grad_input=none grad_grid=none",
		"quantize_per_channel x=f32[4294967296,65537] q=s8 axis=0 qmin=0 qmax=1",
	} {
		p, err := plans.Parse(text)
		require.Error(t, err, text)
		require.Equal(t, plans.Problem{}, p, text)
		_, err = plans.Select(0, p, plans.Preference{})
		requireKind(t, err, plans.InvalidProblem)
	}
}

// Preferences that no row meets.
func TestBadPreferences(t *testing.T) {
	forEachOp(t, testcase.Small, 1, func(t *testing.T, c *testcase.Case, _ *rand.Rand) {
		for want, preference := range map[string]plans.Preference{
			`^names row "sse9"; want one of (.+, )?go$`:                            {Row: "sse9"},
			`^allows -1 bytes of workspace; want at least 1, or 0 for any number$`: {MaxWorkspace: -1},
			`^asks for -1 threads; want 0 to 1024$`:                                {Threads: -1},
			`^asks for 1025 threads; want 0 to 1024$`:                              {Threads: plans.MaxThreads + 1},
		} {
			_, err := plans.Select(0, c.Problem, preference)
			e := requireKind(t, err, plans.InvalidProblem)
			require.Equal(t, []string{c.Op.Name, "preference"}, []string{e.Op, e.Arg})
			require.Regexp(t, want, e.Msg)
		}
	})
}

// Blocks larger than any tensor are one block.
func TestHugeBlocks(t *testing.T) {
	for text, want := range map[string][]int64{
		"quantize_per_group x=f32[3,4] q=s8 group_size=9223372036854775807 qmin=0 qmax=1":           {3, 1},
		"quantize_per_block x=f32[3,4] q=s8 block_size=[9223372036854775807,3] qmin=0 qmax=1":       {1, 2},
		"quantize_per_group x=f32[3,0] q=s8 group_size=9223372036854775807 qmin=0 qmax=1":           {3, 0},
		"dynamic_quantize_per_group x=f32[3,4] q=s8 group_size=9223372036854775807 qmin=0 qmax=1":   {3, 1},
		"weight_only_linear x=f32[2,4] weight=s8[3,4] group_size=9223372036854775807":               {3, 1},
		"weight_only_linear x=f32[2,4] weight=u4[3,4] group_size=4611686018427387904 bias=none":     {3, 1},
		"fake_quantize_per_block x=f16[3,4] block_size=[3,9223372036854775807] qmin=0 qmax=1 y=f16": {1, 1},
	} {
		c := caseOf(t, testcase.Small, text)
		for _, a := range c.Args {
			if a.Name == "scale" || a.Name == "weight_scale" {
				require.Equal(t, want, a.Shape, text)
			}
		}
		same(t, c, testcase.Options{Memory: testcase.EndsPage}, defined(t, c), "guarded")
	}
}
