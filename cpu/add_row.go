package cpu

import "unsafe"

// AddRow adds a row to a sum of the same type, which is the compute type, or begins the sum with it.
type AddRow func(to, from unsafe.Pointer, columns int64, first bool)

// AddRows is the table of AddRow: its kernels are those of RowSums, for one row of one result.
var AddRows = tableOf(addRowOf, func(isa ISA, t Types) (AddRow, bool) {
	for i := range rowSums {
		if s := &rowSums[i]; s.needs == isa && s.in == t.Compute && s.out == t.Compute {
			rest, _ := addRowOf(t)
			return func(to, from unsafe.Pointer, columns int64, first bool) { s.addRow(to, from, columns, first, rest) }, true
		}
	}
	return nil, false
})

var addRowOf = byCompute[AddRow](addRowGo[float32], addRowGo[float64])

func addRowGo[C Compute](to, from unsafe.Pointer, columns int64, first bool) {
	sum, row := unsafe.Slice((*C)(to), columns), unsafe.Slice((*C)(from), columns)
	for i, v := range row {
		if first {
			sum[i] = 0
		}
		sum[i] += v
	}
}

// The lists of one row and one result.
var (
	firstRow  = [1]int64{0}
	oneResult = [2]int64{0, 1}
)

// addRow adds the columns that the kernel takes, and leaves the others to rest.
func (s *rowSum) addRow(to, from unsafe.Pointer, columns int64, first bool, rest AddRow) {
	whole, mode := columns-columns%s.columns, sumAccumulate
	if first {
		mode = 0
	}
	if whole > 0 {
		s.run((*byte)(from), 0, &oneResult[0], 1, &firstRow[0], 0, nil, (*byte)(to), 0, int(whole), mode)
	}
	if whole < columns {
		at := whole * s.in.Size()
		rest(unsafe.Add(to, at), unsafe.Add(from, at), columns-whole, first)
	}
}

// FoldChunks is the table of what folds the chunks of a row of count contributions, which are those
// with the given numbers among chunks that lie apart bytes apart.
var FoldChunks = withDefinition(nil, byCompute[ChunkFold](foldChunksGo[float32], foldChunksGo[float64]))

// ChunkFold is one of FoldChunks.
type ChunkFold func(to, chunks unsafe.Pointer, apart int64, numbers []int32, count, columns int64, s *Scratch)

func foldChunksGo[C Compute](to, chunks unsafe.Pointer, apart int64, numbers []int32, count, columns int64, s *Scratch) {
	for at := int64(0); at < columns; at += Block {
		sum := NewChunks[C](s, 0, int(min(Block, columns-at)))
		for i, number := range numbers {
			n := min(ChunkSize, count-int64(i)*ChunkSize)
			copy(sum.NextChunk(int(n)), unsafe.Slice((*C)(unsafe.Add(chunks, int64(number)*apart)), columns)[at:])
		}
		copy(unsafe.Slice((*C)(to), columns)[at:], sum.Sum())
	}
}
