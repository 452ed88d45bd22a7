package cuda

import (
	"slices"

	"github.com/isobit-ml/isobit/tensor"
)

// The kernels of a reduction by rows, rows.cuh, of which the first has no suffix,
// and by columns.
var (
	rowKernels    = []string{"", "_fold", "_packs"}
	columnKernels = []string{"", "_fold", "_packs", "_column", "_columns", "_lanes", "_short"}
	laneKernels   = []string{"", "_fold", "_lanes"} // of one that leaves lanes' sums
	sumKernels    = append(slices.Clip(columnKernels), "_few", "_few_columns")
)

const (
	rowsOne = iota
	rowsFold
	rowsPacks
	columnsOne
	columnsPacks
	columnsFold
	shortRows
	longRows
	longColumns
)

// rowKernel notes a reduction's kernels and returns the first's number; packed says
// whether elements may move several at a time.
func (prog *Program) rowKernel(name string, s *stripeArgs, packed bool) int {
	return prog.suffixed(name, rowKernels, true, s.blocks > 1, packed)
}

// suffixed notes kernels that follow one another, those that may run, and returns the
// first's number.
func (prog *Program) suffixed(name string, suffixes []string, runs ...bool) (first int) {
	first = len(prog.kernels)
	for i, suffix := range suffixes {
		prog.kernelIf(runs[i], "%s%s", name, suffix)
	}
	return first
}

// rowNames and columnNames list the kernels of reductions.
func rowNames(names []string) []string    { return withSuffixes(names, rowKernels) }
func columnNames(names []string) []string { return withSuffixes(names, columnKernels) }
func sumNames(names []string) []string    { return withSuffixes(names, sumKernels) }
func laneNames(names []string) []string   { return withSuffixes(names, laneKernels) }

func withSuffixes(names, suffixes []string) (all []string) {
	for _, n := range names {
		for _, suffix := range suffixes {
			all = append(all, n+suffix)
		}
	}
	return all
}

// columnsOf reserves workspace for the sums of lanes.
func (prog *Program) columnsOf(s *stripeArgs, sums int, compute tensor.DType) (lanes int64) {
	return prog.reserve(s.reductions * s.blocks * stripeLanes * int64(sums) * compute.Size())
}

// shareThreads lets as many threads share a reduction as have something to add,
// size elements at a time each.
func (s *stripeArgs) shareThreads(size int64) {
	most := stripeLanes / max(size, 2)
	s.logThreads = logOf(min(most, ceilDiv(s.longest, size)))
}

// packedRows is how many elements of rows of some tensors move at once.
func packedRows(columns int64, d tensor.DType, tensors ...*tensorArg) int64 {
	size := packBytes / d.Size()
	whole := columns%size == 0
	for _, t := range tensors {
		whole = whole && t.rank == 0
	}
	if !whole {
		return 1
	}
	return size
}

const (
	rowThreads = 128
	rowSpan    = 512 // row_span
)

// launchRows runs a reduction by rows, size elements at a time.
func launchRows[A any](r *run, kernel int, s *stripeArgs, partial, size int64, args *A) {
	if s.reductions == 0 {
		return
	}
	s.shareThreads(size)
	k := rowsOne
	if size > 1 {
		k = rowsPacks
	}
	s.locate(r, partial)
	g := blocks(ceilDiv(s.reductions*s.blocks<<s.logThreads, rowThreads), mostBlocks)
	launch(r, kernel+k, g.of(rowThreads), args)
	launchFold(r, kernel+rowsFold, s, args)
}

// launchColumns is the same for reductions whose elements take turns in memory.
func launchColumns[A any](r *run, kernel int, s *stripeArgs, partial, lanes, size int64, args *A) {
	k := columnsOne
	if size > 1 {
		k = columnsPacks
	}
	s.lanes = r.at(lanes)
	s.locate(r, partial)
	g := blocks(ceilDiv(s.reductions/size*s.blocks*stripeLanes, rowThreads), mostBlocks)
	launch(r, kernel+k, g.of(rowThreads), args)
	launchLanes(r, kernel+columnsFold, kernel+rowsFold, s, args)
}

// few reports whether a reduction's kernels are those of few long ones.
func (s *stripeArgs) few() bool { return s.longest >= 1024 && s.reductions*s.blocks < 4096 }

// launchFew is launchRows for few long reductions.
func launchFew[A any](r *run, kernel int, s *stripeArgs, partial int64, args *A) {
	s.locate(r, partial)
	launch(r, kernel+longRows, blocks(s.reductions*s.blocks, mostBlocks), args)
	launchFold(r, kernel+rowsFold, s, args)
}

// launchFewColumns is launchColumns for few long reductions.
func launchFewColumns[A any](r *run, kernel int, s *stripeArgs, partial, lanes int64, args *A) {
	s.lanes = r.at(lanes)
	s.locate(r, partial)
	launch(r, kernel+longColumns, blocks(ceilDiv(s.reductions, stripeLanes)*stripeLanes*s.blocks, mostBlocks), args)
	launchLanes(r, kernel+columnsFold, kernel+rowsFold, s, args)
}

// launchLanes folds what lanes of reductions have, then their blocks.
func launchLanes[A any](r *run, kernel, fold int, s *stripeArgs, args *A) {
	launch(r, kernel, threads((s.reductions+3)/4*s.blocks*32), args)
	launchFold(r, fold, s, args)
}

// shortRow is the length of launchShort's longest reductions.
const shortRow = 4 * stripeLanes

// launchShort is launchRows for short reductions that follow one another.
func launchShort[A any](r *run, kernel int, s *stripeArgs, args *A) {
	launch(r, kernel+shortRows, threads((s.reductions+31)/32*32), args)
}
