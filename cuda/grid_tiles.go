package cuda

import "fmt"

type tileArgs struct {
	sampler                   samplerArgs
	out                       imageArg
	tangent                   gridArg
	positions, columns, tiles int64
	count, next, lists, spare uint64
	logRow, _                 int32
}

const tileWidth, tileHeight, tileThreads, counterPitch = 32, 8, 128, 8

// buildTiles adds the gradient of an image's input by tiles of pixels
// (kernels/tiles.cuh). positions is how many positions of an image count: with
// rows made as long as a power of two, 32 bits number them.
func (g inputGradient) buildTiles(p *Problem, to *Program, s samplerArgs, positions int64) error {
	a := tileArgs{sampler: s, positions: positions, columns: (s.size[0] + tileWidth - 1) / tileWidth, logRow: logOf(s.out[0])}
	a.tiles = a.columns * ((s.size[1] + tileHeight - 1) / tileHeight)
	if tiles := s.images * a.tiles; tiles > limit32 {
		return fmt.Errorf("has %d pieces of %d by %d pixels; CUDA takes up to %d", tiles, tileWidth, tileHeight, int64(limit32))
	}
	if 4*positions > limit32 || s.out[1] > limit32>>a.logRow {
		return fmt.Errorf("has %d output positions in an image; CUDA takes up to %d", positions, int64(limit32)/4)
	}
	kind := "gradient"
	if g.second {
		kind = "double"
	}
	compute := typeNames(to.Compute)
	zero, count, place := to.kernel("fill"), to.kernel("input_tiles_count%s", compute), to.kernel("input_tiles_place")
	fill, sum := to.kernel("input_tiles_fill%s", compute), to.kernel("input_tiles_%s%s", kind, typeNames(p.Types[1]))
	counters := s.images * a.tiles * counterPitch
	lengths, next := to.reserve(counters*4), to.reserve(counters*4)
	var lists [2]int64
	for i := range lists {
		lists[i] = to.reserve(s.images * positions * 4 * 4)
	}
	to.then(func(r *run) {
		if s.images*a.tiles == 0 || s.channels == 0 {
			return
		}
		a := a
		a.sampler.bind(&r.args[1], &r.args[2], &r.args[0])
		a.out, a.count, a.next, a.lists, a.spare = imageOf(&r.args[g.out]), r.at(lengths), r.at(next), r.at(lists[0]), r.at(lists[1])
		if g.second {
			a.tangent = gridOf(&r.args[g.tangent])
		}
		launch(r, zero, threads(counters), &fillArgs{n: uint64(counters), words: a.count})
		if positions > 0 {
			g := a.sampler.cover(blockThreads, 1)
			launch(r, count, g, &a)
			launch(r, place, blocks(s.images, 1<<16).of(tileThreads), &a)
			launch(r, fill, g, &a)
		}
		launch(r, sum, blocks(s.images*a.tiles, 1<<20).of(tileThreads), &a)
	})
	return nil
}
