package cpu

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/isobit-ml/isobit/tensor"
	"github.com/stretchr/testify/require"
)

// special are values that arithmetic has rules of its own for.
var special = []float64{math.NaN(), math.Inf(1), math.Inf(-1), math.Copysign(0, -1), 0, 1e-42, -3e38, 65504, 1e-7}

// elements returns a vector of n numbers of a type, some of them special.
func elements(r *rand.Rand, d tensor.DType, n int64) Span {
	v := tensor.New(d, n)
	s := Span{v.Data, d.Size(), d}
	values := make([]float64, n)
	for i := range values {
		values[i] = r.NormFloat64()
		if r.IntN(200) == 0 {
			values[i] = special[r.IntN(len(special))]
		}
	}
	Store(s, values)
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
	counts := []int64{0, 1, 2, 5, 255, 256, 257, 0, 512, 513, 3, 1100, 0, 0, 20}
	start := make([]int64, 1)
	for _, n := range counts {
		start = append(start, start[len(start)-1]+n)
	}
	terms, results := start[len(counts)], int64(len(counts))
	for _, types := range [][2]tensor.DType{
		{tensor.F32, tensor.F32}, {tensor.F64, tensor.F64}, {tensor.BF16, tensor.BF16}, {tensor.F16, tensor.F16}, {tensor.F32, tensor.BF16}, {tensor.F32, tensor.F16},
	} {
		in := Types{Compute: types[0].Compute(), In: InTypes{types[0]}, Out: OutTypes{types[1]}}
		for _, columns := range []int64{1, 6, 7, 8, 15, 16, 17, 31, 32, 48, 65, 96, 127, 128, 200, 255, 256, 257, 300} {
			dy, before := elements(r, types[0], rows*columns), elements(r, types[1], results*columns)
			for mode := range 16 {
				e := EmbeddingSums{Start: start, Apart: columns * before.Stride, EmbeddingSum: EmbeddingSum{
					Terms: Matrix{Span: dy, Dims: 1}, Columns: columns, Scratch: new(Scratch), Positions: make([]int64, terms),
					Accumulate: mode&1 != 0, ByFreq: mode&2 != 0, Stream: mode&4 != 0,
				}}
				e.Terms.Size[0], e.Terms.Strides[0] = rows, columns*dy.Stride
				for k := range e.Positions {
					e.Positions[k] = r.Int64N(rows)
				}
				if mode&8 != 0 {
					e.Factors = elements(r, types[0], terms)
				}
				last := len(RowSums) - 1
				definition, _ := RowSums[last].Pick(in)
				want := copyOf(before, results*columns)
				e.Out = want
				definition(&e)
				for _, row := range RowSums[:last] {
					kernel, ok := row.Pick(in)
					if !ok || row.Needs > Best() {
						continue
					}
					t.Run(fmt.Sprintf("%s/%v/%d/mode=%d", row.Name, types, columns, mode), func(t *testing.T) {
						e.Out = copyOf(before, results*columns)
						kernel(&e)
						requireSame(t, want, e.Out, results*columns)
					})
				}
			}
		}
	}
}

// Sums that are every bf16 and, of its last place, about half or nearly all: rounded as the definition rounds them.
func TestSumsRoundToBF16(t *testing.T) {
	const columns = 1 << 16
	in := Types{Compute: tensor.F32, In: InTypes{tensor.BF16}, Out: OutTypes{tensor.BF16}}
	rows, out := tensor.New(tensor.BF16, 3, columns), tensor.New(tensor.BF16, columns)
	first := unsafe.Slice((*uint16)(rows.Data), columns)
	x, parts := make([]float64, columns), make([]float64, columns)
	for i := range first {
		first[i] = uint16(i)
	}
	span := Span{rows.Data, 2, tensor.BF16}
	Load(x, span)
	for _, second := range []float64{0, 0x7f80, 0x8000, 0xff80} { // of 65536th parts of the last place
		for _, third := range []float64{0, 1, 0x7f} {
			for row, part := range []float64{second, third} {
				for i, v := range x {
					_, exponent := math.Frexp(v)
					parts[i] = math.Copysign(math.Ldexp(part, exponent-24), v)
				}
				Store(span.At(int64(row+1)*columns), parts)
			}
			e := EmbeddingSums{Start: []int64{0, 3}, EmbeddingSum: EmbeddingSum{
				Terms: Matrix{Span: span, Dims: 1}, Columns: columns, Scratch: new(Scratch), Positions: []int64{0, 1, 2},
			}}
			e.Terms.Size[0], e.Terms.Strides[0] = 3, 2*columns
			e.Out = Span{out.Data, 2, tensor.BF16}
			last := len(RowSums) - 1
			definition, _ := RowSums[last].Pick(in)
			definition(&e)
			want := copyOf(e.Out, columns)
			for _, row := range RowSums[:last] {
				if kernel, ok := row.Pick(in); ok && row.Needs <= Best() {
					kernel(&e)
					requireSame(t, want, e.Out, columns)
				}
			}
		}
	}
}
