package detmath

import "math"

// The error function from Taylor series about the middles of intervals of
// width 1/4. The coefficients follow from two recurrences, so the table is
// computed when the program starts instead of being written down.
const (
	erfWidth   = 0.25
	erfEnd     = 6.0 // erf(6) is 1 in float64
	erfDegree  = 14
	erfColumns = 16 // of the table: a power of 2
	erfFactor  = 2 / math.SqrtPi
	erfTiny    = 1e-9
	erfNear    = 0.125 // below it Erf has a series of its own, for relative accuracy
)

var erfTable = func() (t [int(erfEnd / erfWidth)][erfColumns]float64) {
	for i := range t {
		c := (float64(i) + 0.5) * erfWidth
		t[i][0] = erfAt(c)
		rising := erfRising(c)
		copy(t[i][1:], rising[:])
	}
	return t
}()

// erfRising returns the coefficients of erf(c + r) - erf(c), divided by r.
func erfRising(c float64) (rising [erfDegree]float64) {
	// erf'(x) = 2/sqrt(pi) * exp(-x*x), whose own derivative is -2x times
	// itself: hence the recurrence for the coefficients d of erf'.
	var d [erfDegree]float64
	d[0] = 2 / math.SqrtPi * Exp(-float64(c*c))
	d[1] = -2 * c * d[0]
	for n := 1; n < erfDegree-1; n++ {
		d[n+1] = -2 * (float64(c*d[n]) + d[n-1]) / float64(n+1)
	}
	for n, v := range d {
		rising[n] = v / float64(n+1)
	}
	return rising
}

// ErfNumbers are what erfTable holds and, after it, its columns: for loops in assembly.
var ErfNumbers = func() (all [len(erfTable) * (erfColumns + erfDegree + 1)]float64) {
	columns := all[len(erfTable)*erfColumns:]
	for i, row := range erfTable {
		copy(all[i*erfColumns:], row[:])
		for n := range erfDegree + 1 {
			columns[n*len(erfTable)+i] = row[n]
		}
	}
	return all
}()

// erfAt returns erf(x) for x > 0, slowly. Below 2 it sums 2/sqrt(pi) *
// exp(-x*x) * x * (1 + 2x²/3 + (2x²)²/(3*5) + ...), in which every term is
// positive; above, it takes 1 less the continued fraction exp(-x*x)/sqrt(pi) /
// (x + 1/2/(x + 2/2/(x + 3/2/(x + ...)))).
func erfAt(x float64) float64 {
	if x > 2 {
		f := x
		for n := 100.0; n > 0; n-- {
			f = x + n/2/f
		}
		return 1 - Exp(-float64(x*x))/math.SqrtPi/f
	}
	term, sum := 1.0, 1.0
	for n := 3.0; term > sum*1e-18; n += 2 {
		term = float64(term * (2 * x * x / n))
		sum += term
	}
	return 2 / math.SqrtPi * Exp(-float64(x*x)) * x * sum
}

// Erf returns the error function.
func Erf(x float64) float64 {
	a := math.Abs(x)
	switch {
	case a != a:
		return x
	case a < erfTiny:
		return erfFactor * x
	case a < erfNear:
		return erfFactor * x * erfSeries(float64(a*a))
	case a >= erfEnd:
		return math.Copysign(1, x)
	}
	r, c := erfPart(x)
	return math.Copysign(horner(r, c), x)
}

// erfPart returns where |x|, below erfEnd, lies in its interval, and the interval's coefficients.
func erfPart(x float64) (r float64, c []float64) {
	a := math.Abs(x)
	i := int(a / erfWidth)
	return a - float64((float64(i)+0.5)*erfWidth), erfTable[i][:erfDegree+1]
}

// erfSeries is the sum of (-z)^n / n! / (2n+1) for n below 8, each from the one before.
func erfSeries(z float64) float64 {
	third := z / 3
	f := -z
	s := 1 + f/3
	f *= -z / 2
	s += f / 5
	f *= -third
	s += f / 7
	f *= -z / 4
	s += f / 9
	f *= -z / 5
	s += f / 11
	f *= -third / 2 // z / 6: halves are exact
	s += f / 13
	f *= -z / 7
	return s + f/15
}
