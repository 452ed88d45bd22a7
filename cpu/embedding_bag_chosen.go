package cpu

import (
	"cmp"
	"slices"
	"unsafe"

	"github.com/isobit-ml/isobit/tensor"
)

// ChosenSums is BagMaxBackward the other way round: bag after bag, it adds elements of the bag's gradient
// to the rows of grad_weight that they were chosen from, for some columns. Sums lie in grad_weight, which
// was cleared. Those that may have several chunks or, of 16 bits, several terms lie apart, in a slot of their
// row, beside counts of their terms. With Late, which is for 16 bits, a row gets its slot when an element of
// it has a second term; first terms lie in grad_weight. With Seen no row has a slot.
type ChosenSums[C Compute] struct {
	Out    Span    // of row 0, from the first of the columns on
	Apart  int64   // bytes from row to row
	Width  int     // columns
	Type   RowType // of both gradients
	Slots  []int32 // by row: the number of its slot, from 1 on, or 0; nil where no row has one
	Rows   []int64 // by slot
	Late   bool    // rows get slots here, which Rows has room for: none is named more often than a chunk has terms
	Sums   []C     // by slot and column
	Counts []uint16
	Full   []ChosenChunk[C] // room for finished chunks
	Seen   []uint8          // by row and column: how many terms there were, modulo ChunkSize; or nil
}

// RowType loads and stores rows of a type, those of 16 bits by kernels.
type RowType struct{ *gatherType }

// RowTypes is the table of RowType.
var RowTypes = tableOf(always(RowType{new(gatherType)}), func(isa ISA, t Types) (RowType, bool) {
	found, ok := findType(isa, t.In[0])
	return RowType{found}, ok
})

// ChosenChunk is the sum of a finished chunk, and whose it is.
type ChosenChunk[C Compute] struct {
	at  int64 // in Sums, or in Seen
	sum C
}

// ChosenBytes returns the size of an element of each list of ChosenSums that has one for a slot's
// column, and of a finished chunk.
func ChosenBytes(compute tensor.DType) (column, chunk int64) {
	chunk = int64(ForCompute(compute, unsafe.Sizeof(ChosenChunk[float32]{}), unsafe.Sizeof(ChosenChunk[float64]{})))
	return compute.Size() + 2, chunk
}

// Begin clears the slots' sums.
func (s *ChosenSums[C]) Begin() {
	clear(s.Seen)
	if s.Late {
		s.Rows = s.Rows[:0]
	} else {
		clear(s.Sums)
		clear(s.Counts)
	}
	s.Full = s.Full[:0]
}

// Add adds the elements of a bag's gradient to the rows that they were chosen from; a row below 0
// is none.
func (s *ChosenSums[C]) Add(rows []int64, terms Span, scratch *Scratch) {
	if s.Seen != nil {
		s.addCounted(rows, terms)
		return
	}
	wide := unsafe.Sizeof(C(0)) == uintptr(s.Out.DType.Size())
	if wide && s.Slots == nil {
		for i, row := range rows {
			if row >= 0 {
				*(*C)(unsafe.Add(s.Out.P, row*s.Apart+int64(i)*s.Out.Stride)) += *(*C)(unsafe.Add(terms.P, int64(i)*terms.Stride))
			}
		}
		return
	}
	if !wide && (s.Late || s.Slots == nil) {
		s.addLate(rows, terms, scratch)
		return
	}
	dy := BlockOf[C](scratch, 0, len(rows))
	loadRow(s.Type.gatherType, dy, terms)
	for i, row := range rows {
		switch {
		case row < 0:
		case s.Slots[row] != 0:
			s.addApart(int(s.Slots[row]-1)*s.Width+i, dy[i])
		case wide:
			*(*C)(unsafe.Add(s.Out.P, row*s.Apart+int64(i)*s.Out.Stride)) += dy[i]
		case dy[i] != 0: // of a row that is named once; -0 would add up to +0
			*(*uint16)(unsafe.Add(s.Out.P, row*s.Apart+int64(i)*s.Out.Stride)) = *(*uint16)(unsafe.Add(terms.P, int64(i)*terms.Stride))
		}
	}
}

// addCounted is Add where each element's terms are counted.
func (s *ChosenSums[C]) addCounted(rows []int64, terms Span) {
	out, apart, stride, seen, width := s.Out.P, s.Apart, s.Out.Stride, s.Seen, int64(s.Width)
	for i, row := range rows {
		if row < 0 {
			continue
		}
		at, sum := row*width+int64(i), (*C)(unsafe.Add(out, row*apart+int64(i)*stride))
		*sum += *(*C)(unsafe.Add(terms.P, int64(i)*terms.Stride))
		if seen[at]++; seen[at] == 0 {
			s.Full = append(s.Full, ChosenChunk[C]{at, *sum})
			*sum = 0
		}
	}
}

// total returns the sum of an element's last terms, and whether there are any.
func (s *ChosenSums[C]) total(at int64) (sum *C, some bool) {
	if s.Seen == nil {
		return &s.Sums[at], true
	}
	row, column := at/int64(s.Width), at%int64(s.Width)
	return (*C)(s.row(row).At(column).P), s.Seen[at] != 0
}

// addApart adds to an element of a row with a slot.
func (s *ChosenSums[C]) addApart(at int, v C) {
	if s.Counts[at] == ChunkSize {
		s.Full = append(s.Full, ChosenChunk[C]{int64(at), s.Sums[at]})
		s.Sums[at], s.Counts[at] = 0, 0
	}
	s.Counts[at]++
	s.Sums[at] += v
}

// addLate is Add of 16 bits, where rows get slots. Terms are of the compute type only once there is a second one.
func (s *ChosenSums[C]) addLate(rows []int64, terms Span, scratch *Scratch) {
	out, apart, stride := s.Out.P, s.Apart, s.Out.Stride
	var dy []C
	for i, row := range rows {
		bits := *(*uint16)(unsafe.Add(terms.P, int64(i)*terms.Stride))
		if row < 0 || bits<<1 == 0 {
			continue
		}
		to := (*uint16)(unsafe.Add(out, row*apart+int64(i)*stride))
		if *to == 0 {
			*to = bits
			continue
		}
		if dy == nil {
			dy = BlockOf[C](scratch, 0, len(rows))
			loadRow(s.Type.gatherType, dy, terms)
		}
		s.addSecond(row, i, dy[i])
	}
}

// addSecond adds to an element of 16 bits that has a term.
func (s *ChosenSums[C]) addSecond(row int64, column int, v C) {
	if s.Slots[row] == 0 {
		used := len(s.Rows)
		s.Rows = append(s.Rows, row)
		s.Slots[row] = int32(used + 1)
		clear(s.Counts[used*s.Width:][:s.Width])
	}
	at := int(s.Slots[row]-1)*s.Width + column
	if s.Counts[at] == 0 {
		s.Counts[at] = 1
		Load(s.Sums[at:at+1], s.row(row).At(int64(column)))
	}
	s.Sums[at] += v
}

// row returns a row of grad_weight.
func (s *ChosenSums[C]) row(row int64) Span {
	return Span{unsafe.Add(s.Out.P, row*s.Apart), s.Out.Stride, s.Out.DType}
}

// Finish folds chunks, and stores the sums of rows with a slot.
func (s *ChosenSums[C]) Finish(scratch *Scratch) {
	slices.SortStableFunc(s.Full, func(a, b ChosenChunk[C]) int { return cmp.Compare(a.at, b.at) })
	for full := s.Full; len(full) > 0; {
		tree, at := TreeOf[C](scratch, 0), full[0].at
		for ; len(full) > 0 && full[0].at == at; full = full[1:] {
			tree.Push(full[0].sum)
		}
		sum, some := s.total(at)
		if some {
			tree.Push(*sum)
		}
		*sum = tree.Sum()
	}
	if !s.Late {
		s.storeSlots(scratch)
		return
	}
	for slot, row := range s.Rows {
		sums, to := s.Sums[slot*s.Width:][:s.Width], s.row(row)
		for i, count := range s.Counts[slot*s.Width:][:s.Width] {
			if count != 0 {
				Store(to.At(int64(i)), sums[i:i+1])
			}
		}
	}
}

// storeSlots stores the sums of all slots: rows of 16 bits shorter than kernels take are converted many at once.
func (s *ChosenSums[C]) storeSlots(scratch *Scratch) {
	if s.Width >= wholeVectors || s.Out.DType.Size() == int64(unsafe.Sizeof(C(0))) {
		for slot, row := range s.Rows {
			storeRow(s.Type.gatherType, s.row(row), s.Sums[slot*s.Width:][:s.Width])
		}
		return
	}
	size := s.Out.DType.Size()
	some := Span{scratch.block(0), size, s.Out.DType}
	for slot, each := 0, Block/s.Width; slot < len(s.Rows); slot += each {
		rows := s.Rows[slot:min(slot+each, len(s.Rows))]
		storeRow(s.Type.gatherType, some, s.Sums[slot*s.Width:][:len(rows)*s.Width])
		for i, row := range rows {
			CopyRow(s.row(row), some.At(int64(i*s.Width)), int64(s.Width))
		}
	}
}
