package cuda

// rowsArgs is struct Rows.
type rowsArgs struct {
	rows, columns                                             int64
	source, start, stop, found, chunks, single, several, sums uint64
	chunkBlocks, logLanes, each, _                            int32
}

const (
	fewSources = 8   // a row with more is in a list
	listBlocks = 528 // at most so many sum what is in the lists,
	foldBlocks = 264 // and so many fold it: four and two for each multiprocessor of an H100
	warpLanes  = 32
	rowPart    = 16 // bytes of an entry of a list
	rowsAtOnce = 4  // what a warp takes one after the other
)

// rowSums plans sums of rows of a gradient in Chunk order: a sort of sources by
// the row that they go to, then the kernels of embedding_rows.cuh.
type rowSums struct {
	sorting
	rows, columns           int64
	find, sum               int // kernels; behind sum there is fold
	chunks, single, several int64
	sums                    int64
	slots, singles          int64
}

var rowSumKernels = []string{"_sums", "_fold"}

// rowSumsOf plans for sources that go to a row each; job names the kernels.
func (prog *Program) rowSumsOf(sources, rows, columns int64, job string) *rowSums {
	s := &rowSums{sorting: prog.sortingOf(sources, rows, 0), rows: rows, columns: columns}
	// As many as a row can have with so many sources: see scatterOf.
	s.slots, s.singles = sources/(scatterChunk/2), min(rows, sources/fewSources)
	s.find = prog.kernelIf(s.singles > 0, "rows_find")
	s.sum = prog.suffixed(job, rowSumKernels, true, s.slots > 0)
	s.chunks, s.single, s.several = prog.reserve(s.slots*rowPart), prog.reserve(s.singles*rowPart), prog.reserve(s.slots*rowPart)
	s.sums = prog.reserve(s.slots * columns * prog.Compute.Size())
	return s
}

// args returns struct Rows. packs is whether rows are whole packs.
func (s *rowSums) args(r *run, packs bool) rowsArgs {
	width := int64(1)
	if packs {
		width = scatterWidth
	}
	lanes := int64(warpLanes)
	for lanes > 1 && lanes/2*width >= s.columns {
		lanes /= 2
	}
	a := rowsArgs{
		rows: s.rows, columns: s.columns, source: s.source(r), start: r.at(s.start), stop: r.at(s.start + 4*s.keys),
		found: r.at(s.found), chunks: r.at(s.chunks), single: r.at(s.single), several: r.at(s.several), sums: r.at(s.sums),
		logLanes: logOf(lanes), each: int32(warpLanes / lanes * min(rowsAtOnce, lanes)),
	}
	units := (s.slots + s.singles) * ceilDiv(s.columns, warpLanes)
	a.chunkBlocks = int32(min(listBlocks, ceilDiv(units*warpLanes, blockThreads)))
	return a
}

// launchRowSums runs the kernels; args are the job's, with those of rows.
func launchRowSums[A any](r *run, s *rowSums, rows *rowsArgs, args *A) {
	if s.singles > 0 {
		launch(r, s.find, threads(s.rows), rows)
	}
	warps := ceilDiv(s.rows, int64(rows.each))
	launch(r, s.sum, blocks(int64(rows.chunkBlocks)+ceilDiv(warps*warpLanes, blockThreads), gridX), args)
	if s.slots > 0 {
		launch(r, s.sum+1, blocks(s.slots*((s.columns+7)/8), foldBlocks), args)
	}
}

// rowsKernels lists the kernels of sums of rows for jobs, and of their sort.
func rowsKernels(jobs []string) []string {
	return append(append(withSuffixes(jobs, rowSumKernels), sortingKernels...), "rows_find")
}
