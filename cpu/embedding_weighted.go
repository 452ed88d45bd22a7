package cpu

import (
	"unsafe"

	"github.com/isobit-ml/isobit/tensor"
)

// Sums of rows with factors, by kernels that others need, too: 64 columns of a
// row, times the factor repeated, are added to 64 lanes.

// weightedSum sums rows of a type with factors.
type weightedSum struct {
	*rowSum  // copies rows
	products func(x *float32, xRow, rows int, w *float32, n int, lanes *float32, lanesRow int)
	expand   Expand
	tile     func(e *EmbeddingSum, at, columns int64) // sumTile: made once, so that running does not allocate
}

// newWeightedSum returns nil for a type or an instruction set without products.
func newWeightedSum(s *rowSum) *weightedSum {
	for _, k := range weightKernels {
		if k.needs == s.needs && s.dtype != tensor.F64 {
			expand, _ := PickUpTo(ExpandRows, s.needs, Types{Compute: tensor.F32})
			w := &weightedSum{rowSum: s, products: k.products, expand: expand}
			w.tile = w.sumTile
			return w
		}
	}
	return nil
}

// weightedRows is how many rows are added at a time. It divides ChunkSize.
const weightedRows = TileSize / Lanes

// sumTile sums columns from at on, a multiple of Lanes.
func (s *weightedSum) sumTile(e *EmbeddingSum, at, columns int64) {
	factors, rows := BlockOf[float32](e.Scratch, 1, weightedRows), &BlockOf[float32](e.Scratch, rowBlocks, Block)[0]
	repeated := e.Scratch.Tile.at(0, 0, tensor.F32)
	for end := at + columns; at < end; at += Lanes {
		chunks := NewChunks[float32](e.Scratch, 2, Lanes)
		var acc []float32
		for i := 0; i < len(e.Positions); i += weightedRows {
			if i%ChunkSize == 0 {
				acc = chunks.NextChunk(min(ChunkSize, len(e.Positions)-i))
				clear(acc)
			}
			n := min(weightedRows, len(e.Positions)-i)
			for k, f := range e.Factors[i:][:n] {
				factors[k] = float32(f)
			}
			s.expand(repeated, unsafe.Pointer(&factors[0]), n, Lanes)
			s.gather(rows, e, at, i, n)
			s.products(rows, 0, 1, (*float32)(repeated), n*Lanes, &acc[0], 0)
		}
		finishSum(e, e.Out.At(at), chunks.Sum())
	}
}

// rowBlocks is the first of the blocks that hold gathered rows, behind those
// of chunks.
const rowBlocks = 80

// gather copies 64 columns of rows as float32, one row after the other: each
// as a sum of one row, which asks for later rows early. -0 becomes +0; no sum
// of products tells them apart.
func (s *weightedSum) gather(rows *float32, e *EmbeddingSum, at int64, first, n int) {
	from, stride := (*byte)(e.Terms.Row(0, e.Column+at).P), int(e.Terms.Strides[0])
	for k := range n {
		to := (*byte)(unsafe.Add(unsafe.Pointer(rows), k*Lanes*4))
		s.run(from, stride, &e.Positions[first+k], 1, cap(e.Positions)-first-k, to, Lanes, sumWide, 1)
	}
}

// productRows makes the table of RowProduct: rows of float32 go through the
// same kernel, whose lanes are a Stripe sum's.
func productRows(definition func(Types) (rowProductKernel, bool)) []Row[rowProductKernel] {
	return tableOf(definition, func(isa ISA, t Types) (rowProductKernel, bool) {
		for _, k := range weightKernels {
			if k.needs == isa && t.In[0] == tensor.F32 {
				slow, _ := definition(t)
				fold, _ := PickUpTo(FoldRows32, isa, Types{})
				return func(out, a, b Span, n int64, s *Scratch) {
					if !a.Contiguous() || !b.Contiguous() {
						slow(out, a, b, n, s)
						return
					}
					rowProduct(out, n, s, fold, func(lanes *[Lanes]float32, start, stop int64) {
						x, y, whole := a.At(start), b.At(start), int(stop-start)/Lanes*Lanes
						if whole > 0 {
							k.products((*float32)(x.P), 0, 1, (*float32)(y.P), whole, &lanes[0], 0)
						}
						addProducts(lanes, x.At(int64(whole)), y.At(int64(whole)), int(stop-start)-whole, s)
					})
				}, true
			}
		}
		return nil, false
	})
}

// rowProductKernel is a way to compute RowProduct.
type rowProductKernel = func(out, a, b Span, n int64, s *Scratch)
