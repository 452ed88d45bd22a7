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
	fewInOrder = 512     // elements that follow one another with their parameters: fewer are worth copying in their order
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
	if inner < 2 || f.scale < 0 || f.varies(l, inner) || !f.varies(l, inner-1) || !f.varies(l, inner-2) || l.size[inner]*l.size[inner-1] >= fewInOrder {
		return false
	}
	before := c.all
	l.asStored(f.scale, kernelOperands)
	if f.layCopies(c) {
		if n := c.dense.dims; n == 1 || c.dense.size[n-1]*c.dense.size[n-2] >= fewInOrder {
			return true
		}
	}
	c.all = before
	return false
}

// layCopies finds the operands of a call that are to be copied, and lays out the elements with copies in their place
// (c.dense).
func (f *groupedPlan) layCopies(c *call) bool {
	l := &c.all
	inner := l.dims - 1
	if oneByOne || f.packed >= 0 || f.consecutive(l) == 0 || l.size[inner] >= shortCopy && !f.anyApart(l) {
		return false
	}
	dense := &c.copiesPieces().dense
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
