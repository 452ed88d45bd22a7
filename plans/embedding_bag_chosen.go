package plans

import (
	"math"
	"unsafe"

	"github.com/isobit-ml/isobit/cpu"
	"github.com/isobit-ml/isobit/tensor"
)

// Bags of many indices, mode=max. Most positions were chosen for few columns or none: rather than to
// look for what was chosen at each of them, what was chosen is added to its row.

const (
	// chosenPerPosition is up to how many elements of y for each index this is faster, unless rows
	// have many chunks.
	chosenPerPosition = 4
	// rowsPerBag is up to how many rows for each bag sums apart take less time; narrow rows are more,
	// of so many sums.
	rowsPerBag = 4
	sumsPerBag = 128
	// chosenMost is how many bytes of sums there may be apart from the gradient.
	chosenMost = 64 << 20
)

// chosenSums is how this is done: its workspace are slots, by row; rows, by slot; and sums, counts and
// finished chunks, tile of columns after tile.
type chosenSums struct {
	*bagBackward
	columns       int64
	byChoice      bool  // is how rows are counted
	everyRow      bool  // that is named has a slot: sums are not of grad_weight's type
	slots, chunks int64 // there is room for; chunks of a tile
	perColumn     int64 // bytes of a slot's
	perChunk      int64
	addJob        job // a method value made once, so that running does not allocate
}

// newChosenSums returns nil where positions are better looked at.
func newChosenSums(e *bagBackward, dtype tensor.DType, columns int64) *chosenSums {
	hot := e.positions > cpu.ChunkSize*e.rows
	if oneByOne || e.mode != "max" || e.accumulate || e.count*columns > chosenPerPosition*e.positions && !hot ||
		e.rows > math.MaxInt32 || e.positions > math.MaxInt32 {
		return nil
	}
	s := &chosenSums{bagBackward: e, columns: columns, everyRow: dtype != e.compute}
	s.perColumn, s.perChunk = cpu.ChosenBytes(e.compute)
	named := e.positions
	if s.byChoice = 2*e.count*columns < named; s.byChoice {
		named = e.count * columns
	}
	switch {
	case s.everyRow:
		s.slots = min(e.rows, named)
	case e.count > cpu.ChunkSize: // else no element has more than a chunk
		s.slots = min(e.rows, named/(cpu.ChunkSize+1))
	}
	s.chunks = e.count * min(columns, columnTile) / cpu.ChunkSize
	s.addJob = chosenJob[float32](s)
	if e.compute == tensor.F64 {
		s.addJob = chosenJob[float64](s)
	}
	if s.slots*columns*s.perColumn > chosenMost || s.everyRow && s.slots > max(rowsPerBag, sumsPerBag/max(1, columns))*e.count {
		return nil
	}
	return s
}

// workspace returns the bytes of it.
func (s *chosenSums) workspace() int64 {
	if s.slots == 0 {
		return 0
	}
	return int32Bytes(s.rows) + s.slots*8 + ceilDiv(s.columns, columnTile)*s.tileBytes()
}

// tileBytes returns those of a tile of columns.
func (s *chosenSums) tileBytes() int64 {
	return roundUp(s.slots*min(s.columns, columnTile)*s.perColumn, 8) + s.chunks*s.perChunk
}

func (s *chosenSums) run(c *call) error {
	b, out := &c.rowSums, &c.args[5]
	b.rowSums = rowSums{terms: matrixOf(&c.args[0]), out: out}
	b.rows, b.columns, b.to = s.rows, s.columns, matrixOf(out)
	b.stream = out.NumElements()*out.DType.Size() >= streamFrom
	if s.slots > 0 {
		s.assign(c)
	}
	c.parallel(ceilDiv(s.rows, rowsPerJob(s.columns)), s.rows*s.columns, clearRows)
	c.parallel(ceilDiv(s.columns, columnTile), s.count*s.columns, s.addJob)
	return nil
}

// lists returns the slots by row, and room for the rows by slot.
func (s *chosenSums) lists(c *call) (slots []int32, rows []int64) {
	memory := words(c.workspace)
	slots = memory.int32s(s.rows)
	return slots, memory.ints(s.slots)
}

// assign gives slots to rows that may have more contributions than a chunk, or to all that have some.
func (s *chosenSums) assign(c *call) {
	b := s.bags(c)
	slots, rows := s.lists(c)
	clear(slots)
	used := 0
	if s.everyRow {
		s.eachNamed(c, func(named []int64) {
			for _, row := range named {
				if b.keeps(row) && slots[row] == 0 {
					rows[used], used = row, used+1
					slots[row] = int32(used)
				}
			}
		})
	} else {
		s.eachNamed(c, func(named []int64) {
			for _, row := range named {
				if b.keeps(row) {
					slots[row]++
				}
			}
		})
		for row, named := range slots {
			if slots[row] = 0; named > cpu.ChunkSize {
				rows[used], used = int64(row), used+1
				slots[row] = int32(used)
			}
		}
	}
	c.rowSums.order = rows[:used]
}

// eachNamed calls f with what names rows: all indices or those that were chosen, whichever are fewer.
func (s *chosenSums) eachNamed(c *call, f func(rows []int64)) {
	r := s.choices(c)
	var list [cpu.Block]int64
	if s.byChoice {
		for column := int64(0); column < s.columns; column += cpu.Block {
			begin := int64(0)
			for bag := range s.count {
				rows := list[:min(cpu.Block, s.columns-column)]
				end := r.end(bag)
				r.find(rows, begin, end, bag, column)
				f(rows)
				begin = end
			}
		}
		return
	}
	for at, end := int64(0), r.last(); at < end; {
		rows := r.some(list[:], at, end)
		f(rows)
		at += int64(len(rows))
	}
}

// clearRows is a job: some rows of zeros.
func clearRows(c *call, _ *worker, number int64) {
	b := &c.rowSums
	perJob := rowsPerJob(b.columns)
	first := number * perJob
	cpu.ClearRows(&b.to, first, min(perJob, b.rows-first), 0, b.columns, b.stream)
}

// chosenJob makes the job: some columns of every bag.
func chosenJob[C cpu.Compute](s *chosenSums) job {
	return func(c *call, w *worker, number int64) {
		r, b := s.choices(c), &c.rowSums
		column := number * columnTile
		width := min(columnTile, s.columns-column)
		sums := cpu.ChosenSums[C]{Out: b.to.Row(0, column), Apart: b.to.Strides[0], Width: int(width)}
		if s.slots > 0 {
			sums.Slots, _ = s.lists(c)
			sums.Rows = b.order
			memory := c.workspace[s.workspace()-(ceilDiv(s.columns, columnTile)-number)*s.tileBytes():]
			used, size := int64(len(sums.Rows))*width, int64(unsafe.Sizeof(C(0)))
			sums.Sums = valuesIn[C](memory, used)
			sums.Counts = valuesIn[uint16](memory[used*size:], used)
			if s.chunks > 0 { // else this is where the workspace may end
				memory = memory[s.tileBytes()-s.chunks*s.perChunk:]
				sums.Full = valuesIn[cpu.ChosenChunk[C]](memory, s.chunks)
			}
		}
		sums.Begin()
		var memory [columnTile]int64
		rows, dy := memory[:width], cpu.BlockOf[C](&w.scratch, 0, int(width))
		begin := int64(0)
		for bag := range s.count {
			end := r.end(bag)
			r.find(rows, begin, end, bag, column)
			begin = end
			cpu.Load(dy, b.terms.Row(bag, column))
			sums.Add(rows, dy)
		}
		sums.Finish(&w.scratch)
	}
}

// choices reads which rows elements were chosen from.
type choices struct {
	bags
	chosen cpu.Matrix
}

func (s *chosenSums) choices(c *call) choices {
	return choices{s.bags(c), matrixOf(&c.args[4])}
}

// find finds the rows that some columns of a bag, of the positions from begin to end, were chosen from: -1
// where the position is not the bag's, or where the index is left out.
func (r *choices) find(rows []int64, begin, end, bag, column int64) {
	chosen := unsafe.Add(r.chosen.P, bag*r.chosen.Strides[0]+column*r.chosen.Stride)
	for i := range rows {
		at, row := *(*int64)(unsafe.Add(chosen, int64(i)*r.chosen.Stride)), int64(-1)
		if at >= begin && at < end {
			row = r.index(at)
		}
		if !r.keeps(row) {
			row = -1
		}
		rows[i] = row
	}
}
