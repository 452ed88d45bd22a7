package plans

import (
	"unsafe"

	"github.com/isobit-ml/isobit/cpu"
)

// folder is how the results of a reduction's blocks become one value per sum.
type folder[C cpu.Compute] struct {
	// block returns the two results that a kernel left in lanes.
	block func(sums [2]*[cpu.Lanes]C) [2]C
	// join folds block results, in order.
	join func(s *cpu.Scratch, blocks [][2]C) [2]C
	// columns folds, for each of many groups side by side, the results that a
	// kernel left in rows of accumulators, into the first row.
	columns func(sums cpu.Columns[C], lanes int)
	lanes   int // rows of accumulators that positions take in turn
	// Of many short groups, sums adds up what a kernel left in accumulators for
	// each element; or extremes needs no kernel.
	sums     cpu.GroupSums[C]
	extremes cpu.GroupExtremes[C]
	short    func(isa cpu.ISA, n int64) bool // of how many elements this pays
	gathered int64                           // of how many elements runs are gathered
	anyOrder bool                            // of a group's elements
	finish   finisher[C]
	// choose does all for groups of a run each, if there is a way to, but store
	// their results.
	choose cpu.ChooseRuns[C]
	store  finisher[C]
}

// finisher writes the results of groups along the innermost dimension of their
// layout, at most Block of them. The cursor is at the first. The memory of the
// results is its to use.
type finisher[C cpu.Compute] func(w *worker, l *layout, cur *cursor, results [2][]C)

// end finishes groups side by side of which a job has all results, or keeps
// those of one block.
func (fold *folder[C]) end(c *call, w *worker, first, block int64, results [2][]C) {
	n := int64(len(results[0]))
	if c.blocks > 1 {
		for i := range n {
			partials[C](c)[(first+i)*c.blocks+block] = [2]C{results[0][i], results[1][i]}
		}
		return
	}
	for i := int64(0); i < n; i += cpu.Block {
		m := min(cpu.Block, n-i)
		c.groups.seek(&w.cursors[0], first+i, maxOperands)
		fold.finish(w, &c.groups, &w.cursors[0], [2][]C{results[0][i:][:m], results[1][i:][:m]})
	}
}

// stripes folds by NUMERICS.md, section 4: lanes by halves, blocks pairwise.
func stripes[C cpu.Compute](finish finisher[C]) folder[C] {
	fold := pickByCompute[cpu.Fold[C]](cpu.Types{}, cpu.FoldRows32, cpu.FoldRows64)
	return folder[C]{
		block: func(sums [2]*[cpu.Lanes]C) [2]C { return [2]C{fold(sums[0]), fold(sums[1])} },
		join: func(s *cpu.Scratch, blocks [][2]C) [2]C {
			t0, t1 := cpu.TreeOf[C](s, 0), cpu.TreeOf[C](s, 1)
			for _, b := range blocks {
				t0.Push(b[0])
				t1.Push(b[1])
			}
			return [2]C{t0.Sum(), t1.Sum()}
		},
		columns: cpu.Columns[C].Fold, lanes: cpu.Lanes,
		sums:  pickByCompute[cpu.GroupSums[C]](cpu.Types{}, cpu.GroupSumRows32, cpu.GroupSumRows64),
		short: shortSum, gathered: longestGatheredSum,
		finish: finish,
	}
}

// extremes folds smallest and largest values, whose order is free.
func extremes[C cpu.Compute](t cpu.Types, finish finisher[C]) folder[C] {
	return folder[C]{
		block: pickByCompute[cpu.MinMaxFold[C]](t, cpu.MinMaxFoldRows32, cpu.MinMaxFoldRows64),
		join: func(_ *cpu.Scratch, blocks [][2]C) (r [2]C) {
			for _, b := range blocks {
				cpu.MergeMinMax(&r[0], &r[1], b[0], b[1])
			}
			return r
		},
		columns: func(sums cpu.Columns[C], _ int) { sums.FoldMinMax() }, lanes: 1,
		extremes: pickByCompute[cpu.GroupExtremes[C]](t, cpu.GroupExtremeRows32, cpu.GroupExtremeRows64),
		short:    shortExtremes, gathered: longestGathered, anyOrder: true,
		finish: finish,
	}
}

// blocksOf returns the number of stripe blocks of a reduction of n elements.
func blocksOf(n int64) int64 { return ceilDiv(n, cpu.StripeBlock) }

// reductionWorkspace returns the bytes that hold the block results of the
// region that needs most: none where every reduction is one block.
func reductionWorkspace[C cpu.Compute](f *family) (bytes int64) {
	for i := range f.regions {
		groups, members := f.regions[i].counts()
		if blocks := blocksOf(members); blocks > 1 {
			bytes = max(bytes, groups*blocks*int64(unsafe.Sizeof([2]C{})))
		}
	}
	return bytes
}

func (r *region) counts() (groups, members int64) {
	groups, members = 1, 1
	for _, d := range r.dims {
		if d.group {
			groups *= d.size
		} else {
			members *= d.size
		}
	}
	return groups, members
}

// runReduction makes the run of an op that reduces every group, with a kernel
// that may map its elements at the same time.
func runReduction[C cpu.Compute](f *family, kernel cpu.Striped, fold folder[C]) func(c *call) error {
	return runThenMap(f, kernel, fold, nil)
}

// runThenMap is runReduction, followed by a kernel that maps the elements of a
// group with the group's results, if there is one.
func runThenMap[C cpu.Compute](f *family, kernel cpu.Striped, fold folder[C], then cpu.Elementwise) func(c *call) error {
	block := func(c *call, w *worker, group, number int64) [2]C {
		a, cur, l := f.arm(w), w.members(c, group), &c.members
		sums := cpu.BothLanes[C](a.Scratch)
		clear(sums[0][:])
		clear(sums[1][:])
		begin := number * cpu.StripeBlock
		end := min(begin+cpu.StripeBlock, l.count())
		pos := int64(0)
		l.walk(cur, begin, end, kernelOperands, func(n int64) {
			l.spans(a, cur)
			f.feed(w, l, cur, n, func(n int64, a *cpu.Args) {
				kernel(int(n), pos, a)
				pos += n
			})
		})
		return fold.block(sums)
	}
	finish := func(c *call, w *worker, group int64, result [2]C) {
		cur, results := &w.cursors[0], resultsOf[C](w, 1)
		results[0][0], results[1][0] = result[0], result[1]
		c.groups.seek(cur, group, maxOperands)
		fold.finish(w, &c.groups, cur, results)
	}
	mapGroup := func(c *call, w *worker, group int64) {
		a, cur, l := f.arm(w), w.members(c, group), &c.members
		a.Ahead = c.nextGroups(f, 1)
		l.walk(cur, 0, l.count(), kernelOperands, func(n int64) {
			l.spans(a, cur)
			f.feed(w, l, cur, n, func(n int64, a *cpu.Args) { then(int(n), a) })
		})
	}
	// One job is a range of whole groups.
	whole := func(c *call, w *worker, number int64) {
		per := c.groupsPerJob()
		for g := number * per; g < min((number+1)*per, c.groups.count()); g++ {
			var result [2]C
			if c.blocks > 0 {
				result = block(c, w, g, 0)
			}
			finish(c, w, g, result)
			if then != nil && !f.mapsLater(c) {
				mapGroup(c, w, g)
			}
		}
	}
	// One job is a block of a group; then one job joins each group's blocks.
	part := func(c *call, w *worker, number int64) {
		partials[C](c)[number] = block(c, w, number/c.blocks, number%c.blocks)
	}
	join := func(c *call, w *worker, group int64) {
		finish(c, w, group, fold.join(&w.scratch, partials[C](c)[group*c.blocks:][:c.blocks]))
	}
	mapAll := newMapJobs(f, then)
	// By how groups lie, best first; the last two take any.
	ways := []struct {
		jobs   func(c *call) int64
		run    job
		mapped func(c *call) bool // it maps elements, too
	}{
		{f.columns, columnJob(f, kernel, fold), never},
		{func(c *call) int64 { return f.shortGroups(c, fold.short) }, shortGroupJob(f, kernel, fold, then), always},
		{f.groupRuns, groupRunsJob(f, kernel, fold, then), always},
		{func(c *call) int64 { return f.gathers(c, fold.gathered) }, gatherJob(f, kernel, fold), never},
		{(*call).wholeGroups, whole, func(c *call) bool { return !f.mapsLater(c) }},
		{func(c *call) int64 { return c.groups.count() * c.blocks }, part, never},
	}
	return func(c *call) error {
		for i := range f.regions {
			r := &f.regions[i]
			f.layoutOf(c, &c.groups, r, maxOperands, groupDims)
			f.layoutOf(c, &c.members, r, kernelOperands, memberDims)
			if fold.anyOrder && then == nil && f.packed < 0 && !oneByOne {
				c.members.onceEach(0)
				c.members.asStored(0, kernelOperands)
			}
			groups, members := c.groups.count(), c.members.count()
			c.blocks = blocksOf(members)
			for i := range ways {
				way := &ways[i]
				jobs := way.jobs(c)
				if jobs == 0 {
					continue
				}
				c.parallel(jobs, groups*members, way.run)
				if c.blocks > 1 {
					c.parallel(groups, 0, join)
				}
				if then != nil && !way.mapped(c) {
					f.mapRegion(c, r, mapAll)
				}
				break
			}
		}
		return nil
	}
}

// mapsLater reports whether groups are mapped when all have their results:
// those that may share a byte, and those in runs so short that tiles pay for
// reading the elements again.
func (f *family) mapsLater(c *call) bool {
	return f.packed >= 0 || c.members.size[c.members.dims-1] <= longestShortGroup
}

// partials returns the block results in the workspace.
func partials[C cpu.Compute](c *call) [][2]C {
	n := c.groups.count() * c.blocks
	return unsafe.Slice((*[2]C)(unsafe.Pointer(unsafe.SliceData(c.workspace))), n)
}

func always(*call) bool { return true }
func never(*call) bool  { return false }

// wholeGroups returns how many jobs handle whole groups: none where groups have
// several blocks.
func (c *call) wholeGroups() int64 {
	if c.blocks > 1 {
		return 0
	}
	return ceilDiv(c.groups.count(), c.groupsPerJob())
}

// groupsPerJob makes jobs of about jobSize elements.
func (c *call) groupsPerJob() int64 { return max(1, jobSize/max(1, c.members.count())) }

// nextGroups returns how far behind the elements of some groups lie those of the
// next: they are asked for while these are mapped, if caches hold both.
func (c *call) nextGroups(f *family, groups int64) int {
	const near = 1 << 17 // bytes
	if g := &c.groups; g.dims > 0 && groups*c.members.count()*f.sizeOf(0) <= near {
		return int(groups * g.stride[0][g.dims-1])
	}
	return 0
}

// members returns a cursor for the members of a group.
func (w *worker) members(c *call, group int64) *cursor {
	at, cur := &w.cursors[0], &w.cursors[1]
	c.groups.seek(at, group, kernelOperands)
	for k := range kernelOperands {
		cur.shift[k] = int64(uintptr(at.at[k]) - uintptr(c.groups.start[k]))
	}
	cur.shiftNibble = at.nibble - c.groups.first
	return cur
}

// pickByCompute is pickSupport from the table whose helpers are of type F.
func pickByCompute[F, F32, F64 any](t cpu.Types, f32 []cpu.Row[F32], f64 []cpu.Row[F64]) F {
	if f, ok := any(pickSupport(f32, t)).(F); ok {
		return f
	}
	return any(pickSupport(f64, t)).(F)
}

// pickSupport picks the first of some helpers of kernels that the process may use.
func pickSupport[F any](table []cpu.Row[F], t cpu.Types) F {
	f, _ := cpu.PickUpTo(table, rowsCap(), t)
	return f
}
