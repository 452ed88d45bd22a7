// Package detmath holds the transcendental functions of the CPU backend, in
// plain Go without fused operations: the same bits on every machine. The math
// package has assembly for some of them on some machines and leaves the rest
// to the compiler, which may fuse.
//
// Functions of float64 are within 3 ulps, Sin and Cos within 1, Gelu within 6, Pow within 32. The
// float32 functions compute in float64 and round once, so nearly every result is the correctly
// rounded one.
//
// Every product that feeds a sum is converted explicitly, which keeps the
// compiler from fusing the two.
package detmath

import "math"

const (
	log2e = 1 / math.Ln2
	// ln2 in two parts: the first has 21 zero bits at its end, so that a
	// product with an exponent is exact.
	ln2Hi = 6.93147180369123816490e-01
	ln2Lo = math.Ln2 - ln2Hi
	// Adding and subtracting this rounds to a whole number, ties to even.
	rounder = 0x1.8p52
)

// expTaylor[i] is 1/(i+2)!: exp(r) = 1 + r + r*r*sum(expTaylor[i] * r^i).
var expTaylor = factorials(13)

func factorials(n int) []float64 {
	c := make([]float64, n)
	f := 2.0 // factorials up to 18! are whole numbers below 2^53
	for i := range c {
		c[i] = 1 / f
		f *= float64(i + 3)
	}
	return c
}

func horner(x float64, c []float64) float64 {
	s := 0.0
	for i := len(c) - 1; i >= 0; i-- {
		s = float64(s*x) + c[i]
	}
	return s
}

// Exp returns e to the power x.
func Exp(x float64) float64 {
	switch {
	case x != x:
		return x
	case x > 709.79:
		return math.Inf(1)
	case x < -745.2:
		return 0
	}
	p := expPartOf(x)
	return p.exp(horner(p.r, expTaylor))
}

// expPart is a number as k times ln(2), r, and what r's rounding left.
type expPart struct{ k, r, rest float64 }

func expPartOf(x float64) expPart {
	k := float64(float64(x*log2e)+rounder) - rounder
	hi := x - float64(k*ln2Hi)
	lo := float64(k * ln2Lo)
	r := hi - lo
	return expPart{k, r, (hi - r) - lo}
}

// exp returns Exp of the number, from what expTaylor's polynomial is at r.
func (p expPart) exp(q float64) float64 {
	return scale(1+(p.r+(float64(float64(p.r*p.r)*q)+p.rest)), int(p.k))
}

// scale returns x * 2^k for x near 1.
func scale(x float64, k int) float64 {
	if k > -1022 && k < 1023 {
		return math.Float64frombits(math.Float64bits(x) + uint64(int64(k))<<52)
	}
	half := k / 2
	return x * math.Float64frombits(uint64(1023+half)<<52) * math.Float64frombits(uint64(1023+k-half)<<52)
}

// expShort is Exp with about 36 good bits, for results that are rounded to
// float32. x must lie in [-700, 700].
func expShort(x float64) float64 {
	k := float64(float64(x*log2e)+rounder) - rounder
	r := (x - float64(k*ln2Hi)) - float64(k*ln2Lo)
	s := 1.0 / 362880
	s = float64(s*r) + 1.0/40320
	s = float64(s*r) + 1.0/5040
	s = float64(s*r) + 1.0/720
	s = float64(s*r) + 1.0/120
	s = float64(s*r) + 1.0/24
	s = float64(s*r) + 1.0/6
	s = float64(s*r) + 1.0/2
	s = float64(s*r) + 1
	s = float64(s*r) + 1
	return math.Float64frombits(math.Float64bits(s) + uint64(int64(k))<<52)
}

// Exp32 returns e to the power x.
func Exp32(x float32) float32 {
	switch {
	case x != x:
		return x
	case x > 89:
		return float32(math.Inf(1))
	case x < -104:
		return 0
	}
	return float32(expShort(float64(x)))
}

// Expm1 returns e to the power x, less 1, accurate near 0.
func Expm1(x float64) float64 {
	if x > -0.5 && x < 0.5 {
		return x + float64(float64(x*x)*horner(x, expTaylor))
	}
	return Exp(x) - 1
}

// logSeries[i] is 2/(2i+3): log((1+s)/(1-s)) = 2s + s*sum(logSeries[i]*s^(2i+2)).
var logSeries = func() []float64 {
	c := make([]float64, 11)
	for i := range c {
		c[i] = 2 / float64(2*i+3)
	}
	return c
}()

// Log returns the natural logarithm.
func Log(x float64) float64 {
	switch {
	case x != x || math.IsInf(x, 1):
		return x
	case x < 0:
		return math.NaN()
	case x == 0:
		return math.Inf(-1)
	}
	m, e := math.Frexp(x) // m in [1/2, 1)
	if m < math.Sqrt2/2 {
		m *= 2
		e--
	}
	k := float64(e)
	f := m - 1
	s := f / (2 + f)
	z := float64(s * s)
	r := float64(z * horner(z, logSeries))
	h := float64(float64(0.5*f) * f)
	return float64(k*ln2Hi) - ((h - (float64(s*(h+r)) + float64(k*ln2Lo))) - f)
}

// Log1p returns the natural logarithm of 1 + x, accurate near 0.
func Log1p(x float64) float64 {
	u := 1 + x
	if u == 1 || math.IsInf(u, 1) {
		return x
	}
	log := Log(u)
	if p := float64(log * x); !math.IsInf(p, 1) {
		return p / (u - 1)
	}
	return log
}

// Tanh returns the hyperbolic tangent.
func Tanh(x float64) float64 {
	a := math.Abs(x)
	if a > 22 {
		return math.Copysign(1, x)
	}
	if a < 1e-9 {
		return x
	}
	t := Expm1(-2 * a)
	return math.Copysign(-t/(2+t), x)
}

// Tanh32 returns the hyperbolic tangent.
func Tanh32(x float32) float32 {
	v := float64(x)
	a := math.Abs(v)
	switch {
	case v == 0: // -0 stays
		return x
	case a > 10:
		return float32(math.Copysign(1, v))
	case a < 0.02:
		z := float64(v * v)
		return float32(v - float64(float64(v*z)*(1.0/3-float64(z*(2.0/15)))))
	case a != a:
		return x
	}
	t := expShort(-2 * a)
	return float32(math.Copysign((1-t)/(1+t), v))
}

// Sigmoid returns 1 / (1 + exp(-x)).
func Sigmoid(x float64) float64 {
	if x < 0 {
		e := Exp(x)
		return e / (1 + e)
	}
	return 1 / (1 + Exp(-x))
}

// Sigmoid32 returns 1 / (1 + exp(-x)).
func Sigmoid32(x float32) float32 {
	if x != x {
		return x
	}
	v := min(max(float64(x), -120), 120)
	return float32(1 / (1 + expShort(-v)))
}
