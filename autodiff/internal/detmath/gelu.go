package detmath

import "math"

// Gelu is x times the normal distribution function. Results of f32 take 1 + erf for all numbers, as their
// loops do: an error of 1e-16 of x, which is all that is left below about -8. Those of f64 take
// erfc below tailEnd.
const (
	tailEnd   = -1
	tailTable = -5.6 // tailRows reach so far
	halfRoot  = 0x1.6a09e667f3bcdp-1
	// halfRootLo is what 1/sqrt(2) has beyond f64.
	halfRootLo    = 1/math.Sqrt2 - halfRoot
	densityFactor = 1 / math.SqrtPi / math.Sqrt2
)

// Gelu returns x * (1 + erf(x/sqrt(2))) / 2.
func Gelu(x float64) float64 {
	if x <= tailEnd && !math.IsInf(x, -1) {
		return x * tail(x)
	}
	return geluOf(x, Erf(x*halfRoot))
}

// Gelu32 is Gelu for results of f32.
func Gelu32(x float64) float64 { return geluOf(x, Erf(x*halfRoot)) }

func geluOf(x, erf float64) float64 { return x * 0.5 * (1 + erf) }

// GeluGrad returns the derivative of Gelu.
func GeluGrad(x float64) float64 {
	if hasTail(x) {
		return tail(x) + float64(x*density(x, Exp(-0.5*x*x)))
	}
	return GeluGrad32(x)
}

func hasTail(x float64) bool { return x <= tailEnd && x > -40 }

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

// tail returns the normal distribution function of x, at most tailEnd.
func tail(x float64) float64 {
	if x < tailTable {
		terms := 12 + int(400/float64(x*x))
		return density(x, Exp(-0.5*x*x)) / millsDivisor(-x, terms)
	}
	row, r := tailPart(x)
	return tailOf(x, row.erfc, float64(horner(r, row.rising[:])*r))
}

// tailPart returns the interval that -x/sqrt(2) lies in, and how far from its middle.
func tailPart(x float64) (row *tailRow, r float64) {
	z := float64(-x * halfRoot)
	i := int(z / erfWidth)
	if z >= 2 { // intervals are half as wide, since erfc falls faster
		i = int(z/(erfWidth/2)) - 8
	}
	row = &tailRows[i%len(tailRows)]
	return row, z - row.middle
}

// tailOf returns tail from erfc in the middle of an interval and what erf gains from there on. What z lacks
// of -x/sqrt(2) counts density/tail times, for which (3a + sqrt(a*a+8))/4 is good enough.
func tailOf(x, erfc, gain float64) float64 {
	_, rest := product(-x, halfRoot)
	rest -= float64(x * halfRootLo)
	cdf := float64(0.5 * (erfc - gain))
	hazard := float64(0.25 * (math.Sqrt(float64(x*x)+8) - float64(3*x)))
	return cdf - float64(cdf*float64(rest*float64(math.Sqrt2*hazard)))
}

// density returns that of the normal distribution, from exp(-x*x/2) less what rounding the square took.
func density(x, exp float64) float64 {
	_, rest := product(x, x)
	return float64((exp - float64(exp*float64(0.5*rest))) * densityFactor)
}

// millsDivisor is density / tail at -x: a continued fraction, x + 1/(x + 2/(x + 3/(x + ...))).
func millsDivisor(x float64, terms int) float64 {
	f := x
	for n := float64(terms); n > 0; n-- {
		f = x + n/f
	}
	return f
}

// tailRow is an interval: its middle, erfc there, and the coefficients of what erf gains from there on, divided by r.
type tailRow struct {
	middle, erfc float64
	rising       [erfDegree]float64
}

var tailRows = func() (rows [24]tailRow) {
	for i := 2; i < len(rows); i++ { // no tail is in those before
		c := (float64(i) + 0.5) * erfWidth
		if i >= 8 {
			c = (float64(i+8) + 0.5) * (erfWidth / 2)
		}
		x := float64(c * math.Sqrt2)
		erfc := Exp(-float64(c*c)) * (math.Sqrt2 / math.SqrtPi) / millsDivisor(x, 12+int(1000/float64(x*x)))
		rows[i] = tailRow{c, erfc, erfRising(c)}
	}
	return rows
}()
