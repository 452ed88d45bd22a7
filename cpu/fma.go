package cpu

import (
	"math"
	"unsafe"
)

// fuseInto adds to each y the product of x and an element of others, rounded once with the sum.
func fuseInto[C Compute](y []C, x C, others []C) {
	y = y[:len(others)]
	if unsafe.Sizeof(x) == 8 {
		for i, other := range others {
			y[i] = C(math.FMA(float64(x), float64(other), float64(y[i])))
		}
		return
	}
	for i, other := range others {
		product := float64(float64(x) * float64(other)) // exact
		sum := product + float64(y[i])
		if math.Float64bits(sum)&below32 == tie32 || math.Abs(sum) < minNormal32 { // else a second rounding goes where one would have gone
			sum = nudgeToOdd(sum, sumError(product, float64(y[i]), sum))
		}
		y[i] = C(float32(sum))
	}
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
