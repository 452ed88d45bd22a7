package plans

import (
	"unsafe"

	"github.com/isobit-ml/isobit/cpu"
)

// Inputs that lie across the output: channels last where the output is row-major, a transposed
// matrix. A tile of such an input is copied as the output lies, so that memory is read in whole
// lines and the kernel has runs.

const (
	turnedRows  = 16   // of a tile: a line of 4-byte elements
	turnedWidth = 496  // elements of a row
	turnedPitch = 504  // from row to row: not a power of 2, whose rows would share sets of the cache
	leastTurned = 1024 // elements of a tile that is worth it
)

// turned is how a call's elements are parted into tiles of rows along the last but one dimension.
type turned struct {
	across     [maxTurned]bool
	high, wide int64 // tiles along the last two dimensions
	perJob     int64 // tiles
}

// maxTurned is how many data inputs a kernel has: operands 0 and 1.
const maxTurned = 2

// turn finds the tiles of a call with inputs that lie across the output, and returns how many jobs
// they are; 0 where there are none.
func (f *groupedPlan) turn(c *call) int64 {
	l, t := &c.all, &c.turned
	inner := l.dims - 1
	if oneByOne || f.packed >= 0 || l.count() == 0 || inner == 0 {
		return 0
	}
	along, found := -1, false // the dimension that those inputs are stored along
	for k := range kernelOperands {
		if f.param[k] || l.start[k] == nil || l.stride[k][inner] == f.size[k] {
			continue
		}
		if k >= maxTurned {
			return 0
		}
		if !found {
			*t = turned{}
		}
		for d := range inner {
			if (along < 0 || along == d) && l.stride[k][d] == f.size[k] {
				along, t.across[k], found = d, true, true
				break
			}
		}
		if !t.across[k] {
			return 0
		}
	}
	if !found {
		return 0
	}
	if min(turnedRows, l.size[along])*min(turnedWidth, l.size[inner]) < leastTurned {
		return 0 // small images: several in a copy (copies.go)
	}
	for ; along < inner-1; along++ {
		l.swap(along, along+1, kernelOperands)
	}
	t.high, t.wide = ceilDiv(l.size[inner-1], turnedRows), ceilDiv(l.size[inner], turnedWidth)
	t.perJob = max(1, jobSize/(min(turnedRows, l.size[inner-1])*min(turnedWidth, l.size[inner])))
	return ceilDiv(t.tiles(l), t.perJob)
}

func (t *turned) tiles(l *layout) int64 {
	return l.count() / (l.size[l.dims-2] * l.size[l.dims-1]) * t.high * t.wide
}

// turnedJob makes the job of a kernel over a call's tiles.
func turnedJob(f *groupedPlan, kernel cpu.Elementwise) job {
	return func(c *call, w *worker, number int64) {
		l, t := &c.all, &c.turned
		for tile := number * t.perJob; tile < min((number+1)*t.perJob, t.tiles(l)); tile++ {
			f.runTurned(c, w, kernel, tile)
		}
	}
}

func (f *groupedPlan) runTurned(c *call, w *worker, kernel cpu.Elementwise, tile int64) {
	l, t, cur, inner := &c.all, &c.turned, &w.cursors[0], c.all.dims-1
	outer, column, row := tile/(t.high*t.wide), tile/t.high%t.wide*turnedWidth, tile%t.high*turnedRows
	rows, n := min(turnedRows, l.size[inner-1]-row), min(turnedWidth, l.size[inner]-column)
	l.seek(cur, (outer*l.size[inner-1]+row)*l.size[inner]+column, kernelOperands)
	a := f.arm(w)
	l.spans(a, cur)
	a.Stream = false
	step := [kernelOperands]int64{}
	for k := range step {
		step[k] = l.stride[k][inner-1]
		if k < maxTurned && t.across[k] {
			size := f.size[k]
			own := unsafe.Pointer(&w.copied[k])
			f.copier[k].transpose(own, turnedPitch*size, cur.at[k], l.stride[k][inner], n, rows)
			a.In[k].P, a.In[k].Stride, step[k] = own, size, turnedPitch*size
		}
	}
	for range rows - 1 {
		kernel(int(n), a)
		for k := range a.In {
			a.In[k].P = unsafe.Add(a.In[k].P, step[k])
		}
		for k := range a.Out {
			a.Out[k].P = unsafe.Add(a.Out[k].P, step[firstOutput+k])
		}
	}
	kernel(int(n), a)
}
