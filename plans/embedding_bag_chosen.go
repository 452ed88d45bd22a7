package plans

import (
	"math"
	"unsafe"

	"github.com/isobit-ml/isobit/cpu"
	"github.com/isobit-ml/isobit/tensor"
)

// Bags of many indices, mode=max. Few positions were chosen for any column. So the choices are gone
// through, each of which adds an element of grad_output to the row that it came from, rather than the
// positions.

// Bounds of where this is faster, measured.
const (
	chosenPerPosition  = 4        // choices for each position, at most
	latePerPosition    = 3        // likewise, of more than lateColumns columns of 16 bits, where slots are given late
	lateColumns        = 32       // see latePerPosition
	largeTable         = 8        // rows for each position, from which on there may be more choices:
	largePerPosition   = 10       // for each position, of f32 and f64,
	lateLarge          = 5        // and of 16 bits, where slots are given late
	manyPerRow         = 6        // positions for each row, from which on there may be more choices of 16 bits
	chosenMost         = 64 << 20 // bytes of sums, or of counts, apart from the gradient
	countedPerPosition = 32       // elements of the gradient for each position, where all are counted
	choiceCost         = 4        // a choice takes as long to read as so many positions,
	addCost            = 16       // and, with its addition, as so many elements of a streaming op
	chosenTile         = 32       // columns of a job, at least: two lines of f32
)

// nameCounts is how many counters tell whether a row may be named often: rows share them by the last
// bits of their numbers.
const nameCounts = 1 << 13

// chosenSums is how one problem runs. Sums lie in the gradient itself, where they can. The others have
// slots, memory apart with counts of their terms, for a row each.
//
// The workspace has the counters of names, the slot of each row and the row of each slot; then, column
// after column, the slots' sums and counts; then likewise the finished chunks. With counted, it has instead the
// count of every element's terms and the finished chunks.
type chosenSums struct {
	*bagBackward
	columns   int64
	byChoice  bool  // how often rows are named is counted by the choices, not by the positions
	direct    int32 // a row that is named no more often needs no slot
	crowded   bool  // some rows are taken to be named more often than a chunk has terms
	counted   int64 // elements that have counts: all, in one tile, so that no row needs a slot; or 0
	late      bool  // a row gets its slot when an element of it has a second term; in one tile
	slots     int64 // how many there is room for
	perColumn int64 // bytes of a column of a slot
	perChunk  int64 // bytes
	rowType   cpu.RowType
	addJob    job // a method value made once, so that running does not allocate
}

// newChosenSums returns nil where it is faster to go through the positions.
func newChosenSums(e *bagBackward, dtype tensor.DType, columns int64) *chosenSums {
	choices, hot := e.count*columns, e.positions > cpu.ChunkSize*e.rows
	if oneByOne || e.mode != "max" || e.accumulate || max(e.rows, e.positions) > math.MaxInt32 {
		return nil
	}
	s := &chosenSums{bagBackward: e, columns: columns, byChoice: choiceCost*choices < e.positions}
	named := e.positions
	if s.byChoice {
		named = choices
	}
	s.crowded = named > cpu.ChunkSize/4*e.rows
	s.setApart(dtype, named)
	s.rowType = pickSupport(cpu.RowTypes, typesOf(dtype))
	s.addJob = cpu.ForCompute(e.compute, chosenJob[float32], chosenJob[float64])(s)
	if choices > s.mostChoices(dtype) && !hot || s.slots*columns*s.perColumn > chosenMost {
		return nil
	}
	return s
}

// mostChoices returns of how many choices this is faster. Where a row of 16 bits has a slot from the start, it is
// stored again from there, which takes long where rows are many.
func (s *chosenSums) mostChoices(dtype tensor.DType) int64 {
	switch large := s.rows >= largeTable*s.positions; {
	case s.columns < pickSupport(cpu.LeastOfMax, typesOf(dtype)): // positions have no kernel
		return math.MaxInt64
	case dtype != s.compute && !s.late && s.positions >= manyPerRow*s.rows:
		return s.positions
	case dtype != s.compute && !s.late:
		return s.positions / 3
	case large && s.late:
		return lateLarge * s.positions
	case large:
		return largePerPosition * s.positions
	case s.late && s.columns > lateColumns:
		return latePerPosition * s.positions
	}
	return chosenPerPosition * s.positions
}

// setApart decides what lies apart from the gradient, which has the given type: counts of all its elements, or
// slots for as many rows as may need one.
func (s *chosenSums) setApart(dtype tensor.DType, named int64) {
	s.perColumn, s.perChunk = cpu.ChosenBytes(s.compute)
	s.perChunk = roundUp(s.perChunk, WorkspaceAlignment) // on 32 bits 12 bytes
	s.direct = cpu.ChunkSize
	if dtype != s.compute {
		s.direct, s.late = 1, named < s.rows && s.columns <= columnTile
	}
	elements := s.rows * s.columns
	counts := dtype == s.compute && s.columns <= columnTile && s.count*s.columns <= s.positions &&
		elements <= min(countedPerPosition*s.positions, chosenMost)
	switch {
	case s.count <= int64(s.direct): // no element has more terms
	case counts:
		s.counted = elements
	default:
		s.slots = min(s.rows, named/int64(s.direct+1))
	}
}

// workspace returns the bytes that it takes.
func (s *chosenSums) workspace() int64 {
	switch {
	case s.counted > 0:
		return roundUp(s.counted, 8) + s.chunksBefore(s.columns)*s.perChunk
	case s.slots == 0:
		return 0
	}
	return nameCounts*2 + int32Bytes(s.rows) + s.slots*8 + s.sumBytes() + s.chunksBefore(s.columns)*s.perChunk
}

// sumBytes returns the bytes of the slots' sums and counts.
func (s *chosenSums) sumBytes() int64 { return roundUp(s.slots*s.columns*s.perColumn, 8) }

// chunksBefore returns how many chunks there is room for in the columns before one.
func (s *chosenSums) chunksBefore(column int64) int64 { return s.count * column / cpu.ChunkSize }

func (s *chosenSums) run(c *call) error {
	b, out := need(&c.rowSums), &c.args[bagGradWeight]
	c.clearOutput(out)
	b.rowSums, b.to = rowSums{terms: matrixOf(&c.args[bagRows]), out: out}, matrixOf(out)
	b.late = false
	switch {
	case s.slots == 0:
	case !s.late && s.direct == 1 || s.crowded || s.mayHaveChunks(c):
		s.assign(c)
	case s.late:
		_, slots, rows := s.lists(c)
		clear(slots)
		b.late, b.order = true, rows
	}
	cost := addCost * s.count * s.columns
	if b.width = columnTile; !s.late && s.counted == 0 {
		workers := int64(c.workers(ceilDiv(s.columns, chosenTile), cost))
		b.width = min(columnTile, roundUp(ceilDiv(s.columns, workers), chosenTile))
	}
	c.parallel(ceilDiv(s.columns, b.width), cost, s.addJob)
	return nil
}

// lists returns the counts of names, the slots by row, and room for the rows by slot.
func (s *chosenSums) lists(c *call) (counts *[nameCounts]uint16, slots []int32, rows []int64) {
	memory := words(c.workspace)
	counts = (*[nameCounts]uint16)(valuesIn[uint16](memory, nameCounts))
	memory = memory[nameCounts*2:]
	slots = memory.int32s(s.rows)
	return counts, slots, memory.ints(s.slots)
}

// chosenJob makes the job of some columns, of every bag.
func chosenJob[C cpu.Compute](s *chosenSums) job {
	return func(c *call, w *worker, number int64) {
		r, b := s.choices(c), c.rowSums
		column := number * b.width
		width := min(b.width, s.columns-column)
		sums := cpu.ChosenSums[C]{Out: b.to.Row(0, column), Apart: b.to.Strides[0], Width: int(width), Type: s.rowType}
		memory := c.workspace[:s.workspace()]
		switch chunks := s.chunksBefore(column+width) - s.chunksBefore(column); {
		case s.counted > 0:
			sums.Seen = memory[:s.counted]
			sums.Full = valuesIn[cpu.ChosenChunk[C]](memory[roundUp(s.counted, 8):], chunks)
		case len(b.order) > 0:
			_, sums.Slots, _ = s.lists(c)
			sums.Rows, sums.Late = b.order, b.late
			begin := s.workspace() - s.chunksBefore(s.columns)*s.perChunk
			if chunks > 0 { // else this is where the workspace may end
				sums.Full = valuesIn[cpu.ChosenChunk[C]](memory[begin+s.chunksBefore(column)*s.perChunk:], chunks)
			}
			memory = memory[begin-s.sumBytes()+column*s.slots*s.perColumn:]
			used, size := int64(len(sums.Rows))*width, int64(unsafe.Sizeof(C(0)))
			sums.Sums = valuesIn[C](memory, used)
			sums.Counts = valuesIn[uint16](memory[used*size:], used)
		}
		sums.Begin()
		var list [columnTile]int64
		rows := list[:width]
		begin := int64(0)
		for bag := range s.count {
			end := r.end(bag)
			r.find(rows, begin, end, bag, column)
			begin = end
			sums.Add(rows, b.terms.Row(bag, column), &w.scratch)
		}
		sums.Finish(&w.scratch)
	}
}
