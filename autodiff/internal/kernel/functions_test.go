package kernel

import (
	"math"
	"math/rand/v2"
	"slices"
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
	for _, v := range []float64{0, 0.02, 0.125, 0.125 * math.Sqrt2, 0.25, math.Sqrt2 / 2, math.Sqrt2, 1, 2, 1e-9, 6, 6 * math.Sqrt2, 10, 8.5, 38.5755, 40, 87.33, 89, 104, 120, math.Inf(1)} {
		for i := range uint32(64) {
			near := math.Float32frombits(math.Float32bits(float32(v)) + i - 32)
			x = append(x, near, -near)
		}
	}
	x = x[:len(x)&^7]
	dy, z := make([]float32, len(x)), make([]float32, len(x))
	for i := range dy {
		dy[i] = []float32{1, -3.7, 1e-20, -1e-3, 0.7, float32(math.Inf(1)), 3e38}[i%(5+i/1000%2*2)] // a thousand numbers without an infinity
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
			place := slices.Clone(x) // a turn that is taken again finds its numbers
			f.row(place, place, dy)
			require.True(t, slices.Equal(bits(z), bits(place)), "%s in place (%v)", f.name, rows)
		}
		for _, n := range sizes[1:] { // the rest, and what lies around
			z := make([]float32, n+2)
			f.row(z[1:n+1], x[5:n+5], dy[5:n+5])
			require.Equal(t, [2]float32{}, [2]float32{z[0], z[n+1]})
			require.Equal(t, bits([]float32{f.one(x[n+4], dy[n+4])}), bits(z[n:n+1]), "%s of %d", f.name, n)
		}
	}
}

// TestDoubleFunctions does so with those of f64: of random bits, and of numbers around the places where a
// function changes its formula.
func TestDoubleFunctions(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	x := make([]float64, 40000)
	for i := range x {
		switch i % 4 {
		case 0:
			x[i] = math.Float64frombits(r.Uint64())
		case 1:
			x[i] = r.NormFloat64() * 300
		case 2:
			x[i] = r.NormFloat64() * math.Exp(r.NormFloat64()*4)
		default:
			edges := []float64{0, -1, 1, 709.78, 709.79, -708.4, -745.13, -745.2, 0.25, 22, 1e-9, 0.125, 2, 6, math.Sqrt2 / 2, 0x1p-1022, 5e-324, 3e305, 1e308, math.Inf(1), math.Inf(-1)}
			x[i] = math.Float64frombits(math.Float64bits(edges[r.IntN(len(edges))]) + r.Uint64N(9) - 4)
		}
	}
	defer cpu.Limit(cpu.Best())
	for name, f := range map[string]struct {
		row func(z, x, _ []float64)
		one func(float64) float64
	}{
		"exp":     {Exp[float64], detmath.Exp},
		"log":     {Log[float64], detmath.Log},
		"log1p":   {Log1p[float64], detmath.Log1p},
		"tanh":    {Tanh[float64], detmath.Tanh},
		"sigmoid": {Sigmoid[float64], detmath.Sigmoid},
		"erf":     {Erf[float64], detmath.Erf},
	} {
		for _, rows := range []cpu.ISA{cpu.AVX2, cpu.AVX512} {
			cpu.Limit(rows)
			for _, n := range []int{len(x), 1, 3, 4, 5, 8, 13} {
				z := make([]float64, n+2)
				f.row(z[1:n+1], x[:n], nil)
				require.Equal(t, [2]float64{}, [2]float64{z[0], z[n+1]})
				for i, got := range z[1 : n+1] {
					if want := f.one(x[i]); math.Float64bits(got) != math.Float64bits(want) && (got == got || want == want) {
						t.Fatalf("%s(%v) is %v in a row and %v by itself (%v)", name, x[i], got, want, rows)
					}
				}
			}
		}
	}
}

// TestDoubleGelu compares rows with numbers by themselves: between them ends of intervals, numbers beyond them
// and none, in every place of a group and of a block.
func TestDoubleGelu(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	odd := []float64{-1, -1.5, -2, -2.9, -3, -5.6, -5.7, -20, 0, math.Copysign(0, -1), 1e-10, -1e-9, 0.125 * math.Sqrt2, 6 * math.Sqrt2, -8.5, 38, -39, 40, -41, 1e30, math.Inf(1), math.Inf(-1), math.NaN()}
	defer cpu.Limit(cpu.Best())
	for _, rows := range []cpu.ISA{cpu.Go, cpu.AVX2, cpu.AVX512} {
		cpu.Limit(rows)
		for _, n := range []int{0, 1, 3, 4, 5, 127, 128, 129, 1000} {
			x, g, z := make([]float64, n), make([]float64, n), make([]float64, n)
			for i := range x {
				x[i], g[i] = r.NormFloat64()*2, r.NormFloat64()
				if r.IntN(5) == 0 {
					x[i] = odd[r.IntN(len(odd))]
				}
			}
			holds := func(name string, f func(i int) float64) {
				for i := range z {
					if want := f(i); math.Float64bits(z[i]) != math.Float64bits(want) && (z[i] == z[i] || want == want) {
						t.Errorf("%s(%v), number %d of %d, is %v in a row and %v by itself (%v)", name, x[i], i, n, z[i], want, rows)
					}
				}
			}
			Gelu(z, x, nil)
			holds("gelu", func(i int) float64 { return detmath.Gelu(x[i]) })
			GeluGrad(z, g, x)
			holds("gelu's gradient", func(i int) float64 { return g[i] * detmath.GeluGrad(x[i]) })
			z = slices.Clone(x)
			Gelu(z, z, nil)
			holds("gelu in place", func(i int) float64 { return detmath.Gelu(x[i]) })
		}
	}
}
