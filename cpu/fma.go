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
	product := float64(x) * float64(y) // exact
	sum := product + float64(z)
	return C(float32(nudgeToOdd(sum, sumError(product, float64(z), sum))))
}

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
