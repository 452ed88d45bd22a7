package plans

import (
	"github.com/isobit-ml/isobit/cpu"
	"github.com/isobit-ml/isobit/tensor"
)

// Groups of few elements that lie one after the other, such as runs of 32 along
// a row: to call a kernel for each, fold and store would cost more than its
// elements do. One call takes a tile of many groups, with a copy of the parameters
// and accumulators for each element.

const (
	longestShortGroup = 256       // elements of a group of extremes that is better copied than read where it lies
	longestShortSum   = 127       // of a group of sums
	mostShortGroups   = cpu.Block // of a tile: room for their results
)

// shortSum reports whether sums of groups of n elements are faster so: where kernels do
// not take many such runs in a call, and for 8, 16 and 32 elements, whose accumulators a
// kernel folds (cpu.GroupSums), unless kernels hold the sums of runs and fold them
// themselves. Lanes of f64 take long to fold with AVX2.
func shortSum(f *groupedPlan, l *layout, n int64) bool {
	least := int64(0)
	if f.holdsRuns() {
		return n < 2 || n == 8 && !f.args.Stream
	}
	if f.isa == cpu.AVX2 && f.compute == tensor.F64 {
		least = 48
	}
	return n <= longestShortSum && (n < least || !f.sumsRuns(l, n)) || n == 8 || n == 16 || n == 32
}

// sumsRuns is takesRuns for sums, of which a run takes longer, and which keep no ends that results take the place of.
func (f *groupedPlan) sumsRuns(l *layout, n int64) bool {
	if f.holdsRuns() {
		return n >= 2
	}
	return n >= 20 && f.isa.TakesRuns(n, f.args.Attrs.Code, f.size[firstOutput], f.replaces(l))
}

// holdsRuns reports whether kernels hold the sums of runs in registers.
func (f *groupedPlan) holdsRuns() bool { return f.isa.HoldsRuns(f.compute, f.args.Attrs.Code) }

// shortExtremes is shortSum for extremes: elements are mapped with these afterwards.
func shortExtremes(f *groupedPlan, l *layout, n int64) bool { return !f.takesRuns(l, n) }

// tryShortGroups lays out a reduction of such groups, and returns the number of
// its jobs; 0 where they are longer, or lie otherwise.
func (f *groupedPlan) tryShortGroups(c *call, short func(f *groupedPlan, l *layout, n int64) bool) int64 {
	g, m := &c.groups, &c.members
	inner, n := g.dims-1, m.count()
	f.joinFollowing(c)
	if oneByOne || !f.codesFollow(c, n) || c.blocks != 1 || !short(f, g, n) || m.dims > 1 || c.following < 2 {
		return 0
	}
	for k := range kernelOperands {
		size := f.size[k]
		if f.hasData(g, k) && (n > 1 && m.stride[k][0] != size || g.stride[k][inner] != n*size) {
			return 0
		}
	}
	c.groupsPerTile = min(mostShortGroups, max(1, cpu.TileSize/n))
	c.tilesPerJob = max(1, jobSize/(c.groupsPerTile*n))
	return ceilDiv(c.tilesOfGroups(), c.tilesPerJob)
}

// tilesOfGroups returns how many tiles all groups make.
func (r *reducing) tilesOfGroups() int64 {
	return r.groups.count() / r.following * ceilDiv(r.following, r.groupsPerTile)
}

// shortGroupJob makes the job that reduces some tiles of groups, and maps their
// elements with the results, if there is a kernel for it.
func shortGroupJob[C cpu.Compute](f *groupedPlan, kernel cpu.Striped, fold *folder[C], then cpu.Elementwise) job {
	return tilesOfGroupsJob(func(c *call, w *worker, first, groups int64) {
		n := c.members.count()
		a := f.armTile(c, w, first, groups)
		results := resultsOf[C](w, int(groups))
		if fold.extremes != nil {
			fold.extremes(&w.scratch, a.In[0], int(n), results)
		} else {
			f.groupParams(c, w, first, groups, n)
			terms := cpu.ColumnsOf[C](&w.scratch, 1, int(groups*n))
			terms.Clear(1)
			a.Wide, a.Sums, a.Ahead = true, terms.Row(0), f.aheadOfGroups(n)
			kernel(int(groups*n), 0, a)
			fold.sums(terms.Sums, int(n), results)
		}
		fold.finish.put(f, c, w, first, results)
		if then != nil {
			a = f.armTile(c, w, first, groups)
			f.groupParams(c, w, first, groups, n)
			if a.Stream {
				a.Ahead = c.nextGroups(f, groups)
			}
			then(int(groups*n), a)
		}
		f.putTile(c, w, first, groups, 0)
	})
}

// tilesOfGroupsJob makes the job that handles some tiles of groups, one after
// the other.
func tilesOfGroupsJob(tile func(c *call, w *worker, first, groups int64)) job {
	return func(c *call, w *worker, number int64) {
		for i := number * c.tilesPerJob; i < min(c.tilesOfGroups(), (number+1)*c.tilesPerJob); i++ {
			first, groups := c.tileOfGroups(i)
			tile(c, w, first, groups)
		}
	}
}

// tileOfGroups returns the groups of a tile.
func (r *reducing) tileOfGroups(number int64) (first, groups int64) {
	tiles := ceilDiv(r.following, r.groupsPerTile)
	first = number % tiles * r.groupsPerTile
	return number/tiles*r.following + first, min(r.groupsPerTile, r.following-first)
}

// armTile is arm, and moves the worker's cursor and the arguments to some groups,
// whose codes it unpacks. Parameters are left out.
func (f *groupedPlan) armTile(c *call, w *worker, first, groups int64) *cpu.Args {
	a, at := f.arm(w), &w.cursors[ofElements]
	c.groups.seek(at, first, maxOperands)
	for k := range a.In {
		if !f.param[k] {
			a.In[k].P, a.In[k].Stride = at.at[k], a.In[k].DType.Size()
		}
	}
	for k := range a.Out {
		a.Out[k].P, a.Out[k].Stride = at.at[firstOutput+k], a.Out[k].DType.Size()
	}
	f.copyTile(c, w, a, first, groups, 0)
	if f.packed >= 0 {
		f.unpack(w, &c.groups, at.nibble, groups*c.members.count())
	}
	return a
}

// resultsOf returns a worker's memory for the results of at most Block groups.
func resultsOf[C cpu.Compute](w *worker, groups int) [2][]C {
	return [2][]C{cpu.BlockOf[C](&w.scratch, 0, groups), cpu.BlockOf[C](&w.scratch, 1, groups)}
}
