package cpu

import (
	"cmp"
	"slices"
	"unsafe"

	"github.com/isobit-ml/isobit/tensor"
)

// ChosenSums adds to rows of grad_weight what bags of mode=max chose from them, bag after bag, for some
// columns: BagMaxBackward the other way round. Sums lie in grad_weight, which was cleared; those of
// rows with a slot lie apart, with counts, as they may have several chunks or another type.
type ChosenSums[C Compute] struct {
	Out    Span    // of row 0, from the first of the columns on
	Apart  int64   // bytes from row to row
	Width  int     // columns
	Slots  []int32 // by row: the number of its slot, from 1 on, or 0; nil where no row has one
	Rows   []int64 // by slot
	Sums   []C     // by slot and column
	Counts []uint16
	Full   []ChosenChunk[C] // room for finished chunks
}

// ChosenChunk is the sum of a finished chunk, and whose it is.
type ChosenChunk[C Compute] struct {
	at  int64 // in Sums
	sum C
}

// ChosenBytes returns the size of an element of each list of ChosenSums that has one for a slot's
// column, and of a finished chunk.
func ChosenBytes(compute tensor.DType) (column, chunk int64) {
	if compute == tensor.F64 {
		return 8 + 2, int64(unsafe.Sizeof(ChosenChunk[float64]{}))
	}
	return 4 + 2, int64(unsafe.Sizeof(ChosenChunk[float32]{}))
}

// Begin clears the slots' sums.
func (s *ChosenSums[C]) Begin() {
	clear(s.Sums)
	clear(s.Counts)
	s.Full = s.Full[:0]
}

// Add adds the elements of a bag's gradient to the rows that they were chosen from; a row below 0
// is none.
func (s *ChosenSums[C]) Add(rows []int64, dy []C) {
	for i, row := range rows {
		if row < 0 {
			continue
		}
		if s.Slots == nil || s.Slots[row] == 0 {
			*(*C)(unsafe.Add(s.Out.P, row*s.Apart+int64(i)*s.Out.Stride)) += dy[i]
			continue
		}
		at := int(s.Slots[row]-1)*s.Width + i
		if s.Counts[at] == ChunkSize {
			s.Full = append(s.Full, ChosenChunk[C]{int64(at), s.Sums[at]})
			s.Sums[at], s.Counts[at] = 0, 0
		}
		s.Counts[at]++
		s.Sums[at] += dy[i]
	}
}

// Finish folds chunks, and stores the sums of rows with a slot.
func (s *ChosenSums[C]) Finish(scratch *Scratch) {
	slices.SortStableFunc(s.Full, func(a, b ChosenChunk[C]) int { return cmp.Compare(a.at, b.at) })
	for full := s.Full; len(full) > 0; {
		tree, at := TreeOf[C](scratch, 0), full[0].at
		for ; len(full) > 0 && full[0].at == at; full = full[1:] {
			tree.Push(full[0].sum)
		}
		tree.Push(s.Sums[at])
		s.Sums[at] = tree.Sum()
	}
	for slot, row := range s.Rows {
		Store(Span{unsafe.Add(s.Out.P, row*s.Apart), s.Out.Stride, s.Out.DType}, s.Sums[slot*s.Width:][:s.Width])
	}
}
