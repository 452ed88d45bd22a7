package plans

import "github.com/isobit-ml/isobit/cpu"

// Short groups of elements that lie apart: a tile's rows are copied one after the other first, as
// many at a time as a worker has memory for, and take the parameters that were prepared once.

// runCopiedTile is runTile where operands are copied, from its prepared arguments on.
func (f *groupedPlan) runCopiedTile(c *call, w *worker, kernel cpu.Elementwise, start, columns, rows int64) {
	t, a := &c.tiles, &w.args
	step := t.rowSteps()
	for i, k := range copiedOperands {
		if c.sources[i].dims > 0 {
			step[k] = columns * f.size[k]
		}
	}
	a.Stream = a.Stream && c.sources[len(copiedOperands)-1].dims == 0
	first := *a
	most := max(1, copySize/(columns*t.copies)) * t.copies
	for row := int64(0); row < rows; row += most {
		n := min(most, rows-row)
		f.copyRows(c, w, start+row*t.cycle, columns, n, copyInputs)
		*a = first
		f.forward(a, row, step)
		for i, k := range copiedOperands {
			if c.sources[i].dims > 0 {
				f.dataSpan(a, k).P = w.copied.of(i)
			}
		}
		f.runRows(t, a, kernel, columns, n, step)
		f.copyRows(c, w, start+row*t.cycle, columns, n, copyOutput)
	}
}

// copyRows copies columns of cycles to or from a worker's memory.
func (f *groupedPlan) copyRows(c *call, w *worker, start, columns, rows int64, back bool) {
	cycle := c.tiles.cycle
	if columns == cycle {
		f.copyPiece(c, w, start, columns*rows, 0, back)
		return
	}
	for row := range rows {
		f.copyPiece(c, w, start+row*cycle, columns, row*columns, back)
	}
}
