package testcase

import (
	"math"
	"sort"

	"github.com/isobit-ml/isobit/tensor"
)

// The 16-bit float types from their definition, apart from package tensor.

// halfFormat is the number of a type's fraction bits and its exponent bias.
var halfFormat = map[tensor.DType]struct{ fraction, bias int }{tensor.F16: {10, 15}, tensor.BF16: {7, 127}}

// halfValues lists the values of all patterns.
var halfValues = map[tensor.DType]*[65536]float64{tensor.F16: makeHalfValues(tensor.F16), tensor.BF16: makeHalfValues(tensor.BF16)}

func makeHalfValues(dtype tensor.DType) *[65536]float64 {
	var values [65536]float64
	for bits := range values {
		values[bits] = halfValue(dtype, bits)
	}
	return &values
}

func halfValue(dtype tensor.DType, bits int) float64 {
	f := halfFormat[dtype]
	exponent, fraction := bits&0x7fff>>f.fraction, bits&(1<<f.fraction-1)
	v := math.Ldexp(float64(1<<f.fraction+fraction), exponent-f.bias-f.fraction)
	switch {
	case exponent == 0:
		v = math.Ldexp(float64(fraction), 1-f.bias-f.fraction)
	case exponent == 0x7fff>>f.fraction && fraction == 0:
		v = math.Inf(1)
	case exponent == 0x7fff>>f.fraction:
		return math.NaN()
	}
	if bits&0x8000 != 0 {
		return -v
	}
	return v
}

// HalfValue returns the value of a pattern of F16 or BF16.
func HalfValue(dtype tensor.DType, bits uint16) float64 { return halfValues[dtype][bits] }

// NearestHalf returns the pattern of the value of F16 or BF16 that is nearest
// to v, of two the one whose last bit is 0.
func NearestHalf(dtype tensor.DType, v float64) uint16 {
	f := halfFormat[dtype]
	infinity := 0x7fff >> f.fraction << f.fraction
	sign := uint16(0)
	if math.Signbit(v) {
		sign = 0x8000
	}
	a := math.Abs(v)
	if a != a {
		return uint16(infinity + 1)
	}
	values := halfValues[dtype]
	value := func(bits int) float64 {
		if bits == infinity { // as far as rounding goes
			return math.Ldexp(1, infinity>>f.fraction-f.bias)
		}
		return values[bits]
	}
	return sign | uint16(nearest(infinity+1, a, value))
}

// nearest returns the number of the value that is nearest to a, of two the
// even one; values ascend from 0.
func nearest(count int, a float64, value func(number int) float64) int {
	above := sort.Search(count-1, func(number int) bool { return value(number) >= a })
	if above == 0 {
		return 0
	}
	// Between two neighbours both differences are exact.
	below := above - 1
	toBelow, toAbove := a-value(below), value(above)-a
	if toBelow < toAbove || toBelow == toAbove && below&1 == 0 {
		return below
	}
	return above
}
