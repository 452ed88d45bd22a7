package plans

import (
	"unsafe"

	"github.com/isobit-ml/isobit/cpu"
)

// Data operands whose elements are not contiguous, or in short runs, such as a cropped image, every
// second column or one number that is expanded. Pieces of them are copied one element after the other
// first, so that a kernel has long runs.

const (
	copySize   = 8192    // elements of a piece
	copiedSize = 1 << 18 // bytes of the largest one: of rows that are gathered across
	copiedPad  = 8       // elements between groups: groups a power of 2 apart would share sets of the cache
	shortCopy  = 128     // elements: shorter runs are worth copying
	fewInPiece = 512     // elements of a call: fewer are worth copying for a longer one
	copiedRows = copiedSize/8 + gatherGroups*copiedPad
)

// copying is what a call copies before it computes.
type copying struct {
	hasCopies   bool                    // some of these fields are in use
	*pieces                             // operands that are copied piece by piece
	compactions [maxCompact]*compaction // inputs that are copied as a whole
	compacting  *compaction             // the one that jobs are making
	repeated    [kernelOperands]bool    // data inputs that are one number
}

// pieces are how the pieces of operands are copied.
type pieces struct {
	sources sources // where they lie
	dense   layout  // all elements, with copies in the place of such operands
}

// copiesPieces notes that a call copies pieces.
func (p *copying) copiesPieces() *pieces {
	p.hasCopies = true
	return need(&p.pieces)
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
func (l *layout) only(of *layout, k int) { l.onlyFirst(of, k, of.dims) }

// onlyFirst is only of the first dimensions.
func (l *layout) onlyFirst(of *layout, k, dims int) {
	l.dims, l.packed, l.start[0] = dims, -1, of.start[k]
	copy(l.size[:], of.size[:dims])
	copy(l.stride[0][:], of.stride[k][:dims])
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

// follow has an operand's elements, copies of which have no place yet, follow one another a step apart.
func (l *layout) follow(k int, step int64) {
	l.start[k] = nil
	for d := l.dims - 1; d >= 0; d-- {
		l.stride[k][d] = step
		step *= l.size[d]
	}
}

// tryCopies lays out copies, and returns false where these would not pay. Elements may be tiles where they lie.
func (f *groupedPlan) tryCopies(c *call, tiled bool) bool {
	l, where, tiles := &c.all, c.all, c.tiles
	run, apart, short := l.size[l.dims-1], f.anyApart(l), tiled || f.shortCalls(l)
	if oneByOne || f.packed >= 0 || !short && (f.consecutive(l) == 0 || run >= shortCopy && !apart) {
		return false
	}
	f.orderCopies(c)
	if tiled && c.tiles.copied && !c.tiles.longer(&tiles) {
		*l, c.tiles = where, tiles
		return false
	}
	return short || c.tiles.copied || apart || c.dense.size[c.dense.dims-1] > run
}

// orderCopies lays out copies in the order of the output, or in that of the parameters where each run has its own, or where
// calls for narrow tiles get longer so.
func (f *groupedPlan) orderCopies(c *call) {
	if f.runEach(&c.all) {
		c.all.asStored(f.scale, kernelOperands)
	}
	f.layCopies(c)
	if !c.tiles.copied || !c.tiles.narrow() {
		return
	}
	all, tiles := c.all, c.tiles
	c.all.asStored(f.scale, kernelOperands)
	if f.layCopies(c); c.tiles.copied && !c.tiles.longer(&tiles) {
		c.all = all
		f.layCopies(c)
	}
}

// shortCalls reports whether runs where they lie are calls of so few elements that copies pay for longer ones.
func (f *groupedPlan) shortCalls(l *layout) bool {
	inner := l.dims - 1
	if f.scale < 0 || inner < 2 || f.varies(l, inner) {
		return false
	}
	n := l.size[inner] * l.size[inner-1]
	return n < fewInPiece && (f.varies(l, inner-2) || n*l.size[inner-2] < fewInPiece)
}

// runEach reports whether runs that are few to a call have parameters of their own each, as groups of 32 in the heads of
// attention have: copies in the order of these are in that of an input most often.
func (f *groupedPlan) runEach(l *layout) bool {
	if !f.shortCalls(l) || f.consecutive(l) == 0 {
		return false
	}
	for d := range l.dims {
		if f.varies(l, d) != (d < l.dims-1) {
			return false
		}
	}
	return true
}

// layCopies finds the operands of a call that are to be copied, and lays out the elements with copies in their place
// (c.dense).
func (f *groupedPlan) layCopies(c *call) {
	l, dense := &c.all, &c.copiesPieces().dense
	*dense = *l
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

// runPiece runs a kernel on a piece, whose elements follow one another in every operand: on all runs of it in a call.
func (f *groupedPlan) runPiece(c *call, w *worker, kernel cpu.Elementwise, begin, n int64) {
	f.copyPiece(c, w, begin, n, 0, copyInputs)
	a, l := f.arm(w), &c.dense
	run := l.size[l.dims-1]
	if a.Stream = a.Stream && c.sources[len(copiedOperands)-1].dims == 0; f.args.Stream {
		a.Ahead = farAhead
	}
	for done := int64(0); done < n; {
		at, m, runs := begin+done, n-done, int64(1)
		if within := at % run; within > 0 || m < run {
			m = min(m, run-within)
		} else {
			m, runs = run, m/run
		}
		if a.Runs = (cpu.Runs{}); runs > 1 {
			a.Runs = cpu.Runs{Steps: int(runs), Strands: 1}
		}
		for i, k := range copiedOperands {
			if f.param[k] {
				continue
			}
			s := f.dataSpan(a, k)
			s.P, s.Stride, a.Runs.Step[k] = l.start[k], s.DType.Size(), run*f.size[k]
			switch {
			case c.sources[i].dims > 0:
				s.P = unsafe.Add(w.copied.of(i), done*f.size[k])
			case f.hasData(l, k):
				s.P = unsafe.Add(s.P, at*f.size[k])
			default: // absent, or one number
				a.Runs.Step[k] = 0
			}
		}
		l.seek(&w.cursors[ofElements], at, kernelOperands)
		f.aimAtParams(c, w, at/run, runs)
		kernel(int(m), a)
		done += m * runs
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
