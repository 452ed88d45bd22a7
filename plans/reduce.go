package plans

import (
	"unsafe"

	"github.com/isobit-ml/isobit/cpu"
)

// reducing is how a call reduces groups.
type reducing struct {
	groups        layout
	members       layout // the elements of the first group
	blocks        int64  // of each group
	following     int64  // how many groups follow one another, of which tiles are parts
	groupsPerTile int64  // of groups that lie side by side, or are short
	gathered      int64  // of each group that a call takes of groups that are gathered, if not as many as usual
	tilesPerJob   int64
	together      bool // extremes of all groups of a call are found together (group_runs.go)
	tilesCopied   bool // their elements are copied first
	runsCopied    bool // runs of inputs that are expanded are
}

// blocksOf returns the number of stripe blocks of a reduction of n elements.
func blocksOf(n int64) int64 { return ceilDiv(n, cpu.StripeBlock) }

// reductionWorkspace returns the bytes that hold the block results of the
// region that needs most: none where every reduction is one block.
func reductionWorkspace[C cpu.Compute](f *groupedPlan) (bytes int64) {
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

// reduction is an op that reduces every group: a kernel leaves accumulators, and may map
// the elements at the same time; fold makes results of the accumulators.
type reduction[C cpu.Compute] struct {
	*groupedPlan
	kernel cpu.Striped
	fold   folder[C]
	then   cpu.Elementwise  // maps the elements of a group with its results; or nil
	apart  func() *apart[C] // the same in two passes; nil where then is
}

// way is one way to reduce the groups of a region, by how they lie.
type way struct {
	jobs   func(c *call) int64 // lays the groups out and returns the number of jobs; 0 where they lie otherwise
	run    job
	mapped func(c *call) bool // whether run would map the elements, too
}

// The ways to reduce groups, best first: see the table in DESIGN.md.
const (
	inColumns = iota
	inShortGroups
	inGroupRuns
	byGathering
	byGroups // any of one block
	byBlocks // any
)

func (r *reduction[C]) ways() []way {
	whole := func(c *call) bool { return c.members.size[c.members.dims-1] > longestShortGroup }
	return []way{
		inColumns: {
			func(c *call) int64 { return r.tryColumns(c, r.fold.columnExtremes != nil) },
			columnJob(r.groupedPlan, r.kernel, &r.fold), never,
		},
		inShortGroups: {
			func(c *call) int64 { return r.tryShortGroups(c, r.fold.short) },
			shortGroupJob(r.groupedPlan, r.kernel, &r.fold, r.then), always,
		},
		inGroupRuns: {
			func(c *call) int64 { return r.tryGroupRuns(c) },
			groupRunsJob(r.groupedPlan, r.kernel, &r.fold, r.then),
			func(c *call) bool { return c.members.dims == 1 || c.blocks == 1 && whole(c) },
		},
		byGathering: {
			func(c *call) int64 { return r.tryGather(c, r.fold.gathered) },
			gatherJob(r.groupedPlan, r.kernel, &r.fold), never,
		},
		byGroups: {func(c *call) int64 { return c.wholeGroups() }, r.reduceGroups, whole},
		byBlocks: {func(c *call) int64 { return c.groups.count() * c.blocks }, r.reduceBlock, never},
	}
}

// run makes the run of the op.
func (r *reduction[C]) run() func(c *call) error {
	ways, join := r.ways(), job(r.joinBlocks)
	return func(c *call) error {
		if c.seen.again {
			r.again(c, ways)
			return nil
		}
		for i := range r.regions {
			region := &r.regions[i]
			number, jobs := r.best(c, region, ways)
			way, later := &ways[number], r.then != nil && !r.mapsWell(c, &ways[number])
			if later {
				first := r.apart()
				number, jobs = first.best(c, region, first.ways)
				way = &first.ways[number]
			}
			r.laySides(c, &c.groups, c.groups.dims)
			groups, members := c.groups.count(), c.members.count()
			c.parallel(jobs, groups*members, way.run)
			if c.blocks > 1 {
				c.parallel(groups, 0, join)
			}
			s, pass := &c.seen, noted{number, jobs, groups * members}
			if s.laid, s.twice = false, later; later {
				r.mapRegion(c, region, &r.apart().then)
				s.first = pass
			} else {
				s.laid, s.noted = true, pass
			}
			s.laid = s.laid && c.blocks <= 1 && !c.hasCopies
		}
		return nil
	}
}

// best lays out a region and returns the best way for it, of copies or not, and how many jobs that makes.
func (r *reduction[C]) best(c *call, region *region, ways []way) (number int, jobs int64) {
	number, jobs = r.choose(c, region, ways)
	if r.mayCopyTiles(c, number) {
		return r.chooseCopied(c, region, ways, number, jobs)
	}
	return number, jobs
}

// choose lays out a region and returns the best way for it, and how many jobs that makes.
func (r *reduction[C]) choose(c *call, region *region, ways []way) (number int, jobs int64) {
	r.layoutOf(c, &need(&c.reducing).groups, region, maxOperands, groupDims)
	if r.layoutOf(c, &c.members, region, kernelOperands, memberDims); r.packed < 0 && !oneByOne {
		c.groups.asStored(0, maxOperands) // each has a result of its own: any order will do
	}
	if r.fold.anyOrder && r.then == nil && r.packed < 0 && !oneByOne {
		c.members.onceEach(0)
		c.members.asStored(0, kernelOperands)
	}
	c.blocks, c.tilesCopied, c.runsCopied = blocksOf(c.members.count()), false, false
	for ; number < len(ways)-1; number++ {
		if jobs = ways[number].jobs(c); jobs > 0 {
			return number, jobs
		}
	}
	return number, ways[number].jobs(c)
}

// longestCall returns about how many elements a call takes. Where another call maps them
// afterwards, they are few, so that caches still hold them.
func (r *reduction[C]) longestCall() int64 {
	if r.then != nil && r.fold.choose == nil {
		return jobSize / 2
	}
	return 2 * jobSize
}

// runUnpacked makes the run of an op with packed codes, which are unpacked first where
// groups have them in short runs or apart.
func (r *reduction[C]) runUnpacked(isa cpu.ISA, packed func(c *call) error) func(c *call) error {
	bytes := *r.groupedPlan
	bytes.packed, bytes.isa = -1, isa
	whole, unpack := (&reduction[C]{groupedPlan: &bytes, kernel: r.kernel, fold: r.fold}).run(), job(r.unpackRows)
	return func(c *call) error {
		if !r.scattered(c) {
			return packed(c)
		}
		r.unpackWhole(c, unpack)
		return whole(c)
	}
}

// reduceGroups is the job of a range of whole groups.
func (r *reduction[C]) reduceGroups(c *call, w *worker, number int64) {
	per := c.groupsPerJob()
	for g := number * per; g < min((number+1)*per, c.groups.count()); g++ {
		var result [2]C
		if c.blocks > 0 {
			result = r.resultOf(c, w, g, 0)
		}
		r.finish(c, w, g, result)
		if r.then != nil {
			r.mapGroup(c, w, g)
		}
	}
}

// reduceBlock is the job of one block of a group; joinBlocks then joins each
// group's.
func (r *reduction[C]) reduceBlock(c *call, w *worker, number int64) {
	partials[C](c)[number] = r.resultOf(c, w, number/c.blocks, number%c.blocks)
}

func (r *reduction[C]) joinBlocks(c *call, w *worker, group int64) {
	r.finish(c, w, group, r.fold.join(&w.scratch, partials[C](c)[group*c.blocks:][:c.blocks]))
}

// resultOf reduces one block of a group.
func (r *reduction[C]) resultOf(c *call, w *worker, group, block int64) [2]C {
	a, cur, l := r.arm(w), w.members(c, group), &c.members
	sums := cpu.BothLanes[C](a.Scratch)
	clear(sums[0][:])
	clear(sums[1][:])
	begin := block * cpu.StripeBlock
	end := min(begin+cpu.StripeBlock, l.count())
	pos := int64(0)
	l.walk(cur, begin, end, kernelOperands, func(n int64) {
		l.spans(a, cur)
		kernel := func(n int64, a *cpu.Args) {
			r.kernel(int(n), pos, a)
			pos += n
		}
		if c.runsCopied {
			r.copyRun(c, w, begin+pos, n, kernel)
		} else {
			r.feed(w, l, cur, n, kernel)
		}
	})
	return r.fold.block(sums)
}

// finish writes the results of one group.
func (r *reduction[C]) finish(c *call, w *worker, group int64, result [2]C) {
	results := resultsOf[C](w, 1)
	results[0][0], results[1][0] = result[0], result[1]
	r.fold.finish.put(r.groupedPlan, c, w, group, results)
}

// partials returns the block results in the workspace.
func partials[C cpu.Compute](c *call) [][2]C {
	return valuesIn[[2]C](c.workspace, c.groups.count()*c.blocks)
}

func always(*call) bool { return true }
func never(*call) bool  { return false }

// wholeGroups returns how many jobs handle whole groups: none where groups have
// several blocks.
func (r *reducing) wholeGroups() int64 {
	if r.blocks > 1 {
		return 0
	}
	return ceilDiv(r.groups.count(), r.groupsPerJob())
}

// groupsPerJob makes jobs of about jobSize elements.
func (r *reducing) groupsPerJob() int64 { return max(1, jobSize/max(1, r.members.count())) }

// nextGroups returns the distance in bytes from some groups' elements to the next groups',
// which are prefetched while these are mapped, or 0 where the caches do not hold both.
func (r *reducing) nextGroups(f *groupedPlan, groups int64) int {
	const near = 1 << 17 // bytes
	if g := &r.groups; g.dims > 0 && groups*r.members.count()*f.size[0] <= near {
		return int(groups) * f.aheadAlong(g, g.dims-1)
	}
	return 0
}

// aheadAlong returns how many bytes of a data input lie between neighbours along a dimension.
func (f *groupedPlan) aheadAlong(l *layout, d int) int {
	step := l.steps(d)
	return int(step[f.firstMoved(&step)])
}

// firstMoved returns the data input whose steps are not 0, the first of two.
func (f *groupedPlan) firstMoved(step *[kernelOperands]int64) int {
	if step[0] == 0 && !f.param[1] {
		return 1
	}
	return 0
}

// aheadOfGroups returns how many bytes ahead groups of n elements are prefetched. Sums of
// short groups keep the processor from looking ahead itself.
func (f *groupedPlan) aheadOfGroups(n int64) int {
	switch {
	case !f.args.Stream || n > shortFarRun:
		return 0
	case f.isa == cpu.AVX512:
		return shortAhead // measured on Zen 5, with sums
	}
	return farAhead
}

// members returns a cursor for the members of a group.
func (w *worker) members(c *call, group int64) *cursor {
	at, cur := &w.cursors[ofElements], &w.cursors[ofMembers]
	c.groups.seek(at, group, kernelOperands)
	for k := range kernelOperands {
		cur.shift[k] = int64(uintptr(at.at[k]) - uintptr(c.groups.start[k]))
	}
	cur.shiftNibble = at.nibble - c.groups.first
	return cur
}
