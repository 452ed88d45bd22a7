package plans

import (
	"slices"

	"github.com/isobit-ml/isobit/cpu"
)

// Tiles of groups (short_groups.go, group_runs.go) of inputs whose elements lie apart, such as a gradient that is expanded
// along rows: a worker copies a row of each group before a kernel takes these.

// mayCopyTiles reports whether there is a better way for groups, or for short ones, if tiles of them are copied.
func (r *reduction[C]) mayCopyTiles(c *call, way int) bool {
	n := c.members.count()
	return !oneByOne && (way > inGroupRuns || way == inGroupRuns && n <= longestShortGroup && r.fold.short(r.groupedPlan, &c.groups, n))
}

// chooseCopied returns a way for tiles of groups that are copied, if there is one, else the way that was chosen.
func (r *reduction[C]) chooseCopied(c *call, region *region, ways []way, chosen int, itsJobs int64) (number int, jobs int64) {
	if !r.copyTiles(c) {
		return chosen, itsJobs
	}
	for number := inShortGroups; number <= inGroupRuns; number++ {
		if jobs := ways[number].jobs(c); jobs > 0 {
			return number, jobs
		}
	}
	return r.choose(c, region, ways)
}

// copyTiles has tiles copied of the data inputs whose elements do not follow one another, and reports whether there are
// any. Groups and members are laid out as if they did. Long groups are left alone, unless they are expanded.
func (f *groupedPlan) copyTiles(c *call) bool {
	g, m := &c.groups, &c.members
	var copied [dataInputs]bool
	for k := range copied {
		copied[k] = f.hasData(g, k) && (m.apart(k, f.size[k]) || m.dims == 1 && g.stride[k][g.dims-1] != m.count()*f.size[k])
		if copied[k] && m.count() > longestShortGroup && !f.isExpanded(m, k) {
			return false
		}
	}
	if !slices.Contains(copied[:], true) {
		return false
	}
	c.tilesCopied, c.hasCopies = true, true
	for i := range c.sources {
		from := &c.sources[i]
		if from.dims = 0; i >= dataInputs || !copied[i] {
			continue
		}
		from.dims, from.packed, from.start[0] = m.dims+g.dims, -1, g.start[i]
		copy(from.size[copy(from.size[:], m.size[:m.dims]):], g.size[:g.dims])
		copy(from.stride[0][copy(from.stride[0][:], m.stride[i][:m.dims]):], g.stride[i][:g.dims])
		m.follow(i, f.size[i])
	}
	row := m.dims - 1 // where rows begin
	for row > 0 && m.joins(row-1, row, kernelOperands) {
		row--
	}
	n := int64(1)
	for _, size := range m.size[row:m.dims] {
		n *= size
	}
	for k := range dataInputs {
		if from := &c.sources[k]; from.dims > 0 { // rows are the last dimensions, groups come before
			rotate(from.size[row:from.dims], m.dims-row)
			rotate(from.stride[0][row:from.dims], m.dims-row)
			from.coalesce(1)
			g.follow(k, n*f.size[k])
		}
	}
	g.coalesce(maxOperands)
	m.coalesce(kernelOperands)
	for k := range dataInputs {
		if copied[k] && m.dims > 1 {
			m.stride[k][0] = 0 // all rows are copied to one place
		}
	}
	return true
}

// rotate moves the first elements behind the others.
func rotate(v []int64, first int) {
	slices.Reverse(v[:first])
	slices.Reverse(v[first:])
	slices.Reverse(v)
}

// copyTile copies a row of each of some groups, and has the arguments point to them.
func (f *groupedPlan) copyTile(c *call, w *worker, a *cpu.Args, first, groups, row int64) {
	if !c.tilesCopied {
		return
	}
	_, n := c.members.rows()
	f.copyPiece(c, w, (row*c.groups.count()+first)*n, groups*n, 0, copyInputs)
	for k := range dataInputs {
		if c.sources[k].dims > 0 {
			a.In[k].P = w.copied.of(k)
		}
	}
}
