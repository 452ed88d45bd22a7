package cpu

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/isobit-ml/isobit/tensor"
	"github.com/stretchr/testify/require"
)

// special are values that arithmetic has rules of its own for.
var special = []float64{math.NaN(), math.Inf(1), math.Inf(-1), math.Copysign(0, -1), 0, 1e-42, -3e38, 65504, 1e-7}

// elements returns a vector of n numbers of a type, some of them special.
func elements(r *rand.Rand, d tensor.DType, n int64) Span {
	v := tensor.New(d, n)
	s := Span{v.Data, d.Size(), d}
	for i := range n {
		x := r.NormFloat64()
		if r.IntN(200) == 0 {
			x = special[r.IntN(len(special))]
		}
		Store(s.At(i), []float64{x})
	}
	return s
}

// requireSame compares n elements bit for bit, but NaN with NaN.
func requireSame(t *testing.T, want, got Span, n int64) {
	t.Helper()
	a, b := make([]float64, n), make([]float64, n)
	Load(a, want)
	Load(b, got)
	for i := range a {
		if math.Float64bits(a[i]) != math.Float64bits(b[i]) && (a[i] == a[i] || b[i] == b[i]) {
			require.FailNow(t, "differs", "element %d is %v; want %v", i, b[i], a[i])
		}
	}
}

func copyOf(s Span, n int64) Span {
	v := tensor.New(s.DType, n)
	CopyRow(Span{v.Data, s.Stride, s.DType}, s, n)
	return Span{v.Data, s.Stride, s.DType}
}

// Every row gives the definition's sums: widths around the vectors', counts
// around chunks, all modes.
func TestEmbeddingBackwardRows(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	const rows = 40
	for _, d := range []tensor.DType{tensor.F32, tensor.F64, tensor.BF16, tensor.F16} {
		types := Types{Compute: ComputeType(d), In: [4]tensor.DType{d}}
		for _, columns := range []int64{1, 7, 8, 15, 16, 17, 31, 32, 48, 65, 128, 200, 255, 256, 257, 300} {
			dy := elements(r, d, rows*columns)
			e := EmbeddingSum{Terms: Matrix{Span: dy, Dims: 1}, Columns: columns, Scratch: new(Scratch)}
			e.Terms.Size[0], e.Terms.Strides[0] = rows, columns*dy.Stride
			for i, count := range []int{0, 1, 2, 5, 255, 256, 257, 512, 513, 1100} {
				e.Positions = make([]int64, count, count+i)
				for k := range e.Positions[:cap(e.Positions)] {
					e.Positions[:cap(e.Positions)][k] = r.Int64N(rows)
				}
				e.Factors = nil
				if r.IntN(3) == 0 {
					e.Factors = make([]float64, count)
					Load(e.Factors, elements(r, d, int64(count)))
				}
				e.Accumulate, e.ByFreq, e.Stream = i%2 == 0, r.IntN(3) == 0, r.IntN(2) == 0
				before := elements(r, d, columns)
				definition, _ := EmbeddingBackward[len(EmbeddingBackward)-1].Pick(types)
				want := copyOf(before, columns)
				e.Out = want
				definition(&e)
				for _, row := range EmbeddingBackward {
					kernel, ok := row.Pick(types)
					if !ok || row.Needs > Best() {
						continue
					}
					t.Run(fmt.Sprint(row.Name, d, columns, "x", count), func(t *testing.T) {
						e.Out = copyOf(before, columns)
						kernel(&e)
						requireSame(t, want, e.Out, columns)
					})
				}
			}
		}
	}
}
