package plans

import (
	"unsafe"

	"github.com/isobit-ml/isobit/cpu"
	"github.com/isobit-ml/isobit/tensor"
)

// Bags of many indices, mode=max. Most positions were chosen for few columns or none: rather than to
// look for what was chosen at each of them, what was chosen is added to its row. That is where no
// element has a second chunk, for want of bags, or because no row is named more than cpu.ChunkSize times.

// chosenPerPosition is up to how many elements of y for each index this is faster.
const chosenPerPosition = 4

func (e *bagBackward) addsChosen(dtype tensor.DType, columns int64) bool {
	return !oneByOne && e.mode == "max" && !e.accumulate && dtype == e.compute && e.count*columns <= chosenPerPosition*e.positions
}

func (e *bagBackward) runChosen(c *call) error {
	b, out := &c.rowSums, &c.args[5]
	rows, columns := out.Shape[0], out.Shape[1]
	if rows == 0 || columns == 0 {
		return nil
	}
	b.rowSums = rowSums{terms: matrixOf(&c.args[0]), out: out}
	b.rows, b.columns, b.to = rows, columns, matrixOf(out)
	b.stream = out.NumElements()*out.DType.Size() >= streamFrom
	c.parallel(ceilDiv(rows, rowsPerJob(columns)), rows*columns, clearRows)
	c.parallel(ceilDiv(columns, columnTile), e.count*columns, e.addJob)
	return nil
}

// clearRows is a job: some rows of zeros.
func clearRows(c *call, _ *worker, number int64) {
	b := &c.rowSums
	perJob := rowsPerJob(b.columns)
	first := number * perJob
	cpu.ClearRows(&b.to, first, min(perJob, b.rows-first), 0, b.columns, b.stream)
}

// chosenJob is a job: some columns of every bag.
func (e *bagBackward) chosenJob(c *call, _ *worker, number int64) {
	bags, sums := e.bags(c), &c.rowSums
	column := number * columnTile
	var memory [columnTile]int64
	rows := memory[:min(columnTile, sums.columns-column)]
	for bag := range e.count {
		begin, end := bags.of(bag)
		bags.rowsOf(rows, rowAt(&c.args[4], bag).At(column), begin, end)
		e.addChosen(sums.to.Row(0, column), sums.to.Strides[0], rows, sums.terms.Row(bag, column))
	}
}

// rowsOf finds the rows that indices at some positions name: -1 where the position is not the bag's,
// or where the index is left out.
func (b *bags) rowsOf(rows []int64, positions cpu.Span, begin, end int64) {
	var known []int64 // indices that need no look at strides and types
	if b.indices.DType == tensor.I64 && b.indices.IsContiguous() {
		known = tensor.Slice[int64](*b.indices)
	}
	for i := range rows {
		at := *(*int64)(unsafe.Add(positions.P, int64(i)*positions.Stride))
		if at < begin || at >= end {
			rows[i] = -1
			continue
		}
		if known != nil {
			rows[i] = known[at]
		} else {
			rows[i] = indexAt(b.indices, at)
		}
		if !b.keeps(rows[i]) {
			rows[i] = -1
		}
	}
}
