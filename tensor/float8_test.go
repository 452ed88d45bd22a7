package tensor

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestFloat8 goes through every byte: its value encodes to itself, and what
// lies between two values rounds to the nearer, a tie to the even code.
func TestFloat8(t *testing.T) {
	for _, d := range Float8s() {
		values := Float8Values(d)
		for b := range 256 {
			v := float64(values[b])
			if math.IsNaN(v) {
				require.Equal(t, float8s[d].nan, ToFloat8(d, v))
				continue
			}
			if math.IsInf(v, 0) {
				continue
			}
			require.Equal(t, uint8(b), ToFloat8(d, v), "%s byte %#x", d, b)
			next := float64(values[(b+1)%256])
			if b&0x7f == 0x7f || math.IsNaN(next) || math.IsInf(next, 0) {
				continue
			}
			middle := (v + next) / 2
			require.Equal(t, uint8(b+b&1), ToFloat8(d, middle), "%s between %g and %g", d, v, next)
			require.Equal(t, uint8(b), ToFloat8(d, math.Nextafter(middle, v)))
			require.Equal(t, uint8(b+1), ToFloat8(d, math.Nextafter(middle, next)))
		}
		require.Equal(t, float8s[d].max, RoundFloat8(d, math.Inf(1)))
		require.Equal(t, -float8s[d].max, RoundFloat8(d, -1e30))
	}
}

func TestTypesThatAreNoFloat8(t *testing.T) {
	for d := range DType(Count) {
		if d.IsFloat8() {
			continue
		}
		want := "tensor: " + d.String() + " is not an 8-bit float"
		require.PanicsWithValue(t, want, func() { RoundFloat8(d, 0) })
		require.PanicsWithValue(t, want, func() { ToFloat8(d, 1) })
		require.PanicsWithValue(t, want, func() { Float8Values(d) })
	}
}
