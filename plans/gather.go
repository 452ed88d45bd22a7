package plans

import (
	"unsafe"

	"github.com/isobit-ml/isobit/cpu"
)

// Members of a group in many short runs, such as a channel of small images, or
// that lie apart while groups lie side by side, such as channels last: those of
// some groups are copied together, so that memory is read in order and a call of
// the kernel has long runs, one for each group.

const (
	longestGathered    = 1024 // elements of a run, for extremes
	longestGatheredSum = 255  // for sums
	gatherGroups       = 16   // side by side
	gatherSize         = 512  // elements of a group in a call of a kernel: whole turns of its lanes
	gatherPitch        = 520  // from group to group: not a power of 2, whose groups would share sets of the cache
)

// gathered is a worker's memory for the elements of one call of a kernel, those
// of a group one after the other.
type gathered [3][gatherGroups * gatherPitch]float64

// gathers lays out a reduction whose members are gathered, and returns the
// number of its jobs; 0 where they are not.
func (f *family) gathers(c *call, longest int64) int64 {
	g, m := &c.groups, &c.members
	inner := m.dims - 1
	if oneByOne || f.packed >= 0 || c.blocks == 0 || inner < 0 {
		return 0
	}
	apart := false
	for _, k := range gatheredOperands {
		if f.param[k] || m.start[k] == nil || !m.apart(k, f.sizeOf(k)) {
			continue
		}
		if apart = true; g.stride[k][g.dims-1] != f.sizeOf(k) {
			return 0
		}
	}
	if !apart && (inner == 0 || m.size[inner] > longest) {
		return 0
	}
	c.columnWidth = min(gatherGroups, ceilDiv(g.size[g.dims-1], int64(2*c.threads)))
	return c.tilesOfGroups() * c.blocks
}

// apart reports whether the elements of an operand's runs do not follow one another.
func (l *layout) apart(k int, size int64) bool {
	return l.size[l.dims-1] > 1 && l.stride[k][l.dims-1] != size
}

// gatheredOperands are the data inputs and the data output of a kernel.
var gatheredOperands = [...]int{0, 1, firstOutput}

// gatherJob makes the job of a reduction of one block of some groups, which it
// finishes where they have but one.
func gatherJob[C cpu.Compute](f *family, kernel cpu.Striped, fold folder[C]) job {
	return func(c *call, w *worker, number int64) {
		block := number % c.blocks
		first, groups := c.tileOfGroups(number / c.blocks)
		begin := block * cpu.StripeBlock
		end := min(begin+cpu.StripeBlock, c.members.count())
		for at := begin; at < end; at += gatherSize {
			n := min(gatherSize, end-at)
			f.copyMembers(c, w, first, groups, at, n, false)
			a := f.armGathered(c, w, first, groups)
			a.Runs.Keep = at > begin
			kernel(int(n), at-begin, a)
			f.copyMembers(c, w, first, groups, at, n, true)
		}
		fold.end(c, w, first, block, groupResults(w, fold, int(groups)))
	}
}

// armGathered is armGroups for the copies.
func (f *family) armGathered(c *call, w *worker, first, groups int64) *cpu.Args {
	a := f.armGroups(c, w, first, groups)
	a.Stream = false
	for i, k := range gatheredOperands {
		s := &a.Out[0]
		if k < firstOutput {
			s = &a.In[k]
		}
		if !f.param[k] && s.P != nil {
			s.P, s.Stride = unsafe.Pointer(&w.gathered[i]), s.DType.Size()
			a.Runs.Step[k] = gatherPitch * s.Stride
		}
	}
	return a
}

// copyMembers copies the members [at, at+n) of some groups: inputs into the
// worker's memory, or the output from there.
func (f *family) copyMembers(c *call, w *worker, first, groups, at, n int64, back bool) {
	g, l, done := &c.groups, &c.members, int64(0)
	l.walk(w.members(c, first), at, at+n, kernelOperands, func(run int64) {
		for i, k := range gatheredOperands {
			p := w.cursors[1].at[k]
			if p == nil || f.param[k] || back != (k == firstOutput) {
				continue
			}
			size, step := f.sizeOf(k), g.stride[k][g.dims-1]
			own := unsafe.Add(unsafe.Pointer(&w.gathered[i]), done*size)
			if l.apart(k, size) {
				if step := l.stride[k][l.dims-1]; back {
					f.transpose[k](p, step, own, gatherPitch*size, groups, run)
				} else {
					f.transpose[k](own, gatherPitch*size, p, step, run, groups)
				}
				continue
			}
			for group := range groups {
				theirs, ours := unsafe.Add(p, group*step), unsafe.Add(own, group*gatherPitch*size)
				if back {
					theirs, ours = ours, theirs
				}
				copy(unsafe.Slice((*byte)(ours), run*size), unsafe.Slice((*byte)(theirs), run*size))
			}
		}
		done += run
	})
}
