package cpu

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/isobit-ml/isobit/tensor"
	"github.com/stretchr/testify/require"
)

// Every row copies rows of any width, as many as there are, and nothing beside
// them: rows of both matrices lie together or apart.
func TestEmbeddingRows(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	widths := []int64{128, 129, 200}
	for n := range int64(70) {
		widths = append(widths, n+1)
	}
	for _, dtype := range []tensor.DType{tensor.F32, tensor.F64, tensor.BF16, tensor.F16} {
		for _, columns := range widths {
			for _, apart := range []int64{0, 3} {
				const rows = 9
				size, step := dtype.Size(), columns+apart
				from := tensor.New(dtype, rows, step)
				for i, b := 0, tensor.Bytes(from); i < len(b); i++ {
					b[i] = byte(r.Uint32())
				}
				for _, count := range []int64{0, 1, 2, 15, 16, 17, 18, 40} {
					indices := make([]int64, count)
					for i := range indices {
						indices[i] = r.Int64N(rows)
					}
					const first = 2 // rows of To before the first
					for _, row := range Embedding {
						kernel, ok := row.Pick(Types{In: InTypes{dtype}})
						if !ok || row.Needs > Best() {
							continue
						}
						to := tensor.New(dtype, first+count+1, step)
						want := append([]byte(nil), tensor.Bytes(to)...)
						for i, p := range indices {
							copy(want[(first+int64(i))*step*size:][:columns*size], tensor.Bytes(from)[p*step*size:])
						}
						c := RowCopies{First: first, Indices: indices, Columns: columns, Early: int(count) % 5, Stream: count == 40}
						c.To, c.From = rowsOf(to, step), rowsOf(from, step)
						kernel(&c)
						StoreFence()
						require.Equal(t, want, tensor.Bytes(to), fmt.Sprint(row.Name, dtype, columns, apart, count))
					}
				}
			}
		}
	}
}

// rowsOf describes a matrix whose rows lie a step of elements apart.
func rowsOf(v tensor.View, step int64) Matrix {
	m := Matrix{Span: Span{v.Data, v.DType.Size(), v.DType}, Dims: 1}
	m.Size[0], m.Strides[0] = v.Shape[0], step*v.DType.Size()
	return m
}
