package plans

import (
	"unsafe"

	"github.com/isobit-ml/isobit/cpu"
)

// Packed codes in groups along a row: a piece of many groups is unpacked before
// the kernel, or packed after it, and taken in one call.

// packedGroups is how many groups there are in a piece, and pieces in a job.
type packedGroups struct{ piece, perRow, pieces, perJob int64 }

// tryPackedGroups finds the pieces of a call's elements, and returns the number of
// jobs; 0 where groups are long, may share a byte, or lie otherwise.
func (f *groupedPlan) tryPackedGroups(c *call) int64 {
	l, p := &c.all, &c.packedGroups
	inner := l.dims - 1
	n := l.size[inner]
	if oneByOne || f.packed < 0 || f.scale < 0 || inner == 0 || n%2 != 0 || n > feedSize/2 ||
		f.varies(l, inner) || l.nibbles[inner] != 1 || l.nibbles[inner-1] != n || l.first%2 != 0 {
		return 0
	}
	for k := range kernelOperands {
		size := f.size[k]
		if f.hasData(l, k) && (l.stride[k][inner] != size || l.stride[k][inner-1] != n*size) {
			return 0
		}
	}
	p.piece = max(1, cpu.TileSize/n)
	p.perRow = ceilDiv(l.size[inner-1], p.piece)
	p.pieces = p.perRow * (l.count() / (n * l.size[inner-1]))
	p.perJob = max(1, jobSize/(p.piece*n))
	return ceilDiv(p.pieces, p.perJob)
}

// packedGroupsJob makes the job of a kernel over some pieces.
func packedGroupsJob(f *groupedPlan, kernel cpu.Elementwise) job {
	return func(c *call, w *worker, number int64) {
		p, l, cur := &c.packedGroups, &c.all, &w.cursors[ofElements]
		inner := l.dims - 1
		n, row := l.size[inner], l.size[inner-1]
		for i := number * p.perJob; i < min((number+1)*p.perJob, p.pieces); i++ {
			first := i % p.perRow * p.piece
			groups := min(p.piece, row-first)
			l.seek(cur, (i/p.perRow*row+first)*n, kernelOperands)
			a := f.arm(w)
			l.spans(a, cur)
			f.feedGroups(w, l, cur, groups, kernel)
		}
	}
}

// feedGroups calls a kernel for a number of groups from a cursor on, whose spans
// are in the worker's arguments.
func (f *groupedPlan) feedGroups(w *worker, l *layout, cur *cursor, groups int64, kernel cpu.Elementwise) {
	a, inner := &w.args, l.dims-1
	n := l.size[inner]
	if f.packed < firstOutput {
		f.unpack(w, l, cur.nibble, groups*n)
	} else {
		a.Out[f.packed-firstOutput], a.Stream = l.bytesOf(w), false
	}
	if n%wholeBlock == 0 || n >= shortFarRun {
		a.Runs = cpu.Runs{Steps: int(groups), Strands: 1, Step: l.steps(inner - 1)}
		a.Runs.Step[f.packed] = n
		kernel(int(n), a)
	} else {
		f.expandParams(w, l, cur, inner-1, groups, n)
		kernel(int(groups*n), a)
	}
	if f.packed >= firstOutput {
		f.packing.Pack(l.start[f.packed], cur.nibble, 1, w.codes[:groups*n])
	}
}

// unpack makes n codes of a layout from a half byte on a kernel's input.
func (f *groupedPlan) unpack(w *worker, l *layout, first, n int64) {
	w.args.In[f.packed] = l.bytesOf(w)
	f.packing.Unpack(w.codes[:n], l.start[f.packed], first, 1, l.packedType)
}

// bytesOf returns a worker's unpacked codes as a kernel's operand.
func (l *layout) bytesOf(w *worker) cpu.Span {
	return cpu.Span{P: unsafe.Pointer(&w.codes), Stride: 1, DType: byteType[l.packedType]}
}

// codesFollow reports whether the packed input's codes of groups of n elements, if
// there is one, follow those of the group before, and can be unpacked for a kernel.
func (f *groupedPlan) codesFollow(c *call, n int64) bool {
	g, m := &c.groups, &c.members
	return f.packed < 0 || f.packed < firstOutput && n <= feedSize && (n == 1 || m.nibbles[0] == 1) && g.nibbles[g.dims-1] == n
}
