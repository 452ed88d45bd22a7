package cpu

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/isobit-ml/isobit/tensor"
)

// Every row divides as the definition does, and writes nothing behind what it divides.
func TestDivideRow(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 3))
	special := []float64{0, math.Copysign(0, -1), math.Inf(1), math.NaN(), 1e-45, 65504, 1e300, -3}
	for _, dtype := range []tensor.DType{tensor.F32, tensor.F64, tensor.BF16, tensor.F16} {
		types := Types{Compute: dtype.Compute(), In: InTypes{dtype}}
		define, _ := DivideRow[len(DivideRow)-1].Pick(types)
		for _, n := range []int64{0, 1, 31, 32, 33, 95, 128, 300} {
			x := tensor.New(dtype, n)
			values := make([]float64, n)
			for i := range values {
				values[i] = r.NormFloat64()
				if r.IntN(4) == 0 {
					values[i] = special[r.IntN(len(special))]
				}
			}
			Store(Span{x.Data, dtype.Size(), dtype}, values)
			for _, count := range []int64{1, 3, 257, 1<<24 + 1} {
				result := func(divide RowDivision) []byte {
					out := tensor.New(types.Compute, n+3)
					divide(Span{out.Data, types.Compute.Size(), types.Compute}, Span{x.Data, dtype.Size(), dtype}, n, count, new(Scratch))
					return tensor.Bytes(out)
				}
				want := result(define)
				for _, row := range DivideRow {
					if divide, ok := row.Pick(types); ok && row.Needs <= Best() {
						require.Equal(t, want, result(divide), "%s %v %d by %d", row.Name, dtype, n, count)
					}
				}
			}
		}
	}
}
