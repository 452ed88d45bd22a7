package testcase

import (
	"math"

	"github.com/isobit-ml/isobit/tensor"
)

// The 8-bit float types from their definition, apart from package tensor.

// Float8Value returns the value of a pattern. f8e5m2 is the upper byte of f16.
func Float8Value(dtype tensor.DType, bits uint8) float64 {
	if dtype == tensor.F8E5M2 {
		return HalfValue(tensor.F16, uint16(bits)<<8)
	}
	exponent, fraction := int(bits&0x7f>>3), float64(bits&7)
	v := math.Ldexp(8+fraction, exponent-10)
	switch {
	case bits&0x7f == 0x7f:
		return math.NaN()
	case exponent == 0:
		v = math.Ldexp(fraction, -9)
	}
	if bits&0x80 != 0 {
		return -v
	}
	return v
}

// NearestFloat8 returns the pattern of the finite value that is nearest to v,
// of two the one whose last bit is 0.
func NearestFloat8(dtype tensor.DType, v float64) uint8 {
	if v != v {
		return 0x7f
	}
	finite := map[tensor.DType]int{tensor.F8E4M3: 0x7f, tensor.F8E5M2: 0x7c}[dtype]
	bits := uint8(nearest(finite, math.Abs(v), func(bits int) float64 { return Float8Value(dtype, uint8(bits)) }))
	if math.Signbit(v) {
		bits |= 0x80
	}
	return bits
}
