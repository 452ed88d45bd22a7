package plans

import (
	"math"
	"unsafe"

	"github.com/isobit-ml/isobit/cpu"
)

// Groups whose members are many short runs, such as a channel of small images, or are
// not contiguous, such as a channel in channels last. The members of some groups are
// copied first, group by group, so that memory is read in order and a call of the kernel
// has long runs, one for each group.

const (
	longestGathered    = 1024 // elements of a run that is gathered for extremes
	longestGatheredSum = 255  // and for sums
	gatherGroups       = 16   // groups at a time,
	fewGroups          = 4    // or these where none lie side by side and all have many members: longer pieces of each
)

// tryGather lays out a reduction whose members are gathered, and returns the
// number of its jobs; 0 where they are not.
func (f *groupedPlan) tryGather(c *call, longest int64) int64 {
	g, m := &c.groups, &c.members
	inner := m.dims - 1
	c.following = g.size[g.dims-1]
	if oneByOne || f.packed >= 0 || c.blocks == 0 {
		return 0
	}
	if !f.anyApart(m) && (inner == 0 || m.size[inner] > longest) {
		return 0
	}
	c.copiesPieces()
	for i, k := range copiedOperands {
		if c.sources[i].dims = 0; f.hasData(m, k) {
			c.sources[i].copies(m, k, f.size[k])
		}
	}
	beside, most := f.groupsBeside(g), int64(gatherGroups)
	if !beside {
		most = min(most, max(fewGroups, copySize/m.count()))
	}
	c.groupsPerTile, c.gathered = min(most, ceilDiv(g.size[g.dims-1], c.parts(g.count()*m.count(), 2))), 0
	if unit := f.acrossRows(c); !beside && unit > 0 && m.count() > c.gatherSize() {
		c.groupsPerTile = min(c.groupsPerTile, max(1, copySize/unit))
		c.gathered = max(1, copySize/c.groupsPerTile/unit) * unit
	}
	return c.tilesOfGroups() * c.blocks
}

// groupsBeside reports whether groups of an operand lie side by side, which are taken together.
func (f *groupedPlan) groupsBeside(g *layout) bool {
	for _, k := range copiedOperands {
		if g.size[g.dims-1] > 1 && f.hasData(g, k) && g.stride[k][g.dims-1] == f.size[k] {
			return true
		}
	}
	return false
}

// acrossRows returns how many members are so many rows of an operand that lies across them that whole lines of memory are
// read, or as many as there is room for: a multiple of the number of lanes. It is 0 where none does.
func (f *groupedPlan) acrossRows(c *call) (members int64) {
	room := int64(math.MaxInt64)
	for i, k := range copiedOperands {
		if c.sources[i].dims > 0 {
			room = min(room, copiedSize/f.size[k])
		}
	}
	for i, k := range copiedOperands {
		l, size := &c.sources[i], f.size[k]
		if l.dims < 2 || l.stride[0][l.dims-1] == 0 {
			continue
		}
		outer, row := l.joinedRows(size, math.MaxInt64)
		if l.stride[0][outer] != size {
			continue
		}
		rows := min(l.size[outer], lineSize/size)
		for ; rows > 1 && rows*row > room; rows /= 2 {
		}
		for row *= rows; row%cpu.Lanes > 0; row *= 2 {
		}
		if row <= room {
			members = max(members, row)
		}
	}
	return members
}

// gatherSize returns how many elements of each group a call of a kernel takes: a multiple
// of the number of lanes.
func (r *reducing) gatherSize() int64 {
	if r.gathered > 0 {
		return r.gathered
	}
	return copySize / r.groupsPerTile / cpu.Lanes * cpu.Lanes
}

// gathered is the members [at, at+n) of some groups, which follow the first one.
type gathered struct{ first, groups, at, n int64 }

// gatherJob makes the job of a reduction of one block of some groups, which it
// finishes where they have but one.
func gatherJob[C cpu.Compute](f *groupedPlan, kernel cpu.Striped, fold *folder[C]) job {
	return func(c *call, w *worker, number int64) {
		block := number % c.blocks
		first, groups := c.tileOfGroups(number / c.blocks)
		begin := block * cpu.StripeBlock
		end := min(begin+cpu.StripeBlock, c.members.count())
		for at := begin; at < end; {
			part := gathered{first, groups, at, min(c.gatherSize()-at%c.gatherSize(), end-at)}
			f.copyMembers(c, w, part, copyInputs)
			a := f.armGathered(c, w, part)
			a.Runs.Keep = at > begin
			kernel(int(part.n), at-begin, a)
			f.copyMembers(c, w, part, copyOutput)
			at += part.n
		}
		fold.end(f, c, w, first, block, groupResults(w, fold, int(groups)))
	}
}

// armGathered is armGroups for members, where they lie or copied.
func (f *groupedPlan) armGathered(c *call, w *worker, part gathered) *cpu.Args {
	a := f.armGroups(c, w, part.first, part.groups)
	a.Stream = false
	for i, k := range copiedOperands {
		switch s := f.dataSpan(a, k); {
		case c.sources[i].dims > 0:
			s.P, s.Stride = w.copied.of(i), f.size[k]
			a.Runs.Step[k] = (c.gatherSize() + copiedPad) * s.Stride
		case f.hasData(&c.members, k):
			s.P = unsafe.Add(s.P, part.at*f.size[k])
		}
	}
	return a
}

// copyMembers copies members: inputs into the worker's memory, or the output from there.
func (f *groupedPlan) copyMembers(c *call, w *worker, part gathered, back bool) {
	g, cur, one := &c.groups, w.members(c, part.first), &w.cursors[ofCopies]
	for i, k := range copiedOperands {
		from := &c.sources[i]
		if from.dims == 0 || f.copier[i].back != back {
			continue
		}
		size, step := f.size[k], g.stride[k][g.dims-1]
		own, pitch := unsafe.Pointer(&w.copied[i]), (c.gatherSize()+copiedPad)*size
		one.shift[0] = cur.shift[k]
		if part.groups > 2 && step == size && from.apart(0, size) && from.size[from.dims-1] >= fewGroups {
			f.copier[i].sideBySide(from, one, part, own, pitch)
			continue
		}
		for range part.groups {
			f.copier[i].piece(from, one, part.at, part.n, own)
			one.shift[0] += step
			own = unsafe.Add(own, pitch)
		}
	}
}

// sideBySide copies an operand's members of groups that lie next to each other; in our memory
// there is a pitch between groups.
func (p *copier) sideBySide(l *layout, cur *cursor, part gathered, own unsafe.Pointer, pitch int64) {
	step, done := l.stride[0][l.dims-1], int64(0)
	l.walk(cur, part.at, part.at+part.n, 1, func(run int64) {
		mine := unsafe.Add(own, done*p.size)
		p.across(mine, pitch, cur.at[0], step, run, part.groups)
		done += run
	})
}
