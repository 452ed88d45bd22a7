package plans

import (
	"unsafe"

	"github.com/isobit-ml/isobit/cpu"
	"github.com/isobit-ml/isobit/tensor"
)

// layoutOf lays out the dimensions of a region that keep selects, over the
// operands of a call.
func (f *groupedPlan) layoutOf(c *call, l *layout, r *region, operands int, keep func(d *regionDim) bool) {
	l.dims, l.packed = 0, f.packed
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
		if l.start[k] = v.Data; r != &f.regions[0] { // which begins with the first elements
			l.start[k] = unsafe.Add(v.Data, f.originOf(v, r, k)*size)
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

// jobSize is the number of elements of one job of a streaming op: enough to
// pay for handing it out, few enough to balance threads.
const jobSize = 1 << 15

// mapJob makes the job of a kernel that maps every element on its own.
func mapJob(f *groupedPlan, kernel cpu.Elementwise) job {
	strands := strandJob(f, kernel)
	return func(c *call, w *worker, number int64) {
		if number < c.strands.jobs {
			strands(c, w, number)
			return
		}
		a, cur, l := f.arm(w), &w.cursors[0], &c.all
		begin := (number - c.strands.jobs) * c.perJob
		l.walk(cur, begin, min(begin+c.perJob, l.count()), kernelOperands, func(n int64) {
			l.spans(a, cur)
			if c.keeps() && n == l.count() {
				c.seen.calls(int(n), a)
			}
			f.feed(w, l, cur, n, func(n int64, a *cpu.Args) { kernel(int(n), a) })
		})
	}
}

// mapJobs are the jobs of a kernel that maps every element on its own: over
// runs, over tiles, over tiles of inputs that lie across the output, over copied
// pieces, and over groups of packed codes.
type mapJobs struct {
	runs, tiles, turned, copied, packed job
	kernel                              cpu.Elementwise
}

func newMapJobs(f *groupedPlan, kernel cpu.Elementwise) mapJobs {
	return mapJobs{mapJob(f, kernel), tileJob(f, kernel), turnedJob(f, kernel), copiedJob(f, kernel), packedGroupsJob(f, kernel), kernel}
}

// elementwise builds a plan whose kernel maps every element on its own.
func elementwise(table []cpu.Row[cpu.Elementwise]) func(pl *plan, f *groupedPlan, t cpu.Types) error {
	return func(pl *plan, f *groupedPlan, t cpu.Types) error {
		kernel, err := selectRow(pl, table, t)
		if err == nil {
			pl.run = runElementwise(f, kernel)
		}
		return err
	}
}

// runElementwise makes the run of an op that maps every element on its own.
func runElementwise(f *groupedPlan, kernel cpu.Elementwise) func(c *call) error {
	jobs := newMapJobs(f, kernel)
	return func(c *call) error {
		for i := range f.regions {
			f.mapRegion(c, &f.regions[i], jobs)
		}
		return nil
	}
}

// mapRegion runs one of the jobs over a region.
func (f *groupedPlan) mapRegion(c *call, r *region, jobs mapJobs) {
	if s := &c.seen; s.again {
		if s.elements > 0 && beforeJob == nil {
			f.callsAgain(c, jobs.kernel)
			return
		}
		f.startsAgain(c, &c.all, kernelOperands)
		c.parallel(s.jobs, s.cost, [...]job{jobs.tiles, jobs.runs}[s.way])
		return
	}
	f.layoutOf(c, &c.all, r, kernelOperands, everyDim)
	n := c.all.count()
	if n == 0 {
		return
	}
	if f.packed < 0 {
		c.all.asStored(firstOutput, kernelOperands)
	}
	tiled := f.tile(c, &c.all)
	if tiled && !c.tiles.narrow() {
		f.mapTiles(c, n, jobs)
		return
	}
	if tiles := f.turn(c); tiles > 0 {
		c.parallel(tiles, n, jobs.turned)
		return
	}
	c.perJob = jobSize
	if f.copies(c) {
		if c.tiles.copied {
			c.parallel(c.tiles.jobs(), n, jobs.tiles)
			return
		}
		c.parallel(ceilDiv(n, c.perJob), n, jobs.copied)
		return
	}
	if tiled {
		f.mapTiles(c, n, jobs)
		return
	}
	if n := f.packedGroups(c); n > 0 {
		c.parallel(n, c.all.count(), jobs.packed)
		return
	}
	rest := f.strand(c)
	if f.packed >= 0 {
		// Whole rows, so that no two jobs share a byte.
		row := r.rowLength(len(f.shape) - 1)
		c.perJob = row * max(1, jobSize/max(1, row))
	}
	c.goes(1, c.strands.jobs+ceilDiv(rest, c.perJob), n)
	c.parallel(c.seen.jobs, n, jobs.runs)
}

// mapTiles runs the job over a call's tiling, which the next call of the same tensors takes again.
func (f *groupedPlan) mapTiles(c *call, n int64, jobs mapJobs) {
	c.goes(0, c.tiles.jobs(), n)
	c.parallel(c.seen.jobs, n, jobs.tiles)
}
