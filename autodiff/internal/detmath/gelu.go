package detmath

import "math"

// Gelu is x times the normal distribution function. Results of f32 take 1 + erf for all numbers, as their
// loops do: an error of 1e-16 of x, which is all that is left below about -8. Those of f64 take
// erfc below tailEnd.
const (
	tailEnd   = -1
	tailTable = -2.75 // beyond, the terms of erfTable are too few for what is left of erfc
	halfRoot  = 0x1.6a09e667f3bcdp-1
	// halfRootLo is what 1/sqrt(2) has beyond f64.
	halfRootLo    = 1/math.Sqrt2 - halfRoot
	densityFactor = 1 / math.SqrtPi / math.Sqrt2
)

// Gelu returns x * (1 + erf(x/sqrt(2))) / 2.
func Gelu(x float64) float64 {
	if x <= tailEnd && !math.IsInf(x, -1) {
		cdf, _ := tail(x)
		return x * cdf
	}
	return geluOf(x, Erf(x*halfRoot))
}

// Gelu32 is Gelu for results of f32.
func Gelu32(x float64) float64 { return geluOf(x, Erf(x*halfRoot)) }

func geluOf(x, erf float64) float64 { return x * 0.5 * (1 + erf) }

// GeluGrad returns the derivative of Gelu.
func GeluGrad(x float64) float64 {
	if x <= tailEnd && x > -40 {
		cdf, density := tail(x)
		return cdf + float64(x*density)
	}
	return GeluGrad32(x)
}

// GeluGrad32 is GeluGrad for results of f32.
func GeluGrad32(x float64) float64 {
	return geluGrad(x, Erf(x*halfRoot), Exp(-0.5*x*x))
}

// geluGrad is GeluGrad32 from erf(x/sqrt(2)) and exp(-x*x/2).
func geluGrad(x, erf, exp float64) float64 {
	if math.Abs(x) > 40 {
		return max(0, math.Copysign(1, x))
	}
	cdf := float64(0.5 * (1 + erf))
	density := float64(exp * densityFactor)
	return cdf + float64(x*density)
}

// tail returns the normal distribution function and its density, for x of tailEnd and less.
func tail(x float64) (cdf, density float64) {
	square, rest := product(x, x)
	e := Exp(-0.5 * square)
	e -= float64(e * (0.5 * rest))
	density = float64(e * densityFactor)
	if x < tailTable {
		return density / millsDivisor(-x, 60), density
	}
	z, rest := product(-x, halfRoot)
	rest += float64(-x * halfRootLo)
	r, c := erfPart(z)
	rising := float64(horner(r, c[1:]) * r) // erf less what it is in the middle of the interval
	erfc := erfcTable[int(z/erfWidth)] - rising
	return float64(0.5*erfc) - float64(rest*(math.Sqrt2*density)), density
}

// millsDivisor is density / cdf at -x: a continued fraction, x + 1/(x + 2/(x + 3/(x + ...))).
func millsDivisor(x float64, terms int) float64 {
	f := x
	for n := float64(terms); n > 0; n-- {
		f = x + n/f
	}
	return f
}

// erfcTable has erfc in the middles of erfTable's first intervals.
var erfcTable = func() (t [8]float64) {
	for i := range t {
		c := (float64(i) + 0.5) * erfWidth
		t[i] = Exp(-float64(c*c)) * (math.Sqrt2 / math.SqrtPi) / millsDivisor(c*math.Sqrt2, 2000)
	}
	return t
}()
