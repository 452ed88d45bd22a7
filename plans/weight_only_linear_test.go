package plans_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/isobit-ml/isobit/internal/testcase"
	"github.com/isobit-ml/isobit/tensor"
)

// TestWeightOnlyLinear holds the layer against dequantize and a literal sum.
func TestWeightOnlyLinear(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for _, size := range [][3]int64{{1, 1, 1}, {2, 7, 3}, {17, 300, 5}, {3, 70001, 2}, {4, 0, 3}, {0, 5, 3}} {
		m, k, n := size[0], size[1], size[2]
		group := int64(32)
		groups := (k + group - 1) / group
		x, scale, bias := random(rng, m, k), random(rng, n, groups), random(rng, n)
		q := tensor.New(tensor.S8, n, k)
		for i := range tensor.Slice[int8](q) {
			tensor.Slice[int8](q)[i] = int8(rng.IntN(16) - 8)
		}
		w := outputs(t, fmt.Sprintf("dequantize_per_group q=s8[%d,%d] zero_point=none y=f32 group_size=32 qmin=-8 qmax=7", n, k), q, scale)[0]
		want := tensor.New(tensor.F32, m, n)
		for i := range m {
			for j := range n {
				tensor.Slice[float32](want)[i*n+j] = stripeDot(tensor.Slice[float32](x)[i*k:][:k], tensor.Slice[float32](w)[j*k:][:k]) + tensor.Slice[float32](bias)[j]
			}
		}
		text := fmt.Sprintf("weight_only_linear x=f32[%d,%d] weight=%%s[%d,%d] group_size=32", m, k, n, k)
		requireSame(t, outputs(t, fmt.Sprintf(text, "s8"), x, q, scale, bias), []tensor.View{want})
		requireSame(t, outputs(t, fmt.Sprintf(text, "s4"), x, packView(q), scale, bias), []tensor.View{want})
	}
}

// TestWeightOnlyLearnedZeroPoints: a float zero point is rounded and clamped,
// as dequantize has it, so that the layer agrees with its own gradient.
func TestWeightOnlyLearnedZeroPoints(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	zero := tensor.Of([]float32{0.5, 1.5, -0.5, 3.2, nan, inf, -inf, 300, -300, 127.5}, 10, 1)
	one, scale := tensor.Of([]float32{1}, 1, 1), tensor.New(tensor.F32, 10, 1)
	for i := range 10 {
		tensor.Slice[float32](scale)[i] = 1
	}
	for _, codes := range []tensor.DType{tensor.S8, tensor.U8, tensor.S4, tensor.U4} {
		lo, hi := codes.WholeRange()
		q := tensor.New(tensor.U8, 10, 1) // all 0, also of packed codes
		if codes == tensor.S8 {
			q = tensor.New(tensor.S8, 10, 1)
		}
		want := outputs(t, fmt.Sprintf("dequantize_per_group q=%s[10,1] zero_point=f32 y=f32 group_size=1 qmin=%d qmax=%d", codes, lo, hi), q, scale, zero)[0]
		text := fmt.Sprintf("weight_only_linear x=f32[1,1] weight=%s[10,1] weight_zero_point=f32 bias=none group_size=1", codes)
		got := outputs(t, text, one, q, scale, zero, tensor.View{})[0]
		for i, w := range tensor.Slice[float32](want) {
			if w += 0; tensor.Slice[float32](got)[i] != w { // a sum of one term: never -0
				t.Errorf("%s, zero point %v: %v, want %v", codes, tensor.Slice[float32](zero)[i], tensor.Slice[float32](got)[i], w)
			}
		}
	}
}

func random(rng *rand.Rand, shape ...int64) tensor.View {
	v := tensor.New(tensor.F32, shape...)
	for i := range tensor.Slice[float32](v) {
		tensor.Slice[float32](v)[i] = rng.Float32()*2 - 1
	}
	return v
}

// stripeDot sums products, each rounded, in the contract's order.
func stripeDot(a, b []float32) float32 {
	terms := make([]float32, len(a))
	for i, v := range a {
		terms[i] = v * b[i]
	}
	return testcase.Stripe(terms)
}
