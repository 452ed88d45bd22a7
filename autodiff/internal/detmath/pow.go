package detmath

import "math"

// Pow returns x to the power y. Whole exponents up to 64 are products.
func Pow(x, y float64) float64 {
	switch {
	case y == 0 || x == 1:
		return 1
	case x != x || y != y:
		return math.NaN()
	case y == math.Trunc(y) && math.Abs(y) <= 64:
		return whole(x, int(y))
	case x < 0 && y != math.Trunc(y), math.IsInf(x, 0), math.IsInf(y, 0), x == 0:
		return math.Pow(x, y) // a special value: no arithmetic takes place
	}
	p := expOfProduct(y, math.Abs(x))
	if x < 0 && math.Abs(y) < 1<<53 && int64(y)&1 == 1 {
		return -p
	}
	return p
}

func whole(x float64, n int) float64 {
	if n < 0 {
		if p := whole(x, -n); !math.IsInf(p, 0) {
			return 1 / p
		}
		return whole(1/x, -n) // may be a denormal
	}
	p := 1.0
	for ; n > 0; n >>= 1 {
		if n&1 == 1 {
			p *= x
		}
		x *= x
	}
	return p
}

// expOfProduct returns exp(y * log(x)) for x above 0. An error of the product is
// one of the result, as often as the product is large: so the logarithm and the
// product have a second part.
func expOfProduct(y, x float64) float64 {
	hi, lo := logParts(x)
	p := float64(y * hi)
	if p == 0 { // x is 1, or y is next to nothing
		return 1
	}
	r := Exp(p)
	if r == 0 || math.IsInf(r, 1) {
		return r
	}
	_, rest := product(y, hi) // y is below 2^63 here, since hi is at least 2^-53
	rest += float64(y * lo)
	return r + float64(r*rest)
}

// product returns a * b and what rounding took from it (Dekker's).
func product(a, b float64) (p, rest float64) {
	p = float64(a * b)
	aHi, aLo := halves(a)
	bHi, bLo := halves(b)
	rest = (float64(aHi*bHi) - p) + float64(aHi*bLo) + float64(aLo*bHi) + float64(aLo*bLo)
	return p, rest
}

// halves cuts x into two parts of 26 bits.
func halves(x float64) (hi, lo float64) {
	c := float64(x * (1<<27 + 1))
	hi = c - (c - x)
	return hi, x - hi
}

// logParts returns the natural logarithm of x in two parts: log(m) is 2s and a
// hundredth of it, of which a rounding does not matter.
func logParts(x float64) (hi, lo float64) {
	m, e := math.Frexp(x)
	if m < math.Sqrt2/2 {
		m *= 2
		e--
	}
	k := float64(e)
	f := m - 1 // exact
	t := 2 + f
	s := f / t
	st, rest := product(s, t)
	sLo := ((f - st) - rest - float64(s*(f-(t-2)))) / t
	z := float64(s * s)
	small := 2*sLo + float64(s*float64(z*horner(z, logSeries))) + float64(k*ln2Lo)
	a, b := float64(k*ln2Hi), 2*s
	sum := a + b // a is 0 or the larger one
	rest = (a - sum) + b + small
	hi = sum + rest
	return hi, (sum - hi) + rest
}
