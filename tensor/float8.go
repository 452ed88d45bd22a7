package tensor

import (
	"fmt"
	"math"
)

// float8 describes an 8-bit float format. Rounding stops at max: isobit never
// makes an infinity of one, also where the format has them (f8e5m2).
type float8 struct {
	mantissa int     // explicit bits
	minExp   int     // exponent of the smallest normal
	max      float64 // largest finite value
	nan      uint8
}

var float8s = [Count]float8{
	F8E4M3: {3, -6, 448, 0x7f},
	F8E5M2: {2, -14, 57344, 0x7e},
}

// IsFloat8 reports whether d is an 8-bit float: a type of codes only.
func (d DType) IsFloat8() bool { return int(d) < len(float8s) && float8s[d].max > 0 }

// Float8s lists the 8-bit float types.
func Float8s() (all []DType) {
	for d := range DType(Count) {
		if d.IsFloat8() {
			all = append(all, d)
		}
	}
	return all
}

// Float8Format returns how many explicit bits the mantissas of an 8-bit float type have,
// and the exponent of its smallest normal number.
func Float8Format(d DType) (mantissa, minExp int) { return float8Of(d).mantissa, float8Of(d).minExp }

// float8Of returns the format of d; it panics if d has none, as 0 would look like a result.
func float8Of(d DType) *float8 {
	f := &float8s[d]
	if f.max == 0 {
		panic(fmt.Sprintf("tensor: %s is not an 8-bit float", d))
	}
	return f
}

// RoundFloat8 rounds v to the nearest value of an 8-bit float type, ties to
// even; beyond the largest finite value it gives that value, with v's sign. A NaN
// stays one. It panics, as the other functions of a type here do, if d is another type.
func RoundFloat8(d DType, v float64) float64 {
	f := float8Of(d)
	if v != v || v == 0 {
		return v
	}
	_, exp := math.Frexp(v) // v = frac * 2^exp, frac in [0.5, 1)
	quantum := math.Ldexp(1, max(exp-1, f.minExp)-f.mantissa)
	r := math.RoundToEven(v/quantum) * quantum
	return math.Copysign(min(math.Abs(r), f.max), v)
}

// ToFloat8 returns the byte of v rounded by RoundFloat8; of a NaN, that of a NaN.
func ToFloat8(d DType, v float64) uint8 {
	f := float8Of(d)
	if v != v {
		return f.nan
	}
	sign := uint8(0)
	if math.Signbit(v) {
		sign = 0x80
	}
	a := math.Abs(RoundFloat8(d, v))
	if a < math.Ldexp(1, f.minExp) {
		return sign | uint8(math.Ldexp(a, f.mantissa-f.minExp)) // denormal or zero
	}
	frac, exp := math.Frexp(a)
	return sign | uint8(exp-f.minExp)<<f.mantissa | uint8(math.Ldexp(2*frac-1, f.mantissa))
}

// Float8Values lists the value of every byte of an 8-bit float type,
// infinities and NaNs among them.
func Float8Values(d DType) (values [256]float32) {
	f := float8Of(d)
	for b := range values {
		exp, frac := b&0x7f>>f.mantissa, b&(1<<f.mantissa-1)
		v := math.Ldexp(float64(frac), f.minExp-f.mantissa)
		if exp > 0 {
			v = math.Ldexp(1+math.Ldexp(float64(frac), -f.mantissa), f.minExp+exp-1)
		}
		switch {
		case d == F8E5M2 && b&0x7f == 0x7c:
			v = math.Inf(1)
		case v > f.max:
			v = math.NaN()
		}
		if b&0x80 != 0 {
			v = -v
		}
		values[b] = float32(v)
	}
	return values
}
