package cpu

import (
	"unsafe"

	"github.com/isobit-ml/isobit/tensor"
)

// MatmulTile is a part of a matrix product: M rows of Input, of K columns,
// times N columns of Other.
type MatmulTile struct {
	Input, Other, Y Rows
	Bias            Span // N elements; may be absent
	M, N, K         int64
	More            bool           // chains continue from the sums that Y holds
	Far             bool           // Other comes from memory
	Memory          unsafe.Pointer // of MatmulRow.Bytes bytes
	Scratch         *Scratch
}

// MatmulRow is a way to compute a tile.
type MatmulRow struct {
	Run func(*MatmulTile)
	// Largest returns the most rows and columns of a tile of an m x n product. A tile's rows are a
	// multiple of unit, but for the last tile's.
	Largest func(m, n int64) (rows, columns, unit int64)
	Bytes   func(m, n, k int64) int64 // the memory that a tile of this size needs
	// TakesBatch reports whether Batch, which computes many products at a time, is faster for products
	// of this size: for those where Other is stored column by column, and for others.
	TakesBatch func(m, n, k int64) (transposed, others bool)
	Batch      func(*MatmulBatch)
}

// Divide returns the rows and columns of the tiles of m x n products: smaller ones
// than a tile may have where there would be few for the threads.
func (r MatmulRow) Divide(batch, m, n, threads int64) (rows, columns int64) {
	rows, columns, unit := r.Largest(m, n)
	rows, columns = min(rows, m), min(columns, n)
	split := func(least, jobs int64) {
		for ceilDiv(m, rows)*ceilDiv(n, columns)*batch < jobs {
			switch {
			case columns >= rows && columns > least:
				columns = max(least, roundUp(columns/2, least))
			case rows > least:
				rows = max(least, roundUp(rows/2, unit))
			default:
				return
			}
		}
	}
	least := int64(matmulLeast)
	if m <= matmulFewest {
		least *= 2 // wide panels
	}
	split(least, matmulJobs*threads)
	split(matmulLeast/2, threads)
	even := func(whole, part, unit int64) int64 {
		return min(part, roundUp(ceilDiv(whole, ceilDiv(whole, part)), unit))
	}
	rows, columns = even(m, rows, unit), even(n, columns, matmulLeast/2)
	// Of few tiles each thread has as many, or some would wait.
	down, across := ceilDiv(m, rows), ceilDiv(n, columns)*batch
	if more := ceilDiv(down, threads) * threads; across%threads != 0 && down*across < 2*matmulJobs*threads && m/more >= matmulLeast {
		rows = roundUp(ceilDiv(m, more), unit)
	}
	return rows, columns
}

const (
	matmulJobs  = 4  // for each thread
	matmulLeast = 64 // rows and columns of a tile that is made no smaller while each thread has one
)

// Matmul computes y[m,n] = sum over k of input[m,k] * other[k,n], then + bias[n]. The sum is
// a chain of fused multiply-adds over ascending k, from +0 (NUMERICS.md, section 8).
var Matmul = append(matmulDotRows, tableOf(byCompute(
	MatmulRow{matmul[float32], blocks, noBytes, noBatch, nil},
	MatmulRow{matmul[float64], blocks, noBytes, noBatch, nil},
), pickMatmul)...)

func blocks(_, _ int64) (rows, columns, unit int64) { return Block, Block, 1 }

func noBatch(_, _, _ int64) (transposed, others bool) { return false, false }

func noBytes(_, _, _ int64) int64 { return 0 }

// matmulTogether is how many rows of Input meet a row of Other once it is loaded.
const matmulTogether = 16

func matmul[C Compute](t *MatmulTile) {
	x, other, bias := BlockOf[C](t.Scratch, 0, 1), BlockOf[C](t.Scratch, 1, int(t.N)), BlockOf[C](t.Scratch, 2, int(t.N))
	var sums [matmulTogether][]C
	for m := range sums {
		sums[m] = BlockOf[C](t.Scratch, 3+m, int(t.N))
	}
	Load(bias, t.Bias)
	for first := int64(0); first < t.M; first += matmulTogether {
		rows := sums[:min(matmulTogether, t.M-first)]
		for m, y := range rows {
			clear(y)
			if t.More {
				Load(y, t.Y.Row(first+int64(m), 0))
			}
		}
		for k := range t.K {
			Load(other, t.Other.Row(k, 0))
			for m, y := range rows {
				Load(x, t.Input.Row(first+int64(m), k))
				fuseInto(y, x[0], other)
			}
		}
		for m, y := range rows {
			if t.Bias.P != nil {
				for n := range y {
					y[n] += bias[n]
				}
			}
			Store(t.Y.Row(first+int64(m), 0), y)
		}
	}
}

func ceilDiv(n, d int64) int64 { return tensor.CeilDiv(n, d) }
