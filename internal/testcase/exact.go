package testcase

import (
	"math"
	"math/big"

	"github.com/isobit-ml/isobit/tensor"
)

// Arithmetic in arbitrary precision with one rounding, to float32 or to
// float64: slow, and apart from the hardware's.

// Precisions in which results are exact, or as good as exact.
const (
	sumBits     = 2200 // more bits than lie between the largest and the smallest float64
	productBits = 160  // more than two float64 have; a quotient of theirs is either the middle of two float64 or farther from it
)

// Exact computes in a compute type, F32 or F64.
type Exact struct{ Type tensor.DType }

func (e Exact) Add(a, b float64) float64 {
	return e.op(a, b, a+b, sumBits, func(z, x, y *big.Float) { z.Add(x, y) })
}

func (e Exact) Sub(a, b float64) float64 {
	return e.op(a, b, a-b, sumBits, func(z, x, y *big.Float) { z.Sub(x, y) })
}

func (e Exact) Mul(a, b float64) float64 {
	return e.op(a, b, a*b, productBits, func(z, x, y *big.Float) { z.Mul(x, y) })
}

func (e Exact) Quo(a, b float64) float64 {
	if b == 0 {
		return e.Round(a / b)
	}
	return e.op(a, b, a/b, productBits, func(z, x, y *big.Float) { z.Quo(x, y) })
}

// op applies f to finite numbers; for infinities and NaN, where nothing
// rounds, the result is ieee.
func (e Exact) op(a, b, ieee float64, precision uint, f func(z, x, y *big.Float)) float64 {
	if math.IsInf(a, 0) || math.IsInf(b, 0) || a != a || b != b {
		return ieee
	}
	z := new(big.Float).SetPrec(precision)
	f(z, big.NewFloat(a), big.NewFloat(b))
	if e.Type == tensor.F32 {
		r, _ := z.Float32()
		return float64(r)
	}
	r, _ := z.Float64()
	return r
}

// Round rounds to the compute type.
func (e Exact) Round(v float64) float64 {
	if e.Type == tensor.F32 {
		return float64(float32(v))
	}
	return v
}

// Rint rounds to a whole number, ties to even: by hand.
func Rint(v float64) float64 {
	whole, fraction := math.Modf(math.Abs(v))
	if v != v || math.IsInf(v, 0) {
		return v
	}
	if fraction > 0.5 || fraction == 0.5 && math.Mod(whole, 2) == 1 {
		whole++
	}
	return math.Copysign(whole, v)
}

// Clamp puts v between lo and hi; a NaN stays.
func Clamp(v, lo, hi float64) float64 {
	switch {
	case v < lo:
		return lo
	case v > hi:
		return hi
	}
	return v
}

// EncodeExact is Encode of values, with a rounding of its own for types of 16
// and 8 bits.
func EncodeExact(data []byte, dtype tensor.DType, value float64) []byte {
	if dtype.IsFloat8() {
		return append(data, NearestFloat8(dtype, value))
	}
	if dtype == tensor.F16 || dtype == tensor.BF16 {
		bits := NearestHalf(dtype, value)
		return appendWhole(data, int64(bits), 2)
	}
	return Encode(data, dtype, value)
}
