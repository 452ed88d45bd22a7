package kernel

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/isobit-ml/isobit/autodiff/internal/detmath"
	"github.com/isobit-ml/isobit/cpu"
)

// TestPowers holds rows of powers to detmath's, number by number.
func TestPowers(t *testing.T) {
	t.Run("f32", testPowers[float32])
	t.Run("f64", testPowers[float64])
}

func testPowers[T Float](t *testing.T) {
	defer cpu.Limit(cpu.Best())
	r := rand.New(rand.NewPCG(1, 2))
	inf, nan := math.Inf(1), math.NaN()
	odd := []float64{0, math.Copysign(0, -1), 1, -1, inf, -inf, nan, -2.5, 0.5, 2, 3, -3, 64, 65, 1e-310, 1e-42, 5e-324, 1e300, -1e300, 1e17, 0x1p53 + 1, 1 + 0x1p-23, 1 - 0x1p-53}
	number := func(spread float64) T {
		if r.IntN(4) == 0 {
			return T(odd[r.IntN(len(odd))])
		}
		return T(r.NormFloat64() * math.Exp(r.NormFloat64()*spread))
	}
	power := Power[T]()
	for _, n := range []int{1, 7, 8, 9, 511, 512, 513, 4000} {
		x, y, z := make([]T, n), make([]T, n), make([]T, n)
		for i := range x {
			if x[i] = number(5); r.IntN(3) > 0 {
				x[i] = T(math.Abs(float64(x[i])))
			}
			y[i] = number(2)
		}
		holds := func(form string, base, exponent func(i int) T) {
			for i, got := range z {
				want := T(detmath.Pow(float64(base(i)), float64(exponent(i))))
				if got != want && (got == got || want == want) || math.Signbit(float64(got)) != math.Signbit(float64(want)) && want == 0 {
					t.Fatalf("%v to the power %v, %s of %d, is %v; want %v", base(i), exponent(i), form, n, got, want)
				}
			}
		}
		at := func(x []T) func(i int) T { return func(i int) T { return x[i] } }
		for _, isa := range []cpu.ISA{cpu.Go, cpu.AVX2, cpu.AVX512} {
			cpu.Limit(isa)
			power.VV(z, x, y)
			holds("two rows", at(x), at(y))
			for _, v := range odd {
				v := T(v)
				power.VS(z, x, v)
				holds("a power", at(x), func(int) T { return v })
				power.SV(z, v, y)
				holds("a base", func(int) T { return v }, at(y))
			}
		}
	}
}
