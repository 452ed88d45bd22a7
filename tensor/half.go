package tensor

import (
	"math"

	"github.com/x448/float16"
)

// F16Bits is an IEEE 754 half-precision value, as its bits.
type F16Bits uint16

// BF16Bits is a bfloat16 value, as its bits: the upper half of a float32.
type BF16Bits uint16

// Float32 widens; every half-precision value is a float32.
func (h F16Bits) Float32() float32 { return float16.Frombits(uint16(h)).Float32() }

// ToF16 rounds to the nearest half-precision value, ties to even.
func ToF16(f float32) F16Bits { return F16Bits(float16.Fromfloat32(f).Bits()) }

// Float32 widens; every bfloat16 value is a float32.
func (b BF16Bits) Float32() float32 { return math.Float32frombits(uint32(b) << 16) }

// ToBF16 rounds to the nearest bfloat16 value, ties to even. Denormals are
// kept and a NaN stays a NaN.
func ToBF16(f float32) BF16Bits {
	bits := math.Float32bits(f)
	if f != f {
		return BF16Bits(bits>>16 | 0x40)
	}
	return BF16Bits((bits + 0x7fff + bits>>16&1) >> 16)
}
