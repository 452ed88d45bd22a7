package cuda

import "github.com/isobit-ml/isobit/tensor"

type sortArgs struct {
	n, tiles           int64
	keys, values       uint64
	keysOut, valuesOut uint64
	counts, totals     uint64
	shift, _           int32
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
	sortTile     = 256 * 16
	sortDigits   = 256
	scatterChunk = 256
	scatterWidth = 4 // columns per thread
	pixelWidth   = 8 // likewise, of gradients whose weights leave registers for them
)

// scatter plans sums at destinations in Chunk order: a stable sort of
// positions by key, then the kernels of scatter.cuh.
type scatter struct {
	positions, keys                            int64 // keys: those that name a run; others are as large
	destinations, columns                      int64
	count, scan, place, runs, fill             int         // kernels
	hot                                        int         // the first of hot, chunks, fold, store
	pairs                                      [2][2]int64 // offsets: two buffers of keys and values
	counts, totals, start, hotList, slot, sums int64
	slots, passes                              int64
	width                                      int64 // columns per thread
}

// scatterOf plans for positions that have taps contributions each. job names
// the kernels of the op.
func (to *Program) scatterOf(positions, keys, destinations, columns, taps int64, job string) *scatter {
	s := &scatter{positions: positions, keys: keys, destinations: destinations, columns: columns, width: scatterWidth}
	s.count, s.scan, s.place = to.kernel("sort_count"), to.kernel("sort_scan"), to.kernel("sort_scatter")
	s.runs, s.fill = to.kernel("sort_runs"), to.kernel("fill")
	for i, suffix := range scatterKernels {
		if k := to.kernel("%s_%s", job, suffix); i == 0 {
			s.hot = k
		}
	}
	for s.passes = 1; keys>>(8*s.passes) != 0; s.passes++ {
	}
	for i := range s.pairs {
		s.pairs[i] = [2]int64{to.reserve(positions * 4), to.reserve(positions * 4)}
	}
	s.counts, s.totals = to.reserve(sortDigits*s.tiles()*4), to.reserve(sortDigits*4)
	// A hot destination has more than a chunk of contributions, so the chunks
	// are at most twice those that the contributions would fill.
	s.slots = positions*taps/(scatterChunk/2) + 1
	s.start = to.reserve((2*keys + 1 + s.slots) * 4)
	s.hotList = s.start + 2*keys*4 // begins with a count, which is filled with what is before it
	s.slot = to.reserve(destinations * 4)
	s.sums = to.reserve(s.slots * columns * to.Compute.Size())
	return s
}

var scatterKernels = []string{"hot", "chunks", "fold", "store"}

func (s *scatter) tiles() int64 { return (s.positions + sortTile - 1) / sortTile }

// args returns struct Scatter; the sorted positions lie in the pair that the
// last pass wrote.
func (s *scatter) args(r *run) scatterArgs {
	return scatterArgs{
		destinations: s.destinations, columns: s.columns, source: r.at(s.pairs[s.passes%2][1]),
		start: r.at(s.start), stop: r.at(s.start + 4*s.keys), hot: r.at(s.hotList), slot: r.at(s.slot), sums: r.at(s.sums),
	}
}

// keysAt is where the keys of positions are to be written.
func (s *scatter) keysAt(r *run) uint64 { return r.at(s.pairs[0][0]) }

// sort sorts the positions and marks the runs of equal keys.
func (s *scatter) sort(r *run) {
	for pass := range s.passes {
		from, to := s.pairs[pass%2], s.pairs[(pass+1)%2]
		a := sortArgs{
			n: s.positions, tiles: s.tiles(), keys: r.at(from[0]), values: r.at(from[1]), keysOut: r.at(to[0]), valuesOut: r.at(to[1]),
			counts: r.at(s.counts), totals: r.at(s.totals), shift: int32(8 * pass),
		}
		if pass == 0 {
			a.values = 0
		}
		launch(r, s.count, blocks(a.tiles, 1<<16), &a)
		launch(r, s.scan, blocks(sortDigits, sortDigits), &a)
		launch(r, s.place, blocks(a.tiles, 1<<16), &a)
	}
	marks := fillArgs{n: uint64(2*s.keys + 1), words: r.at(s.start)}
	launch(r, s.fill, threads(2*s.keys+1), &marks)
	if s.positions > 0 {
		runs := runArgs{n: s.positions, limit: s.keys, keys: r.at(s.pairs[s.passes%2][0]), start: r.at(s.start), stop: r.at(s.start + 4*s.keys)}
		launch(r, s.runs, threads(s.positions), &runs)
	}
}

// launchScatter runs the op's kernels, whose arguments are args.
func launchScatter[A any](r *run, s *scatter, args *A) {
	groups := (s.columns + s.width - 1) / s.width
	launch(r, s.hot, threads(s.destinations), args)
	if s.slots > 1 {
		launch(r, s.hot+1, blocks((s.slots*groups+blockThreads-1)/blockThreads, 2048), args)
		launch(r, s.hot+2, blocks(s.slots*((s.columns+7)/8), 2048), args)
	}
	launch(r, s.hot+3, threads(s.destinations*groups), args)
}

// limit32 is the number of keys and positions that 32-bit numbers hold.
const limit32 = 1<<32 - 2

// sortKernels lists the kernels of a sort, and those of a scatter's jobs.
func sortKernels(jobs []string) []string {
	names := []string{"sort_count", "sort_scan", "sort_scatter", "sort_runs", "fill"}
	for _, job := range jobs {
		for _, suffix := range scatterKernels {
			names = append(names, job+"_"+suffix)
		}
	}
	return names
}

var (
	floats   = []tensor.DType{tensor.F32, tensor.F64, tensor.F16, tensor.BF16}
	codes    = []tensor.DType{tensor.S8, tensor.U8, tensor.S16, tensor.U16}
	anyCodes = append(append(codes[:4:4], tensor.I32, tensor.F8E4M3, tensor.F8E5M2), floats...)
)
