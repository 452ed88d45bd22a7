package plans

import "github.com/isobit-ml/isobit/cpu"

// folder is how the results of a reduction's blocks become one value per sum.
type folder[C cpu.Compute] struct {
	// block returns the two results that a kernel left in lanes.
	block func(sums [2]*[cpu.Lanes]C) [2]C
	// join folds block results, in order.
	join func(s *cpu.Scratch, blocks [][2]C) [2]C
	// columns folds, for each of many groups side by side, the results that a
	// kernel left in rows of accumulators, into the first row.
	columns func(sums cpu.Columns[C], lanes int)
	lanes   int // rows of accumulators: position p of a group is added to row p % lanes
	// columnExtremes takes many rows of columns at a time, in place of the kernel; or nil.
	columnExtremes cpu.ColumnExtremes[C]
	// For many short groups: sums folds accumulators that a kernel left, one for each
	// element; extremes, if set, needs no kernel.
	sums     cpu.GroupSums[C]
	extremes cpu.GroupExtremes[C]
	short    func(f *groupedPlan, l *layout, n int64) bool // whether groups of n elements are short enough for these
	gathered int64                                         // the longest runs, in elements, that are gathered
	// together is the longest groups that follow one another, in elements, whose extremes are found together, all of a
	// call's: in longer ones there is little between one and the next. 0 for sums.
	together int64
	anyOrder bool // elements may be reduced in any order
	finish   finisher[C]
	// choose, if set, computes the results of groups of one run each in a single call,
	// and store stores them.
	choose cpu.ChooseRuns[C]
	store  finisher[C]
}

// finisher writes the results of at most Block groups. It may overwrite the results in memory.
type finisher[C cpu.Compute] func(w *worker, to resultSpans, results [2][]C)

// resultSpans are where results of groups go, and the scales of these where there is a second result.
type resultSpans struct {
	results [2]cpu.Span
	scale   cpu.Span
}

// end finishes groups side by side of which a job has all results, or keeps
// those of one block.
func (fold *folder[C]) end(f *groupedPlan, c *call, w *worker, first, block int64, results [2][]C) {
	n := int64(len(results[0]))
	if c.blocks > 1 {
		for i := range n {
			partials[C](c)[(first+i)*c.blocks+block] = [2]C{results[0][i], results[1][i]}
		}
		return
	}
	for i := int64(0); i < n; i += cpu.Block {
		m := min(cpu.Block, n-i)
		fold.finish.put(f, c, w, first+i, [2][]C{results[0][i:][:m], results[1][i:][:m]})
	}
}

// stripes folds by NUMERICS.md, section 4: lanes by halves, blocks pairwise.
func stripes[C cpu.Compute](finish finisher[C]) folder[C] {
	fold := pickSupport(cpu.FoldRows[C](), cpu.Types{})
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
		columns: pickSupport(cpu.ColumnFoldRows[C](), cpu.Types{}), lanes: cpu.Lanes,
		sums:  pickSupport(cpu.GroupSumRows[C](), cpu.Types{}),
		short: shortSum, gathered: longestGatheredSum,
		finish: finish,
	}
}

// extremes folds smallest and largest values, which are the same in any order.
func extremes[C cpu.Compute](t cpu.Types, finish finisher[C]) folder[C] {
	return folder[C]{
		block: pickSupport(cpu.MinMaxFoldRows[C](), t),
		join: func(_ *cpu.Scratch, blocks [][2]C) (r [2]C) {
			for _, b := range blocks {
				cpu.MergeMinMax(&r[0], &r[1], b[0], b[1])
			}
			return r
		},
		columns: func(sums cpu.Columns[C], _ int) { sums.FoldMinMax() }, lanes: 1,
		columnExtremes: pickSupport(cpu.ColumnExtremeRows[C](), t),
		extremes:       pickSupport(cpu.GroupExtremeRows[C](), t),
		short:          shortExtremes, gathered: longestGathered, together: longestTogether, anyOrder: true,
		finish: finish,
	}
}
