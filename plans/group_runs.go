package plans

import (
	"github.com/isobit-ml/isobit/cpu"
	"github.com/isobit-ml/isobit/tensor"
)

// Groups of one run of elements each, such as the channels of a first axis: a
// kernel takes many in a call (cpu.Runs), each with parameters and accumulators
// of its own. Calls are long, since between two of them no memory is prefetched.
// Where groups have several runs, such as blocks of a matrix or channels of images, a
// call takes one run of each group, and the next call continues their accumulators.

// leastCall is the fewest elements of a call, unless it takes a run of each of 8 groups.
const leastCall = 512

// nearBytes is about how many bytes of elements the first cache holds while they are read twice.
const nearBytes = 1 << 15

// tryGroupRuns lays out a reduction of such groups, and returns the number of its jobs; 0 where they lie otherwise.
func (r *reduction[C]) tryGroupRuns(c *call) int64 {
	rows, n := c.members.rows()
	r.joinFollowing(c)
	if oneByOne || c.following < 2 || n > jobSize/2 || !r.areRows(&c.members) || !r.blocksEndWithRows(c, n) {
		return 0
	}
	c.together = rows == 1 && r.findsTogether(c)
	switch {
	case rows == 1 && r.codesFollow(c, n):
		c.groupsPerTile = r.groupsOfCall(c, n)
	case rows > 1 && r.takesRows(c, rows, n):
		c.groupsPerTile = min(cpu.MaxGroupRuns, max(min(8, ceilDiv(leastCall, n)), c.groups.count()*c.blocks/c.leastCalls()))
	default:
		return 0
	}
	if c.tilesCopied {
		if c.groupsPerTile = min(c.groupsPerTile, copySize/n); c.groupsPerTile < 2 {
			return 0
		}
	}
	if c.blocks > 1 {
		return c.tilesOfGroups() * c.blocks
	}
	c.tilesPerJob = max(1, jobSize/(c.groupsPerTile*rows*n))
	return ceilDiv(c.tilesOfGroups(), c.tilesPerJob)
}

// leastCalls returns how many calls there are at least, so that all threads have some.
func (c *call) leastCalls() int64 { return c.parts(c.groups.count()*c.members.count(), 4) }

// areRows reports whether members are one run of elements that follow one another in all data operands, or several such.
func (f *groupedPlan) areRows(m *layout) bool {
	for k := range kernelOperands {
		if f.hasData(m, k) && m.stride[k][m.dims-1] != f.size[k] {
			return false
		}
	}
	return m.dims <= 2
}

// blocksEndWithRows reports whether groups have one block, or several that a call may take rows of n elements of: kernels
// that hold the sums of runs, and extremes, take a part of a row, too.
func (r *reduction[C]) blocksEndWithRows(c *call, n int64) bool {
	return c.blocks == 1 || c.blocks > 1 && (cpu.StripeBlock%n == 0 || r.holdsSums() || r.fold.anyOrder)
}

// holdsSums reports whether these are sums, and kernels hold those of runs in registers.
func (r *reduction[C]) holdsSums() bool { return r.fold.sums != nil && r.holdsRuns() }

// groupsOfCall returns how many whole groups, of one run of n elements each, a call takes: as many as there is room for,
// and as are calls enough for all threads.
func (r *reduction[C]) groupsOfCall(c *call, n int64) int64 {
	most := int64(cpu.MaxGroupRuns)
	switch {
	case c.together:
		most = min(cpu.Block, max(8, nearBytes/(n*r.size[0]))) // room for their results; their elements are read twice
	case r.holdsSums():
		most = cpu.Block
	}
	if r.packed >= 0 {
		most = min(most, feedSize/n)
	}
	return min(most, max(jobSize/2, min(r.longestCall(), n*c.groups.count()/c.leastCalls()))/n)
}

// groupRunsJob makes the job that reduces some tiles of groups, and maps their
// elements with the results, if there is a kernel for it; or that reduces one block
// of a tile.
func groupRunsJob[C cpu.Compute](f *groupedPlan, kernel cpu.Striped, fold *folder[C], then cpu.Elementwise) job {
	whole := tilesOfGroupsJob(func(c *call, w *worker, first, groups int64) {
		rows, size := c.members.rows()
		n := int(size)
		a := f.armGroups(c, w, first, groups)
		if fold.choose != nil && rows == 1 && !c.together {
			results := resultsOf[C](w, int(groups))
			a.Ahead = c.nextGroups(f, 1)
			if fold.choose(n, a, results) {
				fold.store.put(f, c, w, first, results)
				f.putTile(c, w, first, groups, 0)
				return
			}
			a = f.armGroups(c, w, first, groups)
		}
		var results [2][]C
		if c.together {
			results = resultsOf[C](w, int(groups))
			fold.extremes(&w.scratch, a.In[0], n, results)
		} else {
			results = reduceRows(f, c, w, a, kernel, fold, first, 0, rows*size)
		}
		fold.finish.put(f, c, w, first, results)
		if then != nil {
			a := f.armGroups(c, w, first, groups)
			a.Ahead = c.nextGroups(f, groups)
			for row := range rows {
				then(n, a)
				f.putTile(c, w, first, groups, row)
				f.moveRows(c, w, a, first, row+1, 1)
			}
		}
	})
	return func(c *call, w *worker, number int64) {
		if c.blocks == 1 {
			whole(c, w, number)
			return
		}
		block := number % c.blocks
		first, groups := c.tileOfGroups(number / c.blocks)
		_, n := c.members.rows()
		begin, a := block*cpu.StripeBlock, f.armGroups(c, w, first, groups)
		f.moveRows(c, w, a, first, begin/n, begin/n)
		fold.end(f, c, w, first, block, reduceRows(f, c, w, a, kernel, fold, first, begin, min(begin+cpu.StripeBlock, c.members.count())))
	}
}

// reduceRows reduces members [begin, end) of the groups that the arguments are at, a row of them at a time. A long row
// always begins in lane 0, and the accumulators are turned to match: a fold by halves adds the same pairs of lanes wherever
// the first is. Kernels that hold the sums of runs take short rows so, too, and fold them in the end; rows that divide the
// lanes only from memory, and none of whole stripes.
func reduceRows[C cpu.Compute](f *groupedPlan, c *call, w *worker, a *cpu.Args, kernel cpu.Striped, fold *folder[C], first, begin, end int64) [2][]C {
	rows, n := c.members.rows()
	groups, lanes, folded := a.Runs.Steps, int64(fold.lanes), cpu.ColumnsOf[C](&w.scratch, 1, a.Runs.Steps)
	held := fold.sums != nil && f.holdsRuns() && (rows == 1 || n%lanes != 0 && (a.Stream || lanes%n != 0))
	if a.Ahead = f.aheadOfGroups(n); rows > 1 && a.Stream {
		a.Ahead = f.aheadAlong(&c.members, 0) // the next row
	}
	a.Sums = folded.Row(0)
	for at := begin; at < end; {
		within, lane := at%n, int64(0)
		m := min(n-within, end-at)
		last := at+m == end
		switch a.Runs.Keep, a.Runs.Fold, a.Runs.Turn = at > begin, held && last, 0; {
		case !held && n <= lanes:
			lane = (at - begin) % lanes
		case !last:
			a.Runs.Turn = int(m % lanes)
		}
		if within > 0 {
			*a = a.At(within)
		}
		kernel(int(m), lane, a)
		if within > 0 {
			*a = a.At(-within)
		}
		if at += m; at%n == 0 {
			if fold.sums != nil { // extremes write no elements
				f.putTile(c, w, first, int64(groups), at/n-1)
			}
			f.moveRows(c, w, a, first, at/n, 1)
		}
	}
	if held {
		return folded.Sums
	}
	return groupResults(w, fold, groups)
}

// rows returns how many runs the members of a group are, and of how many elements each.
func (l *layout) rows() (rows, size int64) {
	rows, size = 1, l.count()
	if l.dims == 2 {
		rows, size = l.size[0], l.size[1]
	}
	return rows, size
}

// moveRows moves the arguments, of groups from the first on, by some rows of members to the row with a number, if there is one.
func (f *groupedPlan) moveRows(c *call, w *worker, a *cpu.Args, first, to, by int64) {
	m := &c.members
	if rows, _ := m.rows(); to == rows {
		return // no pointer past the end
	}
	for k := range a.In {
		if !f.param[k] {
			a.In[k].P = m.along(a.In[k].P, k, 0, by)
		}
	}
	for k := range a.Out {
		a.Out[k].P = m.along(a.Out[k].P, firstOutput+k, 0, by)
	}
	f.copyTile(c, w, a, first, int64(a.Runs.Steps), to)
}

// findsTogether reports whether the extremes of all groups of a call are found together, see folder.
func (r *reduction[C]) findsTogether(c *call) bool {
	n, g := c.members.count(), &c.groups
	return n <= r.fold.together && g.stride[0][g.dims-1] == n*r.size[0]
}

// leastApart is how many bytes of a group, which does not follow the last one, a kernel chooses parameters for as fast where
// they lie: measured on Zen 5.
const leastApart = 1 << 8

// choosesApart reports whether kernels choose the parameters of groups where these lie, in one step.
func (r *reduction[C]) choosesApart(c *call) bool {
	return r.fold.choose != nil && c.members.dims == 1 && c.members.count()*r.size[0] >= leastApart
}

// takesRows reports whether a call takes one of several runs of each group, of n elements. They are better gathered where
// runs are short, or calls with one of each group, and there are enough to pay for it. Kernels that hold the sums of runs
// lose less.
func (r *reduction[C]) takesRows(c *call, rows, n int64) bool {
	held := r.holdsSums()
	short := n < 8 || n < 16 && n*c.following < 1024
	if held {
		short = n < 4 || n*c.following < 256 && !r.args.Stream
	}
	if r.packed >= 0 || short && rows*n >= cpu.Lanes {
		return false
	}
	const once = true // no element of extremes may be handled twice
	switch {
	case held:
		return true
	case r.fold.anyOrder:
		return r.isa != cpu.AVX2 || r.isa.TakesRuns(n, tensor.None, 0, once)
	}
	return n%cpu.Lanes == 0 || cpu.Lanes%n == 0 || n > cpu.Lanes && r.sumsRuns(&c.groups, n)
}

// groupResults folds what a kernel left in the lanes of groups: sums, by the kernel that sums
// short groups, since lanes are groups of cpu.Lanes elements.
func groupResults[C cpu.Compute](w *worker, fold *folder[C], groups int) [2][]C {
	results := resultsOf[C](w, groups)
	if fold.sums == nil {
		for i := range groups {
			result := fold.block(cpu.LanesOfGroup[C](&w.scratch, i))
			results[0][i], results[1][i] = result[0], result[1]
		}
		return results
	}
	lanes, sums := cpu.LanesOfGroups[C](&w.scratch, groups), cpu.BlockOf[C](&w.scratch, 2, 2*groups)
	half := groups * cpu.Lanes
	fold.sums([2][]C{lanes[:half], lanes[half:]}, cpu.Lanes, [2][]C{sums[:groups], sums[groups:]})
	for i := range groups {
		results[0][i], results[1][i] = sums[2*i], sums[2*i+1]
	}
	return results
}

// armGroups is armTile for a call with a run for each group.
func (f *groupedPlan) armGroups(c *call, w *worker, first, groups int64) *cpu.Args {
	a, g := f.armTile(c, w, first, groups), &c.groups
	a.Runs = cpu.Runs{Steps: int(groups), Strands: 1, Step: g.steps(g.dims - 1)}
	if f.packed >= 0 {
		a.Runs.Step[f.packed] = c.members.count()
	}
	f.aimAtParams(c, w, first, groups)
	return a
}
