package cuda

import (
	"flag"
	"math"
	"math/bits"
	"testing"
)

var whole = flag.Bool("whole", false, "prove what is proven for all significands, not only for a sample")

// significands is from one to the next that a proof tries. What is tried is the
// rule, not the kernels, so that once for all is enough until the rule changes.
func significands() (stride uint32) {
	if *whole {
		return 1
	}
	return 61
}

// TestQuotientStep proves quotient (kernels/quant_quick.cuh) for every pair of
// significands. With q = x * (1 / s) and its remainder, which is exact, the step adds
// to q what differs from x / s - q by less than 2^-46 of the quotient. So it can only
// round otherwise where x / s is that near to the middle m / 2^n of two floats, which is
// where x * 2^n - s * m is a whole number of less than 8: all such x are tried.
func TestQuotientStep(t *testing.T) {
	stride := significands()
	cases := 0
	for s := uint32(1 << 23); s < 1<<24; s += stride {
		zeros := bits.TrailingZeros32(s)
		inverse := s >> zeros // of its odd part modulo 2^32, by Newton's steps
		for range 5 {
			inverse *= 2 - s>>zeros*inverse
		}
		for _, n := range []int{24, 25} { // x / s from 1 on, and below
			for k := int64(-8); k <= 8; k++ {
				if k == 0 || bits.TrailingZeros64(uint64(k)) != zeros {
					continue // m is odd
				}
				modulus := int64(1) << (n - zeros)
				m := int64(uint32(-k>>zeros)*inverse) & (modulus - 1)
				for ; m < 1<<25; m += modulus {
					x := (int64(s)*m + k) >> n
					if m < 1<<24 || x < 1<<23 || x >= 1<<24 || (x >= int64(s)) != (n == 24) {
						continue
					}
					cases++
					if want, got := float32(x)/float32(s), quotient(float32(x), float32(s)); got != want {
						t.Fatalf("%d / %d is %g, want %g", x, s, got, want)
					}
				}
			}
		}
	}
	t.Log(cases, "cases")
}

// quotient is what the kernels compute.
func quotient(x, s float32) float32 {
	inverse := 1 / s
	q := float32(x * inverse)
	rest := float32(float64(x) - float64(s)*float64(q)) // both exact
	// q + rest * inverse with one rounding: of a sum that has an error the neighbour with
	// an odd last bit.
	a, b := float64(q), float64(rest)*float64(inverse)
	sum := a + b
	high := sum - a
	if lost, last := (a-(sum-high))+(b-high), math.Float64bits(sum); lost != 0 && last&1 == 0 {
		if lost > 0 {
			return float32(math.Float64frombits(last + 1))
		}
		return float32(math.Float64frombits(last - 1))
	}
	return float32(sum)
}
