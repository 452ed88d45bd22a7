package cuda

import "fmt"

type tileArgs struct {
	sampler                   samplerArgs
	out                       imageArg
	tangent                   gridArg
	positions, columns, tiles int64
	count, next, lists, spare uint64
}

const tileWidth, tileHeight = 32, 16

// buildTiles adds the gradient of an image's input by tiles of pixels
// (kernels/tiles.cuh). positions is how many positions of an image count.
func (g inputGradient) buildTiles(p *Problem, to *Program, s samplerArgs, positions int64) error {
	a := tileArgs{sampler: s, positions: positions, columns: (s.size[0] + tileWidth - 1) / tileWidth}
	a.tiles = a.columns * ((s.size[1] + tileHeight - 1) / tileHeight)
	if s.images*a.tiles > limit32 || 4*positions > limit32 {
		return fmt.Errorf("has %d output positions for each of %d images; CUDA takes up to %d", positions, s.images, int64(limit32)/4)
	}
	kind := "gradient"
	if g.second {
		kind = "double"
	}
	compute := typeNames(to.Compute)
	zero, count, place := to.kernel("fill"), to.kernel("input_tiles_count%s", compute), to.kernel("input_tiles_place")
	fill, sum := to.kernel("input_tiles_fill%s", compute), to.kernel("input_tiles_%s%s", kind, typeNames(p.Types[1]))
	counters, next := to.reserve(s.images*a.tiles*4), to.reserve(s.images*a.tiles*4)
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
		a.out, a.count, a.next, a.lists, a.spare = imageOf(&r.args[g.out]), r.at(counters), r.at(next), r.at(lists[0]), r.at(lists[1])
		if g.second {
			a.tangent = gridOf(&r.args[g.tangent])
		}
		both := (next-counters)/4 + s.images*a.tiles
		launch(r, zero, threads(both), &fillArgs{n: uint64(both), words: a.count})
		if positions > 0 {
			launch(r, count, threads(s.images*positions), &a)
			launch(r, place, blocks(s.images, 1<<16), &a)
			launch(r, fill, threads(s.images*positions), &a)
		}
		launch(r, sum, blocks(s.images*a.tiles, 1<<20), &a)
	})
	return nil
}
