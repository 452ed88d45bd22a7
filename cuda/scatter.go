package cuda

import (
	"slices"

	"github.com/isobit-ml/isobit/tensor"
)

type sortArgs struct {
	n                    int64
	keys, pairs          uint64
	pairsOut             uint64
	keysOut, valuesOut   uint64
	totals, tiles, taken uint64
	pass, _              int32
}

// keysArgs is struct Keys.
type keysArgs struct {
	keys, totals uint64
	passes, _    int32
}

type countArgs struct {
	counts keysArgs
	keys   uint64
	n      int64
}

type runArgs struct {
	n, limit          int64
	keys, start, stop uint64
}

type fillArgs struct {
	n, words uint64
	value, _ uint32
}

// scatterArgs is struct Scatter.
type scatterArgs struct {
	destinations, columns                int64
	source, start, stop, hot, slot, sums uint64
}

const (
	foundWords   = 3
	sortDigits   = 256
	countAtOnce  = 4
	countBlocks  = 1056
	hotBlocks    = 2048    // at most so many sum what goes to hot destinations
	sortMany     = 1 << 17 // from so many positions on, a thread sorts sortLong of them, else sortShort
	sortShort    = 4
	sortLong     = 16
	scatterChunk = 256
	scatterWidth = 4 // columns per thread
	pixelWidth   = 8 // likewise, of gradients whose weights leave registers for them
)

// sorting plans a stable sort of positions by key, and where runs of equal
// keys start and stop.
type sorting struct {
	positions, keys             int64       // keys: those that name a run; others are as large
	pass, runs, fill            int         // kernels
	pairs                       [2][2]int64 // offsets: two buffers of keys and values, or of pairs of them
	tiles, totals, taken, start int64
	found                       int64 // words for what is found among the runs; foundWords are 0 at first
	passes, tileSize            int64
}

// sortingOf plans a sort. It reserves found words behind the runs.
func (prog *Program) sortingOf(positions, keys, found int64) sorting {
	rounds := int64(sortShort)
	if positions >= sortMany {
		rounds = sortLong
	}
	s := sorting{positions: positions, keys: keys, tileSize: blockThreads * rounds}
	s.fill, s.pass, s.runs = prog.kernel("fill"), prog.kernel("sort_pass_%d", rounds), prog.kernel("sort_runs")
	for s.passes = 1; keys>>(8*s.passes) != 0; s.passes++ {
	}
	for i := range s.pairs {
		s.pairs[i] = [2]int64{prog.reserve(positions * 4), prog.reserve(positions * 4)}
	}
	// What is 0 at first lies together.
	s.tiles = prog.Workspace
	s.totals = s.tiles + s.tileCount()*sortDigits*8
	s.taken = s.totals + s.passes*sortDigits*4
	s.start = s.taken + s.passes*4
	s.found = s.start + 2*keys*4
	prog.reserve(s.found + (foundWords+found)*4 - s.tiles)
	return s
}

func (s *sorting) tileCount() int64 { return ceilDiv(s.positions, s.tileSize) }

// keysAt is where the keys of positions are to be written.
func (s *sorting) keysAt(r *run) uint64 { return r.at(s.pairs[0][0]) }

// clear comes before a kernel that counts the digits of keys, and before sort.
func (s *sorting) clear(r *run) {
	zeros := fillArgs{n: uint64(s.found+foundWords*4-s.tiles) / 4, words: r.at(s.tiles)}
	launch(r, s.fill, threads(int64(zeros.n)/16), &zeros)
}

// keysOf returns struct Keys for a kernel that makes keys, of which a thread
// makes some at once, and its blocks.
func (s *sorting) keysOf(r *run, atOnce int64) (keysArgs, geometry) {
	n := blockThreads * atOnce
	return keysArgs{keys: s.keysAt(r), totals: r.at(s.totals), passes: int32(s.passes)}, blocks(ceilDiv(s.positions, n), countBlocks)
}

// source is where the sorted positions are: the last pass wrote them.
func (s *sorting) source(r *run) uint64 { return r.at(s.pairs[s.passes%2][1]) }

// sort sorts the positions and marks the runs of equal keys, whose digits have
// been counted.
func (s *sorting) sort(r *run) {
	if s.positions == 0 {
		return
	}
	last := s.pairs[s.passes%2]
	a := sortArgs{n: s.positions, keys: s.keysAt(r), totals: r.at(s.totals), tiles: r.at(s.tiles), taken: r.at(s.taken)}
	for pass := range s.passes {
		if a.pass, a.pairsOut = int32(pass), r.at(s.pairs[(pass+1)%2][0]); pass == s.passes-1 {
			a.pairsOut, a.keysOut, a.valuesOut = 0, r.at(last[0]), r.at(last[1])
		}
		launch(r, s.pass, blocks(s.tileCount(), gridX), &a)
		a.pairs = a.pairsOut
	}
	runs := runArgs{n: s.positions, limit: s.keys, keys: a.keysOut, start: r.at(s.start), stop: r.at(s.start + 4*s.keys)}
	launch(r, s.runs, threads(s.positions/4), &runs)
}

// scatter plans sums at destinations in Chunk order: a sort of positions by
// key, then the kernels of scatter.cuh.
type scatter struct {
	sorting
	destinations, columns int64
	count                 int // a kernel
	hot                   int // the first of hot, chunks, fold, store
	slot, sums, slots     int64
	width                 int64 // columns per thread
}

// scatterOf plans for positions that have taps contributions each. job names
// the kernels of the op.
func (prog *Program) scatterOf(positions, keys, destinations, columns, taps int64, job string) *scatter {
	// A hot destination has more than a chunk of contributions, so the chunks
	// are at most twice those that the contributions would fill.
	slots := positions*taps/(scatterChunk/2) + 1
	s := &scatter{
		sorting: prog.sortingOf(positions, keys, slots), destinations: destinations, columns: columns, slots: slots, width: scatterWidth,
	}
	s.count = prog.kernel("sort_count")
	several := slots > 1
	s.hot = prog.suffixed(job, scatterKernels, several, several, several, true)
	s.slot = prog.reserve(destinations * 4)
	s.sums = prog.reserve(s.slots * columns * prog.Compute.Size())
	return s
}

var scatterKernels = []string{"_hot", "_chunks", "_fold", "_store"}

// sort is sorting's for keys whose digits nobody has counted.
func (s *scatter) sort(r *run) {
	s.clear(r)
	if s.positions > 0 {
		keys, g := s.keysOf(r, countAtOnce)
		a := countArgs{counts: keys, keys: keys.keys, n: s.positions}
		a.counts.keys = 0
		launch(r, s.count, g, &a)
	}
	s.sorting.sort(r)
}

// args returns struct Scatter.
func (s *scatter) args(r *run) scatterArgs {
	return scatterArgs{
		destinations: s.destinations, columns: s.columns, source: s.source(r),
		start: r.at(s.start), stop: r.at(s.start + 4*s.keys), hot: r.at(s.found), slot: r.at(s.slot), sums: r.at(s.sums),
	}
}

// launchScatter runs the op's kernels, whose arguments are args.
func launchScatter[A any](r *run, s *scatter, args *A) {
	groups := ceilDiv(s.columns, s.width)
	if s.slots > 1 {
		launch(r, s.hot, threads(s.destinations), args)
		launch(r, s.hot+1, blocks(ceilDiv(s.slots*groups, blockThreads), hotBlocks), args)
		launch(r, s.hot+2, blocks(s.slots*((s.columns+7)/8), hotBlocks), args)
	}
	launch(r, s.hot+3, threads(s.destinations*groups), args)
}

// limit32 is the number of keys and positions that 32-bit numbers hold.
const limit32 = 1<<32 - 2

// sortKernels lists the kernels of a sort, and those of a scatter's jobs.
func sortKernels(jobs []string) []string {
	return append(append(withSuffixes(jobs, scatterKernels), sortingKernels...), "sort_count")
}

var sortingKernels = []string{"fill", "sort_pass_4", "sort_pass_16", "sort_runs"}

var (
	floats   = []tensor.DType{tensor.F32, tensor.F64, tensor.F16, tensor.BF16}
	codes    = []tensor.DType{tensor.S8, tensor.U8, tensor.S16, tensor.U16}
	anyCodes = slices.Concat(codes, []tensor.DType{tensor.I32}, tensor.Float8s(), floats)
)
