package kernel

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/isobit-ml/isobit/internal/testcase"
)

func TestSums(t *testing.T) {
	negativeZero := float32(math.Copysign(0, -1))
	for _, n := range append(sizes, 65535, 65536, 65537, 200_000) {
		x := uniform[float32](n, uint64(n))
		if n > 2 {
			x[0], x[1] = 1e8, negativeZero
		}
		want := testcase.Stripe(x)
		for _, threads := range []Threads{1, 3} {
			z := make([]float32, 1)
			SumRows(threads, z, x, 1, n)
			require.Equal(t, want, z[0], "%d elements", n)
		}
		// The same elements as a column, between others, and in segments.
		const inner = 3
		cols := make([]float32, n*inner)
		for i, v := range x {
			cols[i*inner], cols[i*inner+1], cols[i*inner+2] = v*2, v, negativeZero
		}
		z := make([]float32, inner)
		SumColumns(2, z, cols, Axis{1, n, inner})
		require.Equal(t, want, z[1], "a column of %d", n)
		require.False(t, math.Signbit(float64(z[2])), "a sum of negative zeros")
		if n%5 == 0 && n > 0 {
			SumSegments(2, z[:1], x, 5, 1, n/5)
			require.Equal(t, want, z[0], "segments of %d", n)
		}
	}
	// Wide columns go through tiles.
	const rows, wide = 70, 300
	x := uniform[float64](rows*wide, 1)
	z := make([]float64, wide)
	SumColumns(3, z, x, Axis{1, rows, wide})
	for j := range wide {
		var col []float64
		for r := range rows {
			col = append(col, x[r*wide+j])
		}
		require.Equal(t, testcase.Stripe(col), z[j])
	}
}
