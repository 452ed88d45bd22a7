package plans

import (
	"unsafe"

	"github.com/isobit-ml/isobit/cpu"
	"github.com/isobit-ml/isobit/tensor"
)

// Data operands whose elements are not contiguous, or in short runs, such as a cropped image, every
// second column or one number that is expanded. Pieces of them are copied one element after the other
// first, so that a kernel has long runs.

const (
	copySize   = 8192    // elements of a piece
	copiedSize = 1 << 18 // bytes of the largest one: of rows that are gathered across
	copiedPad  = 8       // elements between groups: groups a power of 2 apart would share sets of the cache
	shortCopy  = 128     // elements: shorter runs are worth copying
	shortRow   = 16      // elements: rows of no more are copied column by column,
	acrossRow  = 64      // or of no more than this, where columns are nearer to each other than elements of a row
	nearLines  = 1 << 14 // bytes: of so many, rows are in the cache when the next lines of them are copied
	setStep    = 1024    // bytes: lines multiples of this apart share few sets of a cache,
	fewSets    = 512     // and as many as a short row has, those multiples of this
	lineSize   = 64      // bytes
	leastEach  = 32      // bytes: rows that are one number, of so many, are copied row by row
	copiedRows = copiedSize/8 + gatherGroups*copiedPad
)

// copying is what a call copies before it computes.
type copying struct {
	hasCopies   bool                   // some of these fields are in use
	sources     sources                // operands that are copied piece by piece
	dense       layout                 // all elements, with copies in the place of such operands
	compactions [maxCompact]compaction // inputs that are copied as a whole
	compacting  *compaction            // the one that jobs are making
	repeated    [kernelOperands]bool   // data inputs that are one number
}

// copied is a worker's memory for pieces of the data operands.
type copied [len(copiedOperands)][copiedRows]float64

// of is where a worker's piece of one of the operands lies.
func (c *copied) of(i int) unsafe.Pointer { return unsafe.Pointer(&c[i]) }

// copiedOperands are the data inputs and the data output of a kernel.
var copiedOperands = [...]int{0, 1, firstOutput}

// sources are the layouts of the operands that are copied, each by itself, so that the strides of the
// others do not cut its runs. One that is not copied has no dimensions.
type sources [len(copiedOperands)]layout

// only makes the layout of one operand of another layout.
func (l *layout) only(of *layout, k int) {
	l.dims, l.packed, l.size, l.start[0], l.stride[0] = of.dims, -1, of.size, of.start[k], of.stride[k]
	l.coalesce(1)
}

// copies is only of an operand, unless its elements lie one after the other: then none are copied.
func (l *layout) copies(of *layout, k int, size int64) {
	if l.only(of, k); l.dims == 1 && l.stride[0][0] == size {
		l.dims = 0
	}
}

// apart reports whether the elements of an operand's runs do not follow one another.
func (l *layout) apart(k int, size int64) bool {
	return l.size[l.dims-1] > 1 && l.stride[k][l.dims-1] != size
}

// copier copies elements of one size from an operand to a worker's memory or, of an output, back.
type copier struct {
	size      int64
	back      bool
	transpose cpu.Transpose
	strided   cpu.StridedCopy
	each      cpu.RepeatEach
}

// What a pass over the operands copies: inputs to the worker's memory, or the output back from there.
const copyInputs, copyOutput = false, true

func newCopier(d tensor.DType, back bool) copier {
	t := cpu.Types{In: cpu.InTypes{d}}
	return copier{d.Size(), back, pickSupport(cpu.Transposes, t), pickSupport(cpu.StridedCopies, t), pickSupport(cpu.RepeatsEach, t)}
}

// piece copies n points of a layout of one operand, from a number on: whole rows that follow one
// another together. The cursor's shift is added to where the first lies.
func (p *copier) piece(l *layout, cur *cursor, begin, n int64, own unsafe.Pointer) {
	inner := l.dims - 1
	if inner == 0 {
		l.seek(cur, begin, 1)
		p.run(own, cur.at[0], l.stride[0][0], n)
		return
	}
	line := l.size[inner]
	joined, joinedRow := joinedRows(l)
	for done := int64(0); done < n; {
		at, outer, row := begin+done, joined, joinedRow
		l.seek(cur, at, 1)
		mine := unsafe.Add(own, done*p.size)
		if at%row > 0 || n-done < row { // some lines of a row
			outer, row = inner-1, line
		}
		rows := min((n-done)/row, l.size[outer]-cur.index[outer])
		if at%row > 0 || rows == 0 { // a part of a line
			m := min(line-cur.index[inner], n-done)
			p.run(mine, cur.at[0], l.stride[0][inner], m)
			done += m
			continue
		}
		p.wholeRows(l, outer, row, rows, mine, cur.at[0])
		done += rows * row
	}
}

// joinedRows returns the dimension along which rows follow one another, and their length. Several short rows, such as
// those of a small image, count as one.
func joinedRows(l *layout) (outer int, row int64) {
	inner := l.dims - 1
	outer, row = inner-1, l.size[inner]
	for l.size[inner] <= shortRow && outer > 0 && row*l.size[outer] <= acrossRow {
		row *= l.size[outer]
		outer--
	}
	return outer, row
}

// wholeRows copies rows. Rows that lie side by side are transposed; short ones, and those whose elements are
// farther from each other than rows, are copied column by column.
func (p *copier) wholeRows(l *layout, outer int, row, rows int64, own, theirs unsafe.Pointer) {
	inner := l.dims - 1
	line, step, apart := l.size[inner], l.stride[0][inner], l.stride[0][outer]
	switch sideBySide := apart == p.size && step != p.size && step != 0 && row == line; {
	case step == p.size && apart != 0:
		p.lines(l, outer, row, rows, own, theirs)
	case step == 0 && row == line && row*p.size >= leastEach:
		p.each(own, theirs, apart, rows, row)
	case apart == 0:
		for at := int64(0); at < row; at += line {
			p.run(unsafe.Add(own, at*p.size), unsafe.Add(theirs, l.offsetWithin(outer, at)), step, line)
		}
		cpu.RepeatFirst(unsafe.Slice((*byte)(own), rows*row*p.size), int(row*p.size))
	case sideBySide:
		p.across(own, row*p.size, theirs, step, row, rows)
	case line <= shortRow || row <= acrossRow && max(apart, -apart) < max(step, -step):
		for c := range row {
			p.column(unsafe.Add(own, c*p.size), row*p.size, unsafe.Add(theirs, l.offsetWithin(outer, c)), apart, rows)
		}
	default:
		for r := range rows {
			p.run(unsafe.Add(own, r*row*p.size), unsafe.Add(theirs, r*apart), step, row)
		}
	}
}

// lines copies rows of contiguous lines: the first line of some rows, then the second.
func (p *copier) lines(l *layout, outer int, row, rows int64, own, theirs unsafe.Pointer) {
	line, apart := l.size[l.dims-1], l.stride[0][outer]
	near := max(1, nearLines/(row*p.size))
	for r := int64(0); r < rows; r += near {
		for at := int64(0); at < row; at += line {
			mine, its := unsafe.Add(own, (r*row+at)*p.size), unsafe.Add(theirs, r*apart+l.offsetWithin(outer, at))
			if p.back {
				cpu.CopyRows(its, apart, mine, row*p.size, line*p.size, min(near, rows-r))
			} else {
				cpu.CopyRows(mine, row*p.size, its, apart, line*p.size, min(near, rows-r))
			}
		}
	}
}

// across copies rows that lie side by side; in our memory they lie ownStep bytes apart. Rows, or elements of one, that
// are a power of 2 apart share sets of the cache, and long ones are more lines than it holds, so that it takes squares.
func (p *copier) across(own unsafe.Pointer, ownStep int64, theirs unsafe.Pointer, theirStep, row, rows int64) {
	high, wide := rows, row
	switch {
	case row <= acrossRow && (!p.back || theirStep%fewSets != 0):
	case p.back:
		high, wide = lineSize/p.size, 8
	case !p.back && ownStep%setStep == 0:
		high, wide = 8, 128
	}
	for at := int64(0); at < row; at += wide {
		for r := int64(0); r < rows; r += high {
			n, m := min(wide, row-at), min(high, rows-r)
			mine, its := unsafe.Add(own, r*ownStep+at*p.size), unsafe.Add(theirs, r*p.size+at*theirStep)
			if p.back {
				p.transpose(its, theirStep, mine, ownStep, m, n)
			} else {
				p.transpose(mine, ownStep, its, theirStep, n, m)
			}
		}
	}
}

// offsetWithin returns how many bytes of operand 0 lie from the first point of the dimensions inside outer to the
// one with a number.
func (l *layout) offsetWithin(outer int, number int64) (offset int64) {
	for d := l.dims - 1; d > outer; d-- {
		offset += number % l.size[d] * l.stride[0][d]
		number /= l.size[d]
	}
	return offset
}

// run copies n elements that lie a step apart.
func (p *copier) run(own, theirs unsafe.Pointer, step, n int64) {
	to, from := own, theirs
	if p.back {
		to, from = theirs, own
	}
	switch {
	case step == 0 && !p.back:
		p.each(own, theirs, 0, 1, n)
	case step == p.size:
		copy(unsafe.Slice((*byte)(to), n*p.size), unsafe.Slice((*byte)(from), n*p.size))
	default:
		p.column(own, p.size, theirs, step, n)
	}
}

// column copies n elements that lie theirStep apart, and ownStep in our memory.
func (p *copier) column(own unsafe.Pointer, ownStep int64, theirs unsafe.Pointer, theirStep, n int64) {
	if p.back {
		p.strided(theirs, theirStep, own, ownStep, n)
	} else {
		p.strided(own, ownStep, theirs, theirStep, n)
	}
}

// follow has an operand's elements, copies of which have no place yet, follow one another a step apart.
func (l *layout) follow(k int, step int64) {
	l.start[k] = nil
	for d := l.dims - 1; d >= 0; d-- {
		l.stride[k][d] = step
		step *= l.size[d]
	}
}

// tryCopies lays out copies, and returns false where these would not pay.
func (f *groupedPlan) tryCopies(c *call) bool {
	l := &c.all
	return f.layCopies(c) && (c.tiles.copied || f.anyApart(l) || c.dense.size[c.dense.dims-1] > l.size[l.dims-1])
}

// tryCopiesInOrder lays out copies of elements in the order of their parameters, where these lie in another order and few
// follow one another: such as groups of 32 in the heads of attention.
func (f *groupedPlan) tryCopiesInOrder(c *call) bool {
	l := &c.all
	inner := l.dims - 1
	if inner < 2 || f.scale < 0 || f.varies(l, inner) || !f.varies(l, inner-1) || !f.varies(l, inner-2) || l.size[inner]*l.size[inner-1] >= fewInRow {
		return false
	}
	before := c.all
	l.asStored(f.scale, kernelOperands)
	if dense := &c.dense; f.layCopies(c) && (dense.dims == 1 || dense.size[dense.dims-1]*dense.size[dense.dims-2] >= fewInRow) {
		return true
	}
	c.all = before
	return false
}

// layCopies finds the operands of a call that are to be copied, and lays out the elements with copies in their place
// (c.dense).
func (f *groupedPlan) layCopies(c *call) bool {
	l, dense := &c.all, &c.dense
	inner := l.dims - 1
	if oneByOne || f.packed >= 0 || f.consecutive(l) == 0 || l.size[inner] >= shortCopy && !f.anyApart(l) {
		return false
	}
	*dense, c.hasCopies = *l, true
	for i, k := range copiedOperands {
		from := &c.sources[i]
		from.dims = 0
		if !f.hasData(l, k) {
			continue
		}
		if from.copies(l, k, f.size[k]); from.dims > 0 {
			dense.follow(k, f.size[k])
		}
	}
	dense.coalesce(kernelOperands)
	c.tiles.copied = f.tryTiles(c, dense)
	return true
}

// anyApart reports whether the elements of a run are not contiguous in a data operand that can be copied.
func (f *groupedPlan) anyApart(l *layout) bool {
	for _, k := range copiedOperands {
		if f.hasData(l, k) && l.apart(k, f.size[k]) {
			return true
		}
	}
	return false
}

// copiedJob makes the job of a kernel that maps every element on its own, over pieces.
func copiedJob(f *groupedPlan, kernel cpu.Elementwise) job {
	return func(c *call, w *worker, number int64) {
		end, size := min((number+1)*c.perJob, c.all.count()), c.pieceSize()
		for at := number * c.perJob; at < end; at += size {
			f.runPiece(c, w, kernel, at, min(size, end-at))
		}
	}
}

// pieceSize returns how many elements a piece has: whole runs, unless these are longer.
func (p *copying) pieceSize() int64 {
	if run := p.dense.size[p.dense.dims-1]; run < copySize {
		return copySize / run * run
	}
	return copySize
}

// runPiece runs a kernel on a piece, on as many runs of it as it can at a time.
func (f *groupedPlan) runPiece(c *call, w *worker, kernel cpu.Elementwise, begin, n int64) {
	f.copyPiece(c, w, begin, n, 0, copyInputs)
	a, cur, l := f.arm(w), &w.cursors[ofElements], &c.dense
	inner := l.dims - 1
	if a.Stream = a.Stream && c.sources[len(copiedOperands)-1].dims == 0; f.args.Stream {
		a.Ahead = farAhead
	}
	for done := int64(0); done < n; {
		l.seek(cur, begin+done, kernelOperands)
		run, steps := min(l.size[inner]-cur.index[inner], n-done), int64(1)
		if inner > 0 && run == l.size[inner] {
			steps = min((n-done)/run, l.size[inner-1]-cur.index[inner-1])
			a.Runs = cpu.Runs{Steps: int(steps), Strands: 1, Step: l.steps(inner - 1)}
		} else {
			a.Runs = cpu.Runs{}
		}
		l.spans(a, cur)
		for i, k := range copiedOperands {
			if c.sources[i].dims > 0 {
				f.dataSpan(a, k).P = unsafe.Add(w.copied.of(i), done*f.size[k])
			}
		}
		kernel(int(run), a)
		done += run * steps
	}
	f.copyPiece(c, w, begin, n, 0, copyOutput)
}

// copyPiece copies n elements, from the number begin on, to element at of a worker's memory or, of the output, back.
func (f *groupedPlan) copyPiece(c *call, w *worker, begin, n, at int64, back bool) {
	for i := range copiedOperands {
		if from := &c.sources[i]; from.dims > 0 && f.copier[i].back == back {
			w.cursors[ofCopies].shift[0] = 0
			own := unsafe.Add(w.copied.of(i), at*f.copier[i].size)
			f.copier[i].piece(from, &w.cursors[ofCopies], begin, n, own)
		}
	}
}

// dataSpan is one of the data operands among a kernel's arguments.
func (f *groupedPlan) dataSpan(a *cpu.Args, k int) *cpu.Span {
	if k < firstOutput {
		return &a.In[k]
	}
	return &a.Out[k-firstOutput]
}
