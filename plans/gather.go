package plans

import (
	"unsafe"

	"github.com/isobit-ml/isobit/cpu"
)

// Members of a group in many short runs, such as a channel of small images:
// they are copied side by side, so that a kernel's call has more than one run,
// and the copies wait for memory together.

const (
	longestGathered = cpu.Lanes - 1 // elements of a run
	gatherSize      = 1024          // elements of a call
)

// gathered is a worker's memory for the elements of one call of a kernel.
type gathered struct {
	in   [2][gatherSize]float64
	out  [gatherSize]float64
	runs [gatherSize]struct { // where the outputs belong
		at unsafe.Pointer
		n  int64 // bytes
	}
}

// gathers reports whether a call's members are gathered.
func (f *family) gathers(c *call) bool {
	l := &c.members
	inner := l.dims - 1
	if oneByOne || f.packed >= 0 || inner == 0 || l.size[inner] > longestGathered {
		return false
	}
	for _, k := range []int{0, 1, firstOutput} {
		if !f.param[k] && l.start[k] != nil && l.size[inner] > 1 && l.stride[k][inner] != f.sizeOf(k) {
			return false
		}
	}
	return true
}

// gatherBlock runs a striped kernel over the members [begin, end) of the group
// that a cursor is set to.
func (f *family) gatherBlock(c *call, w *worker, cur *cursor, begin, end int64, kernel cpu.Striped) {
	l, g := &c.members, &w.gathered
	for at := begin; at < end; at += gatherSize {
		m := min(gatherSize, end-at)
		runs, done := 0, int64(0)
		l.walk(cur, at, at+m, kernelOperands, func(n int64) {
			if done == 0 {
				l.spans(&w.args, cur)
			}
			for k := range g.in {
				if p := cur.at[k]; p != nil && !f.param[k] {
					size := f.sizeOf(k)
					copyBytes(unsafe.Add(unsafe.Pointer(&g.in[k]), done*size), p, n*size)
				}
			}
			if p := cur.at[firstOutput]; p != nil {
				g.runs[runs].at, g.runs[runs].n = p, n*f.sizeOf(firstOutput)
				runs++
			}
			done += n
		})
		f.runGathered(w, m, at-begin, kernel)
		from := unsafe.Pointer(&g.out)
		for i := range g.runs[:runs] {
			r := &g.runs[i]
			copyBytes(r.at, from, r.n)
			from, r.at = unsafe.Add(from, r.n), nil
		}
	}
}

// runGathered calls a kernel on gathered elements.
func (f *family) runGathered(w *worker, n, pos int64, kernel cpu.Striped) {
	a, g := &w.args, &w.gathered
	a.Stream = false
	for k := range g.in {
		if s := &a.In[k]; s.P != nil && !f.param[k] {
			s.P, s.Stride = unsafe.Pointer(&g.in[k]), s.DType.Size()
		}
	}
	if s := &a.Out[0]; s.P != nil {
		s.P, s.Stride = unsafe.Pointer(&g.out), s.DType.Size()
	}
	kernel(int(n), pos, a)
}

func copyBytes(to, from unsafe.Pointer, n int64) {
	copy(unsafe.Slice((*byte)(to), n), unsafe.Slice((*byte)(from), n))
}
