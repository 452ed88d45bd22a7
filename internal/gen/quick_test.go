package main

import (
	"flag"
	"math"
	"testing"
)

var whole = flag.Bool("whole", false, "try all significands of divisors, not only a sample")

// What quick says of all pairs of significands. x and s are whole numbers of 24
// bits; u = x / s is close to a middle between two numbers of 24 bits, m, if
// d = x * 2^b - m * s is small, b being 24 for x >= s, else 25. The error of
// 2^-23 units in the last place is less than that of |d| = 4. All x are
// enumerated that have such a d, and an m beside a number that may be a tie:
// one with 12 significant bits. That is the rule, not the kernels, so that once for
// all divisors is enough until the rule changes.
func TestQuickQuotients(t *testing.T) {
	const first, end = 1 << 23, 1 << 24
	pairs, stride := 0, int64(61)
	if *whole {
		stride = 1
	}
	for s := int64(first); s < end; s += stride {
		odd, twos := s, int64(1)
		for odd%2 == 0 {
			odd, twos = odd/2, twos*2
		}
		for b := 24; b <= 25; b++ {
			from, to := s, int64(end)
			if b == 25 {
				from, to = first, s
			}
			root := int64(1) % odd // 2^-b modulo odd
			for range b {
				root = (root + root%2*odd) / 2
			}
			for d := int64(-4); d <= 4; d++ {
				if d%twos != 0 {
					continue
				}
				x := from + ((d*root-from)%odd+odd)%odd
				for ; x < to; x += odd {
					m := (x<<b - d) / s
					if m*s != x<<b-d || m%2 == 0 || (m-1)%(2<<12) != 0 && (m+1)%(2<<12) != 0 {
						continue
					}
					pairs++
					checkQuotient(t, float32(x), float32(s))
				}
			}
		}
	}
	if pairs < 10000/int(stride) {
		t.Errorf("only %d pairs of divisors %d apart", pairs, stride)
	}
	t.Log(pairs, "pairs")
}

// checkQuotient compares what the kernels compute with x / s, for all powers
// of 2 that make it less than 2^11.
func checkQuotient(t *testing.T, x, s float32) {
	inverse := 1 / s
	rest := float32(1-float64(inverse)*float64(s)) / s
	got, want := fma32(x, inverse, x*rest), x/s
	for scale := float32(0.125); scale*want < 1<<11; scale *= 2 {
		if math.RoundToEven(float64(got*scale)) != math.RoundToEven(float64(want*scale)) {
			t.Fatalf("%v / %v: %v, want %v, times %v", x, s, got, want, scale)
		}
	}
}

// fma32 rounds once: the sum of an f64 product, which is exact, is rounded to
// odd first.
func fma32(a, b, c float32) float32 {
	p, q := float64(a)*float64(b), float64(c)
	sum := p + q
	part := sum - p
	lost := (p - (sum - part)) + (q - part)
	bits := math.Float64bits(sum)
	if lost != 0 && bits%2 == 0 {
		if (lost > 0) == (sum > 0) {
			bits++
		} else {
			bits--
		}
	}
	return float32(math.Float64frombits(bits))
}
