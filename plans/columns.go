package plans

import (
	"slices"

	"github.com/isobit-ml/isobit/cpu"
)

// Groups that lie side by side, such as the channels of a last axis: an
// element of each lies next to one of the next. Rows of the elements of many
// groups are taken at once, with accumulators for each group.

const (
	minColumns = 16  // fewer groups are taken one by one
	fewColumns = 256 // for fewer groups, of gatherFrom elements or more, it is faster to gather them
	gatherFrom = 64
	maxColumns = cpu.MaxColumns // the accumulators of so many stay in the second level of caches
)

// oneByOne has plans take groups one after the other, however they lie. Tests set it,
// and compare every other way with that.
var oneByOne bool

// tryColumns lays out a reduction whose groups lie side by side, and returns the
// number of its jobs; 0 where they do not. many says that a call takes many rows, unless elements lie apart.
func (f *groupedPlan) tryColumns(c *call, many bool) int64 {
	g := &c.groups
	inner, least := g.dims-1, int64(minColumns)
	c.following = g.size[inner]
	switch {
	case many:
		least = cpu.LeastColumns
	case c.members.count() >= gatherFrom:
		least = fewColumns
	case c.members.count() >= gatherFrom/2 && inner > 0:
		least = gatherFrom // such as tokens of images whose batch lies innermost: rows of a call for each member are short
	}
	if oneByOne || f.packed >= 0 || g.size[inner] < least {
		return 0
	}
	for k := range kernelOperands {
		if f.hasData(g, k) && g.stride[k][inner] != f.size[k] && (many && f.isExpanded(g, k) || !f.isExpanded(g, k) && !f.sparse(c, k)) {
			return 0
		}
	}
	// Enough tiles for all threads, but rows of whole cache lines, and no narrow tile in the end.
	per := min(maxColumns, max(minColumns, roundUp(g.size[inner]/c.parts(c.groups.count()*c.members.count(), 2), 64)))
	tiles := max(g.size[inner]/per, ceilDiv(g.size[inner], maxColumns))
	c.groupsPerTile = min(maxColumns, roundUp(ceilDiv(g.size[inner], tiles), 16))
	return c.tilesOfGroups() * c.blocks
}

// columnJob makes the job that reduces one block of groups side by side, and finishes
// the groups where they have one block only.
func columnJob[C cpu.Compute](f *groupedPlan, kernel cpu.Striped, fold *folder[C]) job {
	return func(c *call, w *worker, number int64) {
		block := number % c.blocks
		group, n := c.tileOfGroups(number / c.blocks)
		begin := block * cpu.StripeBlock
		end := min(begin+cpu.StripeBlock, c.members.count())

		a := f.arm(w)
		sums := cpu.ColumnsOf[C](&w.scratch, cpu.Lanes, int(n))
		lanes := min(fold.lanes, int(end-begin))
		sums.Clear(lanes)
		cur := w.members(c, group)
		if fold.lanes > 1 { // of extremes, scales are results
			f.groupParams(c, w, group, n, 1)
		}
		a.Wide = true
		a.Stream = a.Stream && !f.copiesRows(c)              // what is stored is read again
		a.Ahead = f.aheadAlong(&c.members, c.members.dims-1) // the next row
		many := fold.columnExtremes != nil && n >= cpu.LeastColumns && !c.groups.apart(0, f.size[0])
		position := 0
		c.members.walk(cur, begin, end, kernelOperands, func(count int64) {
			if many {
				fold.columnExtremes(int(count), c.members.span(cur, 0, a.In[0].DType), [2][]C{sums.Sums[0][:n], sums.Sums[1][:n]})
				return
			}
			for i := range count {
				f.aimAtRow(c, w, a, cur, i, n)
				a.Sums = sums.Row(position % fold.lanes)
				kernel(int(n), 0, a)
				f.putRow(c, w, cur, i, n)
				position++
			}
		})
		fold.columns(sums, lanes)
		fold.end(f, c, w, group, block, [2][]C{sums.Sums[0][:n], sums.Sums[1][:n]})
	}
}

// isExpanded reports whether a data input's elements along the innermost dimension are one number.
func (f *groupedPlan) isExpanded(l *layout, k int) bool {
	return k < dataInputs && l.stride[k][l.dims-1] == 0 && l.size[l.dims-1] > 1
}

// aimAtRow moves the arguments to a row: of each group, the i-th member from a cursor on, or copies of a number that is the
// same for all of them. It leaves parameters alone, which are prepared already, or not read.
func (f *groupedPlan) aimAtRow(c *call, w *worker, a *cpu.Args, cur *cursor, i, groups int64) {
	members := &c.members
	inner := members.dims - 1
	for k := range a.In {
		if !f.param[k] {
			a.In[k].P, a.In[k].Stride = members.along(cur.at[k], k, inner, i), a.In[k].DType.Size()
			if f.hasData(members, k) && k < dataInputs && c.groups.apart(k, f.size[k]) {
				f.copier[k].run(w.copied.of(k), a.In[k].P, c.groups.stride[k][c.groups.dims-1], groups)
				a.In[k].P = w.copied.of(k)
			}
		}
	}
	for k := range a.Out {
		a.Out[k].P, a.Out[k].Stride = members.along(cur.at[firstOutput+k], firstOutput+k, inner, i), a.Out[k].DType.Size()
	}
	if f.copiesRows(c) {
		a.Out[0].P = w.copied.of(dataInputs)
	}
}

// copiesRows reports whether rows of the output are copied to it, since its elements lie apart.
func (f *groupedPlan) copiesRows(c *call) bool {
	return f.hasData(&c.members, firstOutput) && c.groups.apart(firstOutput, f.size[firstOutput])
}

// putRow copies what a kernel left of a row to such an output.
func (f *groupedPlan) putRow(c *call, w *worker, cur *cursor, i, groups int64) {
	if g, m := &c.groups, &c.members; f.copiesRows(c) {
		row := m.along(cur.at[firstOutput], firstOutput, m.dims-1, i)
		f.copier[dataInputs].run(w.copied.of(dataInputs), row, g.stride[firstOutput][g.dims-1], groups)
	}
}

// sparse reports whether an operand has groups side by side with few gaps, such as every second column: a row of them
// is copied before the kernel takes it, or after.
func (f *groupedPlan) sparse(c *call, k int) bool {
	g, m, size := &c.groups, &c.members, f.size[k]
	step := g.stride[k][g.dims-1]
	return slices.Contains(copiedOperands[:], k) && step > 0 && step <= 4*size && m.stride[k][m.dims-1] >= step*g.size[g.dims-1]
}
