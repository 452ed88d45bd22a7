package plans

import (
	"slices"

	"github.com/isobit-ml/isobit/cpu"
)

// Tiles of groups (short_groups.go, group_runs.go) of inputs whose elements lie apart, such as a gradient that is expanded
// along rows: a worker copies a row of each group before a kernel takes these, and an output back after it. So it does where
// few groups lie in a row, such as those of a head of attention. Of groups that are taken one by one, such as channels of
// many images, it copies the runs of such a gradient alone.

// fewInCall is of how many elements a call is so short that copies pay for a longer one.
const fewInCall = 4096

// shortGroupRow, in bytes, is the same of a row of groups where all elements have to be copied, and wideColumns, in elements, where
// groups lie side by side: measured on Zen 5.
const shortGroupRow, wideColumns = 1 << 12, 1 << 8

// fewRowsOfGroups are not worth laying out copies.
const fewRowsOfGroups = 4

// leastMoved is how many bytes of a group are copied in another order as fast as many.
const leastMoved = 2 * lineSize

// wholeSquare is how many elements that lie side by side, of several rows, are copied as fast as many.
const wholeSquare = 8

// mayCopyTiles reports whether there may be a better way for groups if tiles of them are copied: for groups that lie apart,
// for short ones, or for longer calls.
func (r *reduction[C]) mayCopyTiles(c *call, way int) bool {
	n, groups := c.members.count(), c.groups.count()
	mapsRows := r.then != nil && c.members.dims > 1 // one after the other, twice
	switch {
	case oneByOne || groups < 2:
		return false
	case way > inGroupRuns || way == inGroupRuns && (mapsRows || groups > fewSteps) && r.shortAlone(c):
		return true
	case !mapsRows && groups <= fewRowsOfGroups*c.following:
		return false
	case way == inColumns:
		return n*c.following < wideColumns
	}
	return r.shortCalls(c) || n*c.following < fewInCall && (r.cuts(&c.groups, 0) || r.cuts(&c.groups, 1))
}

// shortAlone reports whether groups, each of which a call handles by itself, are so short that one of copies handles them
// together faster.
func (r *reduction[C]) shortAlone(c *call) bool {
	n := c.members.count()
	alone := r.fold.short(r.groupedPlan, &c.groups, n) || r.fold.anyOrder && !c.together
	return n <= longestShortGroup && alone && !r.choosesApart(c)
}

// shortCalls reports whether calls for groups where they lie are so short that copies pay for longer ones. Copies of short
// groups pay later where elements are mapped to another order than theirs.
func (r *reduction[C]) shortCalls(c *call) bool {
	longest, bytes := int64(shortGroupRow), c.members.count()*r.size[0]
	if r.then != nil && bytes < leastMoved && !c.lieAlike(r.operand[0], r.operand[firstOutput]) {
		longest /= 4
	}
	return c.following < min(c.groups.count(), c.groupsPerTile) && c.following*bytes <= longest
}

// shortRows reports whether rows of groups, of n elements, are so short.
func (f *groupedPlan) shortRows(g *layout, n int64) bool {
	return n*g.size[g.dims-1]*f.size[0] <= shortGroupRow
}

// cuts reports whether a data input, which is expanded along one of two dimensions, alone keeps these from being joined.
func (f *groupedPlan) cuts(l *layout, k int) bool {
	if !f.hasData(l, k) {
		return false
	}
	for d := 1; d < l.dims; d++ {
		outer, inner := l.stride[k][d-1], l.stride[k][d]
		if outer != 0 && inner != 0 {
			continue
		}
		l.stride[k][d-1] = inner * l.size[d]
		joins := l.joins(d-1, d, operandsBelow(kernelOperands))
		if l.stride[k][d-1] = outer; joins {
			return true
		}
	}
	return false
}

// chooseCopied returns a way for tiles of groups that are copied, if there is one, else the way that was chosen.
func (r *reduction[C]) chooseCopied(c *call, region *region, ways []way, chosen int, itsJobs int64) (number int, jobs int64) {
	if !r.copyTiles(c, r.fold.anyOrder && r.then == nil) {
		return chosen, itsJobs
	}
	for number := inShortGroups; number <= inGroupRuns; number++ {
		if jobs := ways[number].jobs(c); jobs > 0 {
			return number, jobs
		}
	}
	number, jobs = r.choose(c, region, ways)
	if number < byGathering || r.then != nil || !r.tryCopiedRuns(c) {
		return number, jobs
	}
	if number = byGroups; c.blocks > 1 {
		number = byBlocks
	}
	return number, ways[number].jobs(c)
}

// tryCopiedRuns has runs of expanded inputs copied where those of the others are long, and reports whether they are.
func (r *reduction[C]) tryCopiedRuns(c *call) bool {
	m, joined := &c.members, &c.copiesPieces().dense
	*joined = *m
	var copied [dataInputs]bool
	for k := range copied {
		if copied[k] = r.hasData(m, k) && (r.isExpanded(m, k) || r.cuts(m, k)); copied[k] {
			joined.follow(k, r.size[k])
		}
	}
	joined.coalesce(kernelOperands)
	if c.blocks == 0 || r.packed >= 0 || r.anyApart(joined) || joined.size[joined.dims-1] <= r.fold.gathered {
		return false
	}
	for k := range copied {
		if c.sources[k].dims = 0; copied[k] {
			c.sources[k].only(m, k)
		}
	}
	*m, c.runsCopied = *joined, true
	return true
}

// copyRun calls a kernel for a run of the members of a group, from the one with a number on.
func (f *groupedPlan) copyRun(c *call, w *worker, begin, n int64, kernel func(n int64, a *cpu.Args)) {
	all, of, cur := w.args, &w.cursors[ofMembers], &w.cursors[ofCopies]
	for at := int64(0); at < n; at += copySize {
		m := min(copySize, n-at)
		w.args = all.At(at)
		for k := range dataInputs {
			if from := &c.sources[k]; from.dims > 0 {
				cur.shift[0] = of.shift[k]
				f.copier[k].piece(from, cur, begin+at, m, w.copied.of(k))
				w.args.In[k].P = w.copied.of(k)
			}
		}
		kernel(m, &w.args)
	}
}

// inCopiedOrder orders groups, of n elements, as they are taken of copies: as their parameters lie, unless a
// copy would have few of the groups that lie side by side in an operand: then as this operand lies.
func (f *groupedPlan) inCopiedOrder(g *layout, n int64) {
	if f.packed >= 0 {
		return
	}
	by := firstGroupValue
	for by < maxOperands-1 && g.start[by] == nil {
		by++
	}
	if f.scale >= 0 && g.start[f.scale] != nil {
		by = f.scale
	}
	g.asStored(by, maxOperands)
	for _, k := range copiedOperands {
		if d := slices.Index(g.stride[k][:g.dims], f.size[k]); d >= 0 && f.hasData(g, k) && n*g.within(d)*min(wholeSquare, g.size[d]) > copySize {
			g.asStored(k, maxOperands)
			return
		}
	}
}

// follow reports whether groups of n elements of an operand follow one another.
func (f *groupedPlan) follow(g *layout, k int, n int64) bool {
	next := n * f.size[k]
	for d := g.dims - 1; d >= 0; d-- {
		if g.stride[k][d] != next {
			return false
		}
		next *= g.size[d]
	}
	return true
}

// copyTiles has tiles copied of the data operands whose elements do not follow one another, and reports whether there are
// any. Groups and members are laid out as if they did, in the order in which copies are made.
func (f *groupedPlan) copyTiles(c *call, rows bool) bool {
	before := c.groups
	f.inCopiedOrder(&c.groups, c.members.count())
	copied := f.tilesToCopy(c, rows)
	if !slices.Contains(copied[:], true) {
		c.groups = before
		return false
	}
	f.layTiles(c, copied)
	return true
}

// tilesToCopy says which operands are to be copied: those whose elements lie apart within a run, or within a group of one
// run, and in short rows those that lie otherwise than copies. Groups of several rows are copied where rows says so: such as
// blocks whose extremes, of all of a call, are found together then. It is none where groups are long, unless they are expanded.
func (f *groupedPlan) tilesToCopy(c *call, rows bool) (copied [len(copiedOperands)]bool) {
	g, m, n := &c.groups, &c.members, c.members.count()
	short := f.packed < 0 && f.shortRows(g, n)
	for i, k := range copiedOperands {
		if !f.hasData(g, k) {
			continue
		}
		size, input := f.size[k], k < dataInputs
		cut, whole := input && f.cuts(m, k), rows
		if m.dims == 1 {
			whole = input && (g.stride[k][g.dims-1] != n*size || f.cuts(g, k))
		}
		copied[i] = cut || m.apart(k, size) || whole || short && !f.follow(g, k, n)
		if copied[i] && n > longestShortGroup && !cut && !f.isExpanded(m, k) {
			return [len(copiedOperands)]bool{}
		}
	}
	return copied
}

// layTiles lays out groups and members with tiles in the place of operands that are copied. A tile has a row of each of some
// groups: the last dimensions of members, that is, which may be one where copies follow one another. All rows of a group are
// copied to one place.
func (f *groupedPlan) layTiles(c *call, copied [len(copiedOperands)]bool) {
	g, m, members := &c.groups, &c.members, c.members
	c.tilesCopied = true
	c.copiesPieces()
	for i, k := range copiedOperands {
		if copied[i] {
			m.follow(k, f.size[k])
		}
	}
	row := m.dims - 1 // where rows begin
	for row > 0 && m.joins(row-1, row, operandsBelow(kernelOperands)) {
		row--
	}
	n := m.size[row] * m.within(row)
	for i, k := range copiedOperands {
		from := &c.sources[i]
		if from.dims = 0; !copied[i] {
			continue
		}
		from.packed, from.start[0] = -1, g.start[k]
		from.add(&members, k, 0, row)
		from.add(g, k, 0, g.dims)
		from.add(&members, k, row, m.dims)
		from.coalesce(1)
		g.follow(k, n*f.size[k])
	}
	g.coalesce(maxOperands)
	m.coalesce(kernelOperands)
	for i, k := range copiedOperands {
		if copied[i] && m.dims > 1 {
			m.stride[k][0] = 0
		}
	}
}

// add adds some dimensions of another layout, with its operand k, inside those of a layout of one operand.
func (l *layout) add(of *layout, k, first, end int) {
	copy(l.size[l.dims:], of.size[first:end])
	copy(l.stride[0][l.dims:], of.stride[k][first:end])
	l.dims += end - first
}

// copyTile copies a row of each of some groups, and has the arguments point to them.
func (f *groupedPlan) copyTile(c *call, w *worker, a *cpu.Args, first, groups, row int64) {
	if !c.tilesCopied {
		return
	}
	f.copyRow(c, w, first, groups, row, copyInputs)
	for i, k := range copiedOperands {
		if c.sources[i].dims > 0 {
			f.dataSpan(a, k).P = w.copied.of(i)
			a.Stream = a.Stream && k < firstOutput
		}
	}
}

// putTile copies what a kernel left of such a row to the output.
func (f *groupedPlan) putTile(c *call, w *worker, first, groups, row int64) {
	if c.tilesCopied {
		f.copyRow(c, w, first, groups, row, copyOutput)
	}
}

func (f *groupedPlan) copyRow(c *call, w *worker, first, groups, row int64, back bool) {
	_, n := c.members.rows()
	f.copyPiece(c, w, (row*c.groups.count()+first)*n, groups*n, 0, back)
}
