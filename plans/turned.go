package plans

import (
	"unsafe"

	"github.com/isobit-ml/isobit/cpu"
)

// Inputs that lie across the output: channels last where the output is row-major, a transposed
// matrix. A tile of such an input is copied as the output lies, so that memory is read in whole
// lines and the kernel has runs.

const (
	turnedRows  = 16  // of a tile: a line of 4-byte elements
	turnedWidth = 496 // elements of a row
	turnedPitch = 504 // from row to row: not a power of 2, whose rows would share sets of the cache
	leastTurned = 8   // elements of a run worth it
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
func (f *family) turn(c *call) int64 {
	l, t := &c.all, &c.turned
	inner := l.dims - 1
	if oneByOne || f.packed >= 0 || l.count() == 0 || inner == 0 || l.size[inner] < leastTurned {
		return 0
	}
	along, found := -1, false // the dimension that those inputs are stored along
	for k := range kernelOperands {
		if f.param[k] || l.start[k] == nil || l.stride[k][inner] == f.sizeOf(k) {
			continue
		}
		if k >= maxTurned {
			return 0
		}
		if !found {
			*t = turned{}
		}
		for d := range inner {
			if (along < 0 || along == d) && l.stride[k][d] == f.sizeOf(k) {
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
func turnedJob(f *family, kernel cpu.Elementwise) job {
	return func(c *call, w *worker, number int64) {
		l, t := &c.all, &c.turned
		for tile := number * t.perJob; tile < min((number+1)*t.perJob, t.tiles(l)); tile++ {
			f.runTurned(c, w, kernel, tile)
		}
	}
}

func (f *family) runTurned(c *call, w *worker, kernel cpu.Elementwise, tile int64) {
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
			size := f.sizeOf(k)
			own := unsafe.Pointer(&w.gathered[k])
			turners[size](ownTile{own, turnedPitch}, cur.at[k], l.stride[k][inner], n, rows, false)
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

// ownTile is a worker's copy of a tile: where it is, and how many elements lie from row to row.
type ownTile struct {
	p     unsafe.Pointer
	pitch int64
}

// turners copy tiles of n columns, each of rows elements one after the other, to rows, or back, by
// the size of elements.
var turners = [9]func(own ownTile, columns unsafe.Pointer, step, n, rows int64, back bool){
	1: turnTile[uint8], 2: turnTile[uint16], 4: turnTile[uint32], 8: turnTile[uint64],
}

func turnTile[T any](own ownTile, columns unsafe.Pointer, step, n, rows int64, back bool) {
	size := int64(unsafe.Sizeof(*new(T)))
	for i := range n {
		to, from := unsafe.Add(own.p, i*size), unsafe.Add(columns, i*step)
		toStep, fromStep := own.pitch*size, size
		if back {
			to, from, toStep, fromStep = from, to, fromStep, toStep
		}
		r := int64(0)
		for ; r+4 <= rows; r += 4 { // four at a time: the addresses cost more than the copies
			a := *(*T)(unsafe.Add(from, r*fromStep))
			b := *(*T)(unsafe.Add(from, (r+1)*fromStep))
			c := *(*T)(unsafe.Add(from, (r+2)*fromStep))
			d := *(*T)(unsafe.Add(from, (r+3)*fromStep))
			*(*T)(unsafe.Add(to, r*toStep)) = a
			*(*T)(unsafe.Add(to, (r+1)*toStep)) = b
			*(*T)(unsafe.Add(to, (r+2)*toStep)) = c
			*(*T)(unsafe.Add(to, (r+3)*toStep)) = d
		}
		for ; r < rows; r++ {
			*(*T)(unsafe.Add(to, r*toStep)) = *(*T)(unsafe.Add(from, r*fromStep))
		}
	}
}
