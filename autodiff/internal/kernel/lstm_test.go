package kernel

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestLSTMWritesAll runs a cell's functions into memory that holds anything.
func TestLSTMWritesAll(t *testing.T) {
	for _, n := range []int{1, 3, 70} {
		const rows = 3
		x, y, g := uniform[float32](gates*rows*n, 1), uniform[float32](gates*rows*n, 2), uniform[float32](gates*rows*n, 3)
		c := uniform[float32](rows*n, 4)
		for name, f := range map[string]func(wide, narrow []float32){
			"gates":                   func(wide, _ []float32) { LSTMGates(1, wide, x, n) },
			"the gradient of gates":   func(wide, _ []float32) { LSTMGatesGrad(1, wide, g, y, n) },
			"cell":                    func(_, narrow []float32) { LSTMCell(1, narrow, y, c, n) },
			"the gradients of a cell": func(wide, narrow []float32) { LSTMCellGrad(1, wide, narrow, g[:rows*n], y, c, n) },
			"hidden":                  func(_, narrow []float32) { LSTMHidden(1, narrow, y, c, n) },
			"the gradients of hidden": func(wide, narrow []float32) { LSTMHiddenGrad(1, wide, narrow, g[:rows*n], y, c, n) },
		} {
			into := func(v float32) []uint64 {
				wide, narrow := slices.Repeat([]float32{v}, gates*rows*n), slices.Repeat([]float32{v}, rows*n)
				f(wide, narrow)
				for _, z := range [][]float32{wide, narrow} {
					if !slices.ContainsFunc(z, func(got float32) bool { return got == got && got != v }) {
						clear(z) // not an output
					}
				}
				return bits(append(wide, narrow...))
			}
			require.Equal(t, into(7), into(float32(math.NaN())), "%s of %d", name, n)
		}
	}
}
