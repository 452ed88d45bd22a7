package cpu_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/isobit-ml/isobit/cpu"
	"github.com/isobit-ml/isobit/tensor"
)

// Extremes of columns are those of their elements one by one, for elements of any bits, also
// where the rows come in two calls: a NaN of the first one stays.
func TestColumnExtremes(t *testing.T) {
	columnExtremes[float32](t, tensor.F32, tensor.F16, tensor.BF16)
	columnExtremes[float64](t, tensor.F64)
}

func columnExtremes[C cpu.Compute](t *testing.T, types ...tensor.DType) {
	r := rand.New(rand.NewPCG(7, 8))
	for _, d := range types {
		for _, n := range []int{8, 9, 15, 16, 17, 31, 32, 33, 40, 63, 100, 512} {
			for _, rows := range []int{2, 3, 17, 130} {
				pitch := n + r.IntN(3)
				data := values(r, d, (rows-1)*pitch+n, 1, false)
				for i := range (rows-1)*pitch + n {
					if r.IntN(2*rows) > 0 { // few NaNs, some columns without a sign
						put(data, d, i, math.Abs(r.NormFloat64())*float64(1-2*(i%pitch%3/2)))
					}
				}
				x := cpu.Span{Stride: d.Size(), DType: d, P: unsafe.Pointer(&guard(data, true)[0])}
				want := [2][]C{make([]C, n), make([]C, n)}
				for row := range rows {
					v := make([]C, n)
					cpu.Load(v, x.At(int64(row*pitch)))
					for i, v := range v {
						cpu.MergeMinMax(&want[0][i], &want[1][i], v, v)
					}
				}
				x.Stride = int64(pitch) * d.Size()
				for _, row := range cpu.ColumnExtremeRows[C]() {
					if extremes, ok := row.Pick(cpu.Types{In: cpu.InTypes{d}}); ok && row.Needs <= cpu.Best() {
						got, first := guardedPair(make([]C, n), make([]C, n)), 1+r.IntN(rows-1)
						extremes(first, x, got)
						extremes(rows-first, x.At(int64(first)), got)
						what := fmt.Sprintf("%s: extremes of %d rows of %d %s", row.Name, rows, n, d)
						for i, hi := range got[1] {
							require.False(t, got[0][i] == 0 && math.Signbit(float64(got[0][i])), "%s: -0", what)
							if hi != hi {
								got[0][i] = hi
							}
						}
						sameResults(t, got, want, what)
					}
				}
				releaseGuards()
			}
		}
	}
}
