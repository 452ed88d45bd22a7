package cpu

import (
	"unsafe"

	"github.com/isobit-ml/isobit/tensor"
)

// What stands between EmbeddingBackward and the generated sums of rows.

// rowSum is a generated sum of rows of one type.
type rowSum struct {
	needs   ISA
	dtype   tensor.DType
	columns int64 // what its number of columns is a multiple of
	run     func(rows *byte, stride int, positions *int64, count, ahead int, to *byte, columns, mode int, divisor float64)
}

// The bits of a sum's mode, as internal/gen/embedding.go names them.
const (
	sumAccumulate = 1 << iota
	sumDivide
	sumStream // store around the caches: to is at a multiple of a register
	sumWide   // store in the compute type
)

// embeddingRows makes the table: a row for each instruction set that has sums.
func embeddingRows(definition func(Types) (func(*EmbeddingSum), bool)) []Row[func(*EmbeddingSum)] {
	return tableOf(definition, func(isa ISA, t Types) (func(*EmbeddingSum), bool) {
		for i := range rowSums {
			if s := &rowSums[i]; s.needs == isa && s.dtype == t.In[0] {
				slow, _ := definition(t)
				return s.pick(slow), true
			}
		}
		return nil, false
	})
}

func (s *rowSum) pick(slow func(*EmbeddingSum)) func(*EmbeddingSum) {
	sum, weighted := sumTile[float32], newWeightedSum(s)
	if s.dtype == tensor.F64 {
		sum = sumTile[float64]
	}
	tile := func(e *EmbeddingSum, at, columns int64) { sum(s, e, at, columns) }
	return func(e *EmbeddingSum) {
		switch {
		case e.Factors == nil:
			sumByKernel(e, s.columns, tile, slow)
		case weighted == nil:
			slow(e)
		default:
			sumByKernel(e, Lanes, weighted.tile, slow)
		}
	}
}

// sumByKernel sums the columns that tiles of a multiple of some columns take,
// and leaves the others to the definition.
func sumByKernel(e *EmbeddingSum, multiple int64, tile func(e *EmbeddingSum, at, columns int64), slow func(*EmbeddingSum)) {
	if len(e.Positions) == 0 && !e.Accumulate && e.Out.Contiguous() {
		clearRow(unsafe.Slice((*byte)(e.Out.P), e.Columns*e.Out.Stride), e.Stream)
		return
	}
	whole := e.Columns - e.Columns%multiple
	if !e.Terms.Contiguous() || e.Terms.Dims > 1 || !e.Out.Contiguous() {
		whole = 0
	}
	for at := int64(0); at < whole; at += Block {
		tile(e, at, min(Block, whole-at))
	}
	if whole < e.Columns {
		all := *e
		e.Column, e.Columns, e.Out = all.Column+whole, all.Columns-whole, all.Out.At(whole)
		slow(e)
		*e = all
	}
}

// sumTile sums columns from at on, at most Block.
func sumTile[C Compute](s *rowSum, e *EmbeddingSum, at, columns int64) {
	mode := 0
	if e.Accumulate {
		mode |= sumAccumulate
	}
	if e.ByFreq && len(e.Positions) > 0 {
		mode |= sumDivide
	}
	out := e.Out.At(at)
	if e.Stream && uintptr(out.P)%streamAlignment == 0 && columns*out.Stride%streamAlignment == 0 {
		mode |= sumStream
	}
	stride := int64(0)
	if e.Terms.Dims > 0 {
		stride = e.Terms.Strides[0]
	}
	from := (*byte)(unsafe.Add(e.Terms.P, (e.Column+at)*e.Terms.Stride))
	run := func(positions []int64, to unsafe.Pointer, mode int) {
		s.run(from, int(stride), unsafe.SliceData(positions), len(positions), cap(positions), (*byte)(to), int(columns), mode, float64(len(e.Positions)))
	}
	if len(e.Positions) <= ChunkSize && e.Out.DType == s.dtype {
		run(e.Positions, out.P, mode)
		return
	}
	chunks := NewChunks[C](e.Scratch, 2, int(columns))
	for rest := e.Positions; len(rest) > 0; {
		m := min(ChunkSize, len(rest))
		acc := chunks.NextChunk(m)
		run(rest[:m], unsafe.Pointer(unsafe.SliceData(acc)), sumWide)
		rest = rest[m:]
	}
	finishSum(e, out, chunks.Sum())
}

// clearRow stores an empty sum.
func clearRow(row []byte, stream bool) {
	if stream && len(row) >= 2*streamAlignment {
		head := int(-uintptr(unsafe.Pointer(&row[0])) % streamAlignment)
		whole := (len(row) - head) / streamAlignment * streamAlignment
		clear(row[:head])
		storeZeros(&row[head], whole)
		row = row[head+whole:]
	}
	clear(row)
}
