package cpu

import (
	"math"
	"math/rand/v2"
	"testing"
)

// cube has the bits of math.Pow, and so does what kernels compute: f32 cubed in
// f64 is never subnormal.
func TestCubeIsPow(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	check := func(a float64) {
		t.Helper()
		if got, want := cube(a), math.Pow(a, 3); math.Float64bits(got) != math.Float64bits(want) {
			t.Fatalf("cube(%v) is %v; want %v", a, got, want)
		}
	}
	for _, a := range []float64{0, 1, math.Inf(1), math.NaN(), math.SmallestNonzeroFloat64, math.MaxFloat64, 1e-100, 1e100} {
		check(a)
	}
	for range 1_000_000 {
		check(math.Abs(math.Float64frombits(r.Uint64())))
		check(math.Exp(10 * r.NormFloat64()))
		a := float64(math.Float32frombits(r.Uint32() &^ (1 << 31)))
		if want := math.Pow(a, 3); a == a && float64(a*a)*a != want {
			t.Fatalf("%v cubed is %v; want %v", a, float64(a*a)*a, want)
		}
	}
}
