package kernel

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/isobit-ml/isobit/autodiff/internal/detmath"
	"github.com/isobit-ml/isobit/cpu"
)

// TestBCE holds losses to the formula, one number after the other.
func TestBCE(t *testing.T) {
	defer cpu.Limit(cpu.Best())
	for _, n := range append(sizes, 3*lanes+5) {
		x, y, want := uniform[float64](n, 1), uniform[float64](n, 2), make([]float64, n)
		for i, v := range x {
			x[i] = math.Abs(v)
			if i%7 == 3 {
				x[i] = float64(i % 2)
			}
			yes, no := max(detmath.Log(x[i]), -100), max(detmath.Log1p(-x[i]), -100)
			want[i] = float64((y[i]-1)*no) - float64(y[i]*yes)
		}
		for _, isa := range []cpu.ISA{cpu.Go, cpu.AVX2, cpu.AVX512} {
			cpu.Limit(isa)
			got := make([]float64, n)
			BCE(got, x, y)
			require.Equal(t, want, got, "%d (%v)", n, isa)
		}
	}
}
