package cpu

import (
	"math"
	"unsafe"
)

// fma returns x*y + z, rounded once.
func fma[C Compute](x, y, z C) C {
	if unsafe.Sizeof(x) == 8 {
		return C(math.FMA(float64(x), float64(y), float64(z)))
	}
	product := float64(float64(x) * float64(y)) // exact
	sum := product + float64(z)
	if math.Float64bits(sum)&below32 != tie32 && math.Abs(sum) >= minNormal32 {
		return C(float32(sum)) // a second rounding goes where one would have gone
	}
	return C(float32(nudgeToOdd(sum, sumError(product, float64(z), sum))))
}

// The bits of a float64 that a float32 does not have, and those of a tie.
const (
	below32     = 1<<29 - 1
	tie32       = 1 << 28
	minNormal32 = 0x1p-126
)

// sumError returns what a + b exceeds its rounded sum by, exactly; a NaN where
// one of them is not finite.
func sumError(a, b, sum float64) float64 {
	other := sum - a
	return (a - (sum - other)) + (b - other)
}

// nudgeToOdd returns sum, or where it is not exact the neighbour whose last bit
// is odd: no further rounding mistakes that for a tie.
func nudgeToOdd(sum, excess float64) float64 {
	bits := math.Float64bits(sum)
	if bits&1 == 1 {
		return sum
	}
	switch {
	case excess > 0 && sum > 0, excess < 0 && sum < 0:
		bits++
	case excess > 0 && sum < 0, excess < 0 && sum > 0:
		bits--
	}
	return math.Float64frombits(bits)
}
