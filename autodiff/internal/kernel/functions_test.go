package kernel

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/isobit-ml/isobit/autodiff/internal/detmath"
	"github.com/isobit-ml/isobit/cpu"
)

// TestFunctions compares the loops of functions with detmath, over all of f32: every 4099th number,
// and those beside 0, infinities, NaNs and the places where a function changes its formula.
func TestFunctions(t *testing.T) {
	var x []float32
	for b := uint64(0); b < 1<<32; b += 4099 {
		x = append(x, math.Float32frombits(uint32(b)))
	}
	for _, v := range []float64{0, 0.02, 0.125, 0.125 * math.Sqrt2, 0.25, math.Sqrt2 / 2, math.Sqrt2, 1, 2, 1e-9, 6, 6 * math.Sqrt2, 10, 38.5755, 40, 89, 104, 120, math.Inf(1)} {
		for i := range uint32(64) {
			near := math.Float32frombits(math.Float32bits(float32(v)) + i - 32)
			x = append(x, near, -near)
		}
	}
	x = x[:len(x)&^7]
	dy, z := make([]float32, len(x)), make([]float32, len(x))
	for i := range dy {
		dy[i] = []float32{1, -3.7, float32(math.Inf(1)), 3e38, 1e-20, -1e-3, 0.7}[i%7]
	}
	type function struct {
		name string
		row  func(z, x, dy []float32)
		one  func(x, dy float32) float32
	}
	of := func(f func(float32) float32) func(x, dy float32) float32 {
		return func(x, _ float32) float32 { return f(x) }
	}
	defer cpu.Limit(cpu.Best())
	for _, f := range []function{
		{"exp", Exp[float32], of(detmath.Exp32)},
		{"log", Log[float32], of(log32)},
		{"log1p", Log1p[float32], of(log1p32)},
		{"tanh", Tanh[float32], of(detmath.Tanh32)},
		{"sigmoid", Sigmoid[float32], of(detmath.Sigmoid32)},
		{"erf", Erf[float32], of(erf32)},
		{"gelu", Gelu[float32], of(In64[float32](detmath.Gelu32))},
		{"gelu's gradient", func(z, x, dy []float32) { GeluGrad(z, dy, x) }, func(x, dy float32) float32 {
			return float32(float64(dy) * detmath.GeluGrad32(float64(x)))
		}},
	} {
		for _, rows := range []cpu.ISA{cpu.AVX2, cpu.AVX512} {
			cpu.Limit(rows)
			f.row(z, x, dy)
			for i, v := range x {
				want := f.one(v, dy[i])
				if math.Float32bits(z[i]) != math.Float32bits(want) && (z[i] == z[i] || want == want) {
					t.Fatalf("%s(%v) is %v in a row and %v by itself (%v)", f.name, v, z[i], want, rows)
				}
			}
		}
		for _, n := range sizes[1:] { // the rest, and what lies around
			z := make([]float32, n+2)
			f.row(z[1:n+1], x[5:n+5], dy[5:n+5])
			require.Equal(t, [2]float32{}, [2]float32{z[0], z[n+1]})
			require.Equal(t, bits([]float32{f.one(x[n+4], dy[n+4])}), bits(z[n:n+1]), "%s of %d", f.name, n)
		}
	}
}
