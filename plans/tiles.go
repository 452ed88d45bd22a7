package plans

import (
	"slices"
	"unsafe"

	"github.com/isobit-ml/isobit/cpu"
)

// Short groups: where parameters change after few elements that lie one after
// the other, a call of the kernel for each run would cost more than its work.
// One call takes a tile of consecutive elements, with a copy of the parameters for
// each. Where the same parameters serve later elements, they are prepared once.

// tiling divides a layout into cycles: elements that are consecutive in memory, after
// which the same parameters serve the next ones. For each of outer points a cycle comes
// repeat times. A tile has some columns of a cycle, or several cycles; a unit of work is
// the tiles that are taken with parameters prepared once.
type tiling struct {
	of                   *layout
	copied               bool  // pieces of the operands are copied first (copied_tiles.go)
	cycle, repeat, outer int64 // elements of a cycle, cycles of an outer point, outer points
	repeatDim            int   // the dimension that repeats cycles, or -1
	varying              int   // the innermost dimension along which parameters change
	run                  int64 // elements, one after the other, with the same parameters
	columns              int64 // elements of a cycle that one tile has
	copies               int64 // cycles that one tile has
	width, rows          int64 // of a unit: elements of a cycle, and cycles
	wide, high           int64 // units in a cycle, and along the repeats
	unitsPerJob          int64
}

// tilingElements is about how many elements a unit has: so many that preparing its
// parameters costs little beside them. fewerElements is the same for AVX2, whose kernels
// take some columns of all rows first (cpu/quick_columns.go): each row of a unit is on
// another page, and the processor's TLB has room for some hundreds.
const tilingElements, fewerElements = 1 << 20, 1 << 19

// tryTiles makes the tiling of a call's elements, in a layout, and reports whether their groups are short. If not, c.tiles
// stays as it was.
func (f *groupedPlan) tryTiles(c *call, l *layout) bool {
	var t tiling
	inner := l.dims - 1
	takesRuns := !f.varies(l, inner) && f.takesRuns(l, l.size[inner]) // a kernel's call has many groups then, too
	if oneByOne || f.packed >= 0 || takesRuns && !f.tooShort(l.size[inner]) && !shortSteps(l) {
		return false
	}
	first := f.consecutive(l)
	if !f.cycles(&t, l, first) || takesRuns && t.repeat == 1 {
		return false
	}
	most := int64(tilingElements)
	if f.isa == cpu.AVX2 {
		most = fewerElements
	}
	t.plan(t.repeatDim >= first, max(1, min(most, l.count()/c.parts(l.count(), 4))))
	c.tiles = t
	return true
}

// cycles finds the cycles of a layout whose elements lie one after the other from
// dimension first on. A cycle has the innermost dimensions, up to the outermost of those
// next to each other along which parameters change; the next dimension, where parameters
// do not change along it, repeats the cycle.
func (f *groupedPlan) cycles(t *tiling, l *layout, first int) bool {
	*t = tiling{of: l, cycle: 1, repeat: 1, repeatDim: -1, varying: -1, run: 1}
	d := l.dims - 1
	for ; d >= first && (t.varying < 0 || f.varies(l, d)); d-- {
		if t.varying < 0 && f.varies(l, d) {
			t.varying, t.run = d, t.cycle
		}
		t.cycle *= l.size[d]
	}
	if t.varying < 0 || t.run > cpu.TileRun {
		return false
	}
	if d >= 0 && !f.varies(l, d) {
		t.repeatDim, t.repeat = d, l.size[d]
	}
	t.outer = l.count() / (t.cycle * t.repeat)
	return true
}

// plan chooses the sizes of tiles and of units of work, of about most elements and whole tiles. Cycles that follow
// each other in memory may share a tile.
func (t *tiling) plan(joined bool, most int64) {
	t.columns, t.copies = min(t.cycle, cpu.TileSize), 1
	if joined && t.columns == t.cycle {
		t.copies = min(cpu.TileSize/t.cycle, t.repeat)
		if whole := 64 / min(64, t.cycle&-t.cycle); t.copies > whole {
			t.copies -= t.copies % whole // tiles begin alike among cache lines
		}
	}
	t.rows = roundUp(max(1, min(t.repeat, most/t.columns)), t.copies)
	t.width = roundUp(max(1, min(t.cycle, most/t.rows)), t.columns)
	t.wide, t.high = ceilDiv(t.cycle, t.width), ceilDiv(t.repeat, t.rows)
	t.unitsPerJob = max(1, most/max(1, min(t.width, t.cycle)*min(t.rows, t.repeat)))
}

const (
	leastRow    = 16 // elements of a call that follow one another: fewer are worth copying,
	leastOfTile = 64 // or of all of its rows, even across these
	fewSteps    = 8  // no longer ones are worth laying out copies
)

// narrow reports whether a call of the kernel would take so few elements, or so few consecutive ones, that
// it is faster to copy them first, in any order.
func (t *tiling) narrow() bool {
	return (t.row() < leastRow || t.call() < leastOfTile) && t.steps() > fewSteps
}

// longer reports whether tiles are so much longer than ones of few elements that it is faster to copy them.
func (t *tiling) longer(than *tiling) bool {
	return than.row() < leastRow && t.row() >= 2*than.row() || than.call() < fewInPiece && t.call() >= 2*than.call()
}

// row is how many elements of a call follow one another, and call all of them.
func (t *tiling) row() int64  { return t.columns * t.copies }
func (t *tiling) call() int64 { return t.columns * min(t.rows, t.repeat) }

// steps is how many times a call goes on elsewhere, in all calls.
func (t *tiling) steps() int64 {
	return t.outer * ceilDiv(t.repeat, t.copies) * ceilDiv(t.cycle, t.columns)
}

// jobs returns the number of jobs.
func (t *tiling) jobs() int64 { return ceilDiv(t.outer*t.high*t.wide, t.unitsPerJob) }

// varies reports whether parameters change along a dimension.
func (f *groupedPlan) varies(l *layout, d int) bool {
	for k := range kernelOperands {
		if f.param[k] && l.stride[k][d] != 0 {
			return true
		}
	}
	return false
}

// hasData reports whether operand k is present and neither a parameter nor packed codes, which have no strides in bytes,
// nor one number, which may be read anywhere.
func (f *groupedPlan) hasData(l *layout, k int) bool {
	return l.start[k] != nil && !f.param[k] && k != f.packed && !l.repeated[k]
}

// consecutive returns the outermost dimension from which on the elements of
// all data operands lie one after the other.
func (f *groupedPlan) consecutive(l *layout) int {
	first := 0
	for k := range kernelOperands {
		if !f.hasData(l, k) {
			continue
		}
		next, d := f.size[k], l.dims
		for ; d > first && l.stride[k][d-1] == next; d-- {
			next *= l.size[d-1]
		}
		first = d
	}
	return first
}

// tileJob makes the job of a kernel over a call's tiling.
func tileJob(f *groupedPlan, kernel cpu.Elementwise) job {
	return func(c *call, w *worker, number int64) {
		t := &c.tiles
		units := t.outer * t.high * t.wide
		for unit := number * t.unitsPerJob; unit < min(units, (number+1)*t.unitsPerJob); unit++ {
			row, column := unit/t.wide%t.high*t.rows, unit%t.wide*t.width
			start := (unit/(t.wide*t.high)*t.repeat + row) * t.cycle
			rows := min(t.rows, t.repeat-row)
			for stop := min(column+t.width, t.cycle); column < stop; column += t.columns {
				f.runTile(c, w, kernel, start+column, min(t.columns, stop-column), rows)
			}
		}
	}
}

// runTile runs a kernel on columns of a number of cycles.
func (f *groupedPlan) runTile(c *call, w *worker, kernel cpu.Elementwise, start, columns, rows int64) {
	t, a, cur := &c.tiles, f.arm(w), &w.cursors[ofElements]
	t.of.seek(cur, start, kernelOperands)
	f.prepare(c, w, start, columns, min(t.copies, rows))
	scale, zero := a.In[f.scale], a.In[f.scale+1]
	t.of.spans(a, cur)
	a.In[f.scale], a.In[f.scale+1] = scale, zero
	if t.copied {
		f.runCopiedTile(c, w, kernel, start, columns, rows)
		return
	}
	f.runRows(t, a, kernel, columns, rows, t.rowSteps())
}

// rowSteps are the bytes from cycle to cycle.
func (t *tiling) rowSteps() (step [kernelOperands]int64) {
	if t.repeatDim >= 0 {
		return t.of.steps(t.repeatDim)
	}
	return step
}

// runRows runs a kernel on rows that lie some bytes apart.
func (f *groupedPlan) runRows(t *tiling, a *cpu.Args, kernel cpu.Elementwise, columns, rows int64, step [kernelOperands]int64) {
	steps, rest := rows/t.copies, rows%t.copies
	a.Runs = cpu.Runs{}
	if steps > 1 {
		k := f.firstMoved(&step)
		a.Ahead = int(t.copies * step[k] * max(1, farAhead/max(1, columns*t.copies*f.size[k]))) // a row some steps later
		a.Runs = cpu.Runs{Steps: int(steps), Strands: 1}
		for k := range f.scale {
			a.Runs.Step[k] = t.copies * step[k]
		}
		for k := range a.Out {
			a.Runs.Step[len(a.In)+k] = t.copies * step[firstOutput+k]
		}
	}
	if steps > 0 {
		kernel(int(columns*t.copies), a)
	}
	if rest == 0 {
		return
	}
	a.Runs = cpu.Runs{}
	f.forward(a, rows-rest, step)
	kernel(int(columns*rest), a)
}

// forward moves the data operands a number of rows on.
func (f *groupedPlan) forward(a *cpu.Args, rows int64, step [kernelOperands]int64) {
	for k := range f.scale {
		a.In[k].P = further(a.In[k].P, rows*step[k])
	}
	for k := range a.Out {
		a.Out[k].P = further(a.Out[k].P, rows*step[firstOutput+k])
	}
}

// along returns the address that lies steps further along a dimension.
func (l *layout) along(p unsafe.Pointer, k, d int, steps int64) unsafe.Pointer {
	return further(p, steps*l.stride[k][d])
}

// further returns the address some bytes further, where there is one.
func further(p unsafe.Pointer, bytes int64) unsafe.Pointer {
	if p == nil {
		return nil
	}
	return unsafe.Add(p, bytes)
}

// prepare makes the parameters of consecutive elements, columns of a cycle from the start on, and as many copies of these as
// a tile has cycles.
func (f *groupedPlan) prepare(c *call, w *worker, start, columns, copies int64) {
	run := c.tiles.run
	first := start / run
	e := expansion{before: start - first*run, n: columns, run: run, copies: copies}
	e.count = ceilDiv(e.before+columns, run)
	for number := range resultSide {
		f.expandParam(w, number, f.paramsAt(c, w, number, first, e.count), e)
	}
}

// expandParams makes the parameters of groups of run elements along a dimension, from a cursor on.
func (f *groupedPlan) expandParams(w *worker, l *layout, cur *cursor, d int, groups, run int64) {
	for number := range resultSide {
		k := f.scale + number
		s := cpu.Span{P: cur.at[k], Stride: l.stride[k][d], DType: f.args.In[k].DType}
		f.expandParam(w, number, s, expandEach(groups, run))
	}
}

// expansion says how a count of parameters are repeated: each for a run of elements, of which there are n, and all of these
// some times. Of the first run, some elements come before the first one.
type expansion struct{ count, before, n, run, copies int64 }

// expandEach repeats a parameter of each group for its elements.
func expandEach(groups, n int64) expansion {
	return expansion{count: groups, n: groups * n, run: n, copies: 1}
}

// expandParam makes the scales, or with number 1 the zero points, of a call's elements.
func (f *groupedPlan) expandParam(w *worker, number int, s cpu.Span, e expansion) {
	a, tile, k := &w.args, &w.scratch.Tile, f.scale+number
	a.Ready = true
	if a.In[k] = s; number == 0 && e.run == 1 && e.copies == 1 && s.DType == f.compute && s.Contiguous() {
		return // where they are
	}
	runs, each := cpu.ParamRuns{Of: s, Count: 1, Run: 1}, s.Stride != 0
	if each {
		runs.At, runs.Count, runs.Run = int(-e.before), int(e.count), int(e.run)
	}
	tile.Add(a, number, runs, f.compute, &f.params)
	if each {
		tile.Repeat(number, int(e.n), int(e.copies), f.compute)
	}
	a.In[k] = tile.Span(number, each, f.compute)
}

// scaleIndex returns the operand that holds scales, or -1; zero points come after.
func (f *groupedPlan) scaleIndex() int { return slices.Index(f.param[:firstOutput], true) }
