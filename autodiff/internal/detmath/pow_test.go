package detmath

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
)

func bigOf(x float64) *big.Float { return new(big.Float).SetPrec(256).SetFloat64(x) }

// bigExp and bigLog are good to 200 bits and more. (math.Pow is no reference:
// it squares for every bit of an exponent, and each doubles the error.)
func bigExp(x *big.Float) *big.Float {
	const halvings = 26
	y := bigOf(0).SetMantExp(x, -halvings)
	sum, term := bigOf(1), bigOf(1)
	for n := 1; n < 20; n++ {
		term.Quo(term.Mul(term, y), bigOf(float64(n)))
		sum.Add(sum, term)
	}
	for range halvings {
		sum.Mul(sum, sum)
	}
	return sum
}

func bigLog(x float64) *big.Float {
	y := bigOf(math.Log(x))
	for range 2 { // each trebles the good bits
		e := bigExp(y)
		step := bigOf(0).Quo(bigOf(0).Sub(bigOf(x), e), bigOf(0).Add(bigOf(x), e))
		y.Add(y, step.Mul(step, bigOf(2)))
	}
	return y
}

// The product of an exponent and a logarithm is as much as 700, and so would be
// the error of the result in ulps, without a second part of the two.
func TestPow(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	worst, ax, ay := 0.0, 0.0, 0.0
	for range 2000 {
		x := math.Exp(r.NormFloat64() * math.Ldexp(10, -r.IntN(20)))
		y := r.NormFloat64() * math.Ldexp(20, r.IntN(12))
		want, _ := bigExp(bigOf(0).Mul(bigOf(y), bigLog(x))).Float64()
		if want < 1e-300 || math.IsInf(want, 1) || math.Abs(y) <= 64 && y == math.Trunc(y) {
			continue
		}
		if d := ulps(Pow(x, y), want); !(d <= worst) {
			worst, ax, ay = d, x, y
		}
	}
	if !(worst <= 32) {
		t.Errorf("%v to the power %v is off by %.1f ulps: %v, about %v", ax, ay, worst, Pow(ax, ay), math.Exp(ay*math.Log(ax)))
	}
	for _, c := range [][3]float64{
		{1e155, -2, 1e-310}, {-1e103, -3, -1e-309}, {1e155, -3, 0}, {1e-155, -2, math.Inf(1)},
		{10, 400.5, math.Inf(1)}, {10, -400.5, 0}, {0.5, -1e300, math.Inf(1)}, {2, -1e300, 0}, {-2, 65, -0x1p65}, {-2, 66, 0x1p66},
		{-1, 1e305, 1}, {-1, 65, -1}, {-1, -1e19, 1}, {1 + 0x1p-52, 1e300, math.Inf(1)}, {1 - 0x1p-53, 1e19, 0}, {0.3, 1e-320, 1}, {math.SmallestNonzeroFloat64, -0.5, 0x1p537},
	} {
		if got := Pow(c[0], c[1]); !(got == c[2] || ulps(got, c[2]) < 4) {
			t.Errorf("%v to the power %v is %v, want %v", c[0], c[1], got, c[2])
		}
	}
}
