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
	chosenMost         = 64 << 20 // bytes of sums, or of counts, apart from the gradient
	countedPerPosition = 32       // elements of the gradient for each position, where all are counted
	choiceCost         = 4        // a choice takes as long to read as so many positions
)

// nameCounts is how many counters tell whether a row may be named often: rows share them by the last
// bits of their numbers.
const nameCounts = 1 << 13

// chosenSums is how one problem runs. Sums lie in the gradient itself, where they can. The others have
// slots, memory apart with counts of their terms, for a row each.
//
// The workspace has the counters of names, the slot of each row and the row of each slot; then for each
// tile of columns the slots' sums and counts, and the finished chunks. With counted, it has instead the
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
	chunks    int64 // and chunks of a tile
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
	s.chunks = e.count * min(columns, columnTile) / cpu.ChunkSize
	s.rowType = pickSupport(cpu.RowTypes, typesOf(dtype))
	s.addJob = cpu.ForCompute(e.compute, chosenJob[float32], chosenJob[float64])(s)
	if choices > s.mostChoices(dtype) && !hot || s.slots*columns*s.perColumn > chosenMost {
		return nil
	}
	return s
}

// mostChoices returns of how many choices this is faster. Where a row of 16 bits has a slot from the start, it is
// stored again from there.
func (s *chosenSums) mostChoices(dtype tensor.DType) int64 {
	switch large := s.rows >= largeTable*s.positions; {
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
		return roundUp(s.counted, 8) + s.chunks*s.perChunk
	case s.slots == 0:
		return 0
	}
	return nameCounts*2 + int32Bytes(s.rows) + s.slots*8 + ceilDiv(s.columns, columnTile)*s.tileBytes()
}

// tileBytes returns the bytes that a tile of columns takes.
func (s *chosenSums) tileBytes() int64 {
	return roundUp(s.slots*min(s.columns, columnTile)*s.perColumn, 8) + s.chunks*s.perChunk
}

func (s *chosenSums) run(c *call) error {
	b, out := &c.rowSums, &c.args[bagGradWeight]
	c.clearRows(out)
	b.rowSums = rowSums{terms: matrixOf(&c.args[bagRows]), out: out}
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
	c.parallel(ceilDiv(s.columns, columnTile), s.count*s.columns, s.addJob)
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
		r, b := s.choices(c), &c.rowSums
		column := number * columnTile
		width := min(columnTile, s.columns-column)
		sums := cpu.ChosenSums[C]{Out: b.to.Row(0, column), Apart: b.to.Strides[0], Width: int(width), Type: s.rowType}
		if len(b.order) > 0 {
			_, sums.Slots, _ = s.lists(c)
			sums.Rows, sums.Late = b.order, b.late
			memory := c.workspace[s.workspace()-(ceilDiv(s.columns, columnTile)-number)*s.tileBytes():]
			used, size := int64(len(sums.Rows))*width, int64(unsafe.Sizeof(C(0)))
			sums.Sums = valuesIn[C](memory, used)
			sums.Counts = valuesIn[uint16](memory[used*size:], used)
			if s.chunks > 0 { // else this is where the workspace may end
				memory = memory[s.tileBytes()-s.chunks*s.perChunk:]
				sums.Full = valuesIn[cpu.ChosenChunk[C]](memory, s.chunks)
			}
		}
		if s.counted > 0 {
			memory := c.workspace[:s.workspace()]
			sums.Seen = memory[:s.counted]
			sums.Full = valuesIn[cpu.ChosenChunk[C]](memory[roundUp(s.counted, 8):], s.chunks)
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
