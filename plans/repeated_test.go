package plans_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/isobit-ml/isobit/internal/testcase"
	"github.com/isobit-ml/isobit/plans"
	"github.com/isobit-ml/isobit/tensor"
)

// Inputs that are one number each, as the gradient of a sum is, give the bits of as many numbers, wherever others lie.
func TestOneNumber(t *testing.T) {
	defer plans.SetParallelCost(1)()
	test := func(t *testing.T, c *testcase.Case, r *rand.Rand) {
		if !strings.Contains(c.Op.Name, "_per_") {
			return // an op without groups
		}
		c.ExpandWhole(r)
		want := defined(t, c)
		for _, row := range rowsFor(c) {
			o := testcase.Options{Preference: plans.Preference{Row: row, Threads: 1 + r.IntN(3)}, Layout: testcase.Expanded, Memory: testcase.EndsPage}
			same(t, c, o, want, "row "+row)
			o.Layout, o.Memory = testcase.Mixed(r), testcase.BeginsPage
			same(t, c, o, want, "row "+row+", mixed strides")
		}
	}
	forEachOp(t, testcase.Small, 6, test)
	forEachOp(t, testcase.Wide, 2, test)
	forEachOp(t, testcase.Large, 2, test)
}

// Likewise in runs that come from memory, which are longer than there are copies of the number, and are not.
func TestOneNumberFromMemory(t *testing.T) {
	defer plans.SetStreamFrom(1)()
	for _, strands := range []bool{false, true} {
		defer plans.SetReadsStrands(strands)()
		for _, text := range []string{
			"fake_quantize_per_tensor_backward grad_output=f32[3,50001] qmin=-128 qmax=127",
			"fake_quantize_per_tensor_backward grad_output=f32[150001] grad_scale=f32 qmin=-128 qmax=127",
			"fake_quantize_per_channel_backward grad_output=bf16[9,16384] axis=0 qmin=-128 qmax=127",
			"quantize_per_channel_backward grad_output=f64[2,40,1024] axis=1 qmin=-128 qmax=127",
			"dequantize_per_token_backward grad_output=f32[3,40000] q=s4 zero_point=none grad_scale=f32 qmin=-8 qmax=7",
			"dynamic_quantize_per_token x=f32[5,20000] q=s8 qmin=-128 qmax=127",
		} {
			c := finiteCase(t, text)
			c.ExpandWhole(rand.New(rand.NewPCG(5, 6)))
			same(t, c, testcase.Options{Layout: testcase.Expanded, Preference: plans.Preference{Threads: 2}}, defined(t, c), text)
		}
	}
}

// Inputs that are expanded along some dimensions, as the gradients of means and of pooled images are, give the bits of
// those whose elements lie one after the other, also where the output takes the place of the other input.
func TestExpandedAlongSome(t *testing.T) {
	defer plans.SetParallelCost(1)()
	texts := []string{
		"dequantize_per_group_backward grad_output=%s[50,320] q=s8 zero_point=none grad_scale=f32 group_size=32",
		"dequantize_per_token_backward grad_output=%s[20,600] q=s4 zero_point=none grad_scale=f32",
		"choose_qparams_per_group x=%s[30,384] scale=f32 zero_point=i32 group_size=96",
		"dynamic_quantize_per_token x=%s[70,40] q=s8",
	}
	for _, parameters := range []string{"", " grad_scale=f32"} {
		for _, shape := range []string{
			"_per_tensor_backward grad_output=%s[3,40,130]", "_per_tensor_backward grad_output=%s[40,41]",
			"_per_channel_backward axis=0 grad_output=%s[33,700]", "_per_channel_backward axis=1 grad_output=%s[80,300]",
			"_per_channel_backward axis=1 grad_output=%s[5,24,14,14]", "_per_channel_backward axis=1 grad_output=%s[9,8,5,7]",
			"_per_channel_backward axis=1 grad_output=%s[17,2,64,64]", "_per_channel_backward axis=1 grad_output=%s[3,4,100,100]",
			"_per_channel_backward axis=1 grad_output=%s[90,2,28,28]", "_per_channel_backward axis=1 grad_output=%s[2,3,120,140]",
			"_per_group_backward group_size=32 grad_output=%s[70,320]", "_per_group_backward group_size=128 grad_output=%s[20,512]",
			"_per_group_backward group_size=48 grad_output=%s[20,500]", "_per_group_backward group_size=32 grad_output=%s[4,3,256]", "_per_token_backward grad_output=%s[5,24,300]",
		} {
			texts = append(texts, "fake_quantize"+shape+parameters)
		}
	}
	r := rand.New(rand.NewPCG(7, 8))
	for i, text := range texts {
		for _, dtype := range []string{"f32", "bf16", "f64"} {
			c := finiteCase(t, fmt.Sprintf(text, dtype)+codesOf(text))
			c.ExpandData(r)
			want := defined(t, c)
			o := testcase.Options{Layout: testcase.Expanded, Memory: []testcase.Memory{testcase.BeginsPage, testcase.EndsPage}[i%2], Preference: plans.Preference{Threads: 1 + r.IntN(3)}}
			same(t, c, o, want, "expanded")
			if x := c.Arg(c.Args[1].Name); x.Name == "x" && !slices.Contains(x.Expanded, true) {
				o.InPlace = [2]string{"grad_input", "x"}
				same(t, c, o, want, "in place")
			}
		}
	}
}

// codesOf is the range of the codes of a problem.
func codesOf(text string) string {
	if strings.Contains(text, "q=s4") {
		return " qmin=-8 qmax=7"
	}
	return " qmin=-128 qmax=127"
}

// Copies of a number stay for the next run: of another number they are made anew, and of one whose bytes a wider one
// begins with.
func TestAnotherNumber(t *testing.T) {
	again := 0
	defer plans.SetBeforeAgain(func() { again++ })()
	for _, n := range []int64{100, 40_000} { // of plans with calls of their own, and of those that share them
		shape := []int64{2, n}
		for range 3 {
			for _, text := range []string{
				"dequantize_per_tensor_backward grad_output=f32" + tensor.ShapeString(shape) + " q=none zero_point=none qmin=-8 qmax=7",
				"dequantize_per_tensor_backward grad_output=bf16" + tensor.ShapeString(shape) + " q=none zero_point=none qmin=-8 qmax=7",
			} {
				plan, err := plans.Select(0, plans.MustParse(text), plans.Preference{Threads: 1})
				require.NoError(t, err)
				dtype := plan.Problem().DType("grad_output")
				for _, number := range []float64{0, 1, 1, 0, 2, 1} {
					dx, scale := tensor.New(dtype, shape...), tensor.Scalar(float32(1))
					dy := tensor.View{DType: dtype, Data: tensor.New(dtype, 1).Data, Shape: shape, Strides: []int64{0, 0}}
					memory := testcase.Encode(nil, dtype, number)
					copy(tensor.Bytes(tensor.View{DType: dtype, Data: dy.Data, Shape: []int64{1}}), memory)
					require.NoError(t, plan.Run(0, nil, []tensor.View{dy, {}, scale, {}, dx, {}, {}}))
					require.True(t, bytes.Equal(tensor.Bytes(dx), bytes.Repeat(memory, int(2*n))), "%s: %v", text, number)
				}
			}
		}
	}
	require.Greater(t, again, 10)
}
