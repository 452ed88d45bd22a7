package plans

import (
	"unsafe"

	"github.com/isobit-ml/isobit/cpu"
	"github.com/isobit-ml/isobit/tensor"
)

// mapping is how a call maps elements.
type mapping struct {
	all          layout // all elements but those in strands
	strands      strands
	perJob       int64        // elements of one job
	tiles        tiling       // of short groups
	packedGroups packedGroups // of groups of packed codes
	transposed   transposed   // of inputs that lie across the output
}

// layoutOf lays out the dimensions of a region that keep selects, over the
// operands of a call.
func (f *groupedPlan) layoutOf(c *call, l *layout, r *region, operands int, keep func(d *regionDim) bool) {
	l.dims, l.packed, l.repeated = 0, f.packed, c.repeated
	var dims [maxDims]*regionDim
	for d := range r.dims {
		if dim := &r.dims[d]; keep(dim) {
			dims[l.dims], l.size[l.dims], l.nibbles[l.dims] = dim, dim.size, f.nibblesOf(c, dim)
			l.dims++
		}
	}
	for k := range operands {
		l.start[k] = nil
		strides := l.stride[k][:l.dims]
		i := f.operand[k]
		if i < 0 || !c.args[i].Present() {
			clear(strides)
			continue
		}
		v := &c.args[i]
		if k == f.packed {
			l.start[k], l.first, l.packedType = v.Data, f.firstNibble(c, r), c.problem.types[i]
			clear(strides)
			continue
		}
		size := f.size[k]
		if l.start[k] = f.address(c, k); r != &f.regions[0] { // the first region begins with the first element
			l.start[k] = unsafe.Add(l.start[k], f.originOf(v, r, k)*size)
		}
		for d, dim := range dims[:l.dims] {
			switch {
			case !f.param[k]:
				strides[d] = dim.step * v.Stride(dim.axis) * size
			case dim.group && dim.paramDim >= 0:
				strides[d] = v.Stride(dim.paramDim) * size
			default:
				strides[d] = 0
			}
		}
	}
	l.coalesce(operands)
}

// originOf returns the offset in elements of a region's first element.
func (f *groupedPlan) originOf(v *tensor.View, r *region, k int) (offset int64) {
	for axis := range f.shape {
		switch {
		case !f.param[k]:
			offset += r.origin[axis] * v.Stride(axis)
		case f.paramDim[axis] >= 0:
			offset += r.paramOrigin[axis] * v.Stride(f.paramDim[axis])
		}
	}
	return offset
}

func everyDim(*regionDim) bool     { return true }
func groupDims(d *regionDim) bool  { return d.group }
func memberDims(d *regionDim) bool { return !d.group }

// jobSize is the number of elements of one job of an op that reads and writes each
// element once: enough to pay for handing the job out, few enough to balance threads.
const jobSize = 1 << 15

// mapJob makes the job of a kernel that maps every element on its own.
func mapJob(f *groupedPlan, kernel cpu.Elementwise) job {
	strands := strandJob(f, kernel)
	return func(c *call, w *worker, number int64) {
		if number < c.strands.jobs {
			strands(c, w, number)
			return
		}
		a, cur, l := f.arm(w), &w.cursors[ofElements], &c.all
		begin := (number - c.strands.jobs) * c.perJob
		l.walk(cur, begin, min(begin+c.perJob, l.count()), kernelOperands, func(n int64) {
			l.spans(a, cur)
			if c.takesNotes() && n == l.count() {
				f.noteKernel(c, int(n), a)
			}
			f.feed(w, l, cur, n, func(n int64, a *cpu.Args) { kernel(int(n), a) })
		})
	}
}

// The ways to map elements, by how elements lie: see the tables in DESIGN.md.
const (
	inTiles = iota
	inTransposedTiles
	inCopiedTiles
	inCopies
	inPackedGroups
	inRuns
	mapWays
)

// mapJobs are the jobs of a kernel that maps every element on its own, one for each way.
type mapJobs struct {
	ways   [mapWays]job
	kernel cpu.Elementwise
}

func newMapJobs(f *groupedPlan, kernel cpu.Elementwise) mapJobs {
	tiles := tileJob(f, kernel)
	return mapJobs{kernel: kernel, ways: [mapWays]job{
		inTiles: tiles, inTransposedTiles: transposedJob(f, kernel), inCopiedTiles: tiles, inCopies: copiedJob(f, kernel),
		inPackedGroups: packedGroupsJob(f, kernel), inRuns: mapJob(f, kernel),
	}}
}

// elementwise builds a plan whose kernel maps every element on its own.
func elementwise(table []cpu.Row[cpu.Elementwise]) func(pl *plan, f *groupedPlan, t cpu.Types) error {
	return func(pl *plan, f *groupedPlan, t cpu.Types) error {
		kernel, err := selectRow(pl, table, t)
		if err == nil {
			pl.run = runElementwise(pl, f, kernel)
		}
		return err
	}
}

// runElementwise makes the run of an op that maps every element on its own.
func runElementwise(pl *plan, f *groupedPlan, kernel cpu.Elementwise) func(c *call) error {
	jobs := newMapJobs(f, kernel)
	run := func(c *call) error {
		for i := range f.regions {
			f.mapRegion(c, &f.regions[i], &jobs)
		}
		return nil
	}
	if f.packed >= 0 {
		return f.inBytes(pl, kernel, run)
	}
	return run
}

// mapRegion maps the elements of a region the best way.
func (f *groupedPlan) mapRegion(c *call, r *region, of *mapJobs) {
	if s := &c.seen; s.again {
		if s.elements > 0 && beforeJob == nil {
			f.callAgain(c, of.kernel)
			return
		}
		f.putStarts(c, &c.all, kernelOperands)
		if s.twice {
			f.laySidesOf(c, s.way)
		} else {
			f.putSides(c)
		}
		c.parallel(s.jobs, s.cost, of.ways[s.way])
		return
	}
	f.layoutOf(c, &need(&c.mapping).all, r, kernelOperands, everyDim)
	n := c.all.count()
	if n == 0 {
		return
	}
	way, jobs := f.chooseWay(c, r)
	f.laySidesOf(c, way)
	if way == inTiles || way == inRuns { // no copies to make again
		c.noteWay(way, jobs, n)
	}
	c.parallel(jobs, n, of.ways[way])
}

// laySidesOf lays out the sides of what a call of one way takes.
func (f *groupedPlan) laySidesOf(c *call, way int) {
	switch way {
	case inTiles, inCopiedTiles:
		f.laySides(c, c.tiles.of, c.tiles.varying+1)
	case inCopies:
		f.laySides(c, &c.dense, c.dense.dims-1)
	}
}

// chooseWay lays out a region and returns the best way for it, and how many jobs that makes. Functions whose names begin
// with try lay elements out for one way, and return 0 or false where these lie otherwise.
func (f *groupedPlan) chooseWay(c *call, r *region) (way int, jobs int64) {
	if f.packed < 0 {
		c.all.asStored(firstOutput, kernelOperands)
	}
	tiled := f.tryTiles(c, &c.all)
	if t := &c.tiles; tiled && (t.row() >= leastRow && t.call() >= min(fewInPiece, c.all.count()) || t.steps() <= fewSteps) {
		return inTiles, t.jobs()
	}
	if jobs := f.tryTransposed(c); jobs > 0 {
		return inTransposedTiles, jobs
	}
	if f.tryCopies(c, tiled) {
		if c.tiles.copied {
			return inCopiedTiles, c.tiles.jobs()
		}
		c.perJob = jobSize / copySize * c.pieceSize()
		return inCopies, ceilDiv(c.all.count(), c.perJob)
	}
	if tiled {
		return inTiles, c.tiles.jobs()
	}
	if jobs := f.tryPackedGroups(c); jobs > 0 {
		return inPackedGroups, jobs
	}
	return inRuns, f.layRuns(c, r)
}

// layRuns divides a call's elements into jobs of runs, some of them in strands, and returns the number of jobs.
func (f *groupedPlan) layRuns(c *call, r *region) int64 {
	rest := f.tryStrands(c)
	c.perJob = jobSize
	if f.packed >= 0 {
		// Whole rows, so that no two jobs share a byte.
		row := r.rowLength(len(f.shape) - 1)
		c.perJob = row * max(1, jobSize/max(1, row))
	}
	return c.strands.jobs + ceilDiv(rest, c.perJob)
}
