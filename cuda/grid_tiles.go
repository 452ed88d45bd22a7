package cuda

import "fmt"

type tileArgs struct {
	sampler                   samplerArgs
	out                       imageArg
	tangent                   gridArg
	positions, columns, tiles int64
	count, next, lists, spare uint64
	links                     linkArgs
	heavy                     uint64
	channels, logGroups       int32
	packs, _                  int32
}

const tileWidth, tileHeight, tileThreads, counterPitch = 32, 8, 128, 8

// fewBlocks is a prime, so that one block does not get the same tile of all images.
const fewBlocks = 2039

// within is a cover of positions by about so many blocks, which loop.
func (g geometry) within(limit uint32) geometry {
	for _, axis := range []int{2, 1} {
		others := g.grid[0] * g.grid[3-axis]
		g.grid[axis] = min(g.grid[axis], max(1, limit/others))
	}
	return g
}

// buildTiles adds the gradient of an image's input, by links and by tiles of pixels
// (kernels/links.cuh, tiles.cuh). positions is how many positions of an image count:
// with rows made as long as a power of two, 32 bits number them.
func (g inputGradient) buildTiles(p *Problem, to *Program, s samplerArgs, positions int64) error {
	a := tileArgs{sampler: s, positions: positions, columns: ceilDiv(s.size[0], tileWidth)}
	a.tiles = a.columns * ceilDiv(s.size[1], tileHeight)
	if tiles := s.images * a.tiles; tiles > limit32 {
		return fmt.Errorf("has %d pieces of %d by %d pixels; CUDA takes up to %d", tiles, tileWidth, tileHeight, int64(limit32))
	}
	if 4*positions > limit32 || s.out[1] > limit32>>logOf(s.out[0]) {
		return fmt.Errorf("has %d output positions in an image; CUDA takes up to %d", positions, int64(limit32)/4)
	}
	kind, spot := "gradient", 2*to.Compute.Size()
	if g.second {
		kind, spot = "double", 2*spot
	}
	compute, stored := typeNames(to.Compute), p.Types[1]
	zero, sum := to.kernel("fill"), to.kernel("input_tiles_%s%s", kind, typeNames(stored))
	count, place := to.kernelIf(positions > 0, "input_tiles_count%s", compute), to.kernelIf(positions > 0, "input_tiles_place")
	fill := to.kernelIf(positions > 0, "input_tiles_fill%s", compute)
	l, linked := linksOf(&s, positions)
	patch := patchOf(&s, kind)
	a.links = l
	a.channels, a.logGroups = patch.share(&s)
	counters, flags := s.images*a.tiles*counterPitch, s.images*a.tiles+1
	heads, lengths, heavy := to.reserve(s.images*l.cells*4), to.reserve(counters*4), to.reserve(flags*4)
	cleared := to.Workspace // from heads on, or from lengths on
	next := to.reserve(counters * 4)
	var lists [2]int64
	for i := range lists {
		lists[i] = to.reserve(s.images * positions * 4 * 4)
	}
	var link, gather int
	if linked {
		link = to.kernelIf(positions > 0, "input_links_%s%s", kind, compute)
		gather = to.kernel("%s%s", patch.gather, typeNames(stored))
	}
	order, spots := to.reserve(s.images*l.sources*4), to.reserve(s.images*l.sources*spot)
	to.then(func(r *run) {
		if s.images*a.tiles == 0 || s.channels == 0 {
			g.grid.run(r, linkArgs{})
			return
		}
		a := a
		a.sampler.bind(&r.args[1], &r.args[2], &r.args[0])
		a.out, a.count, a.next, a.lists, a.spare = imageOf(&r.args[g.out]), r.at(lengths), r.at(next), r.at(lists[0]), r.at(lists[1])
		a.links.heads, a.links.next, a.links.spots, a.heavy = r.at(heads), r.at(order), r.at(spots), r.at(heavy)
		if g.second {
			a.tangent = gridOf(&r.args[g.tangent])
		}
		a.packs = boolArg(patch.packs(&a.out, stored.Size()))
		cover := a.sampler.cover(blockThreads, 1)
		some, tiles := cover, blocks(s.images*a.tiles, 1<<20)
		linking, from := linked && (positions == 0 || near(&s, &a.sampler.output, stored.Size())), heads
		if !linking { // all tiles are summed
			from, a.heavy = lengths, 0
		}
		launch(r, zero, threads((cleared-from)/16), &fillArgs{n: uint64(cleared-from) / 4, words: r.at(from)})
		if linking {
			if !g.grid.run(r, a.links) && positions > 0 {
				launch(r, link, cover, &a)
			}
			launch(r, gather, patch.cover(&s, a.logGroups), &a)
			// What follows seldom finds anything to do: its blocks loop.
			some, tiles = cover.within(fewBlocks), blocks(s.images*a.tiles, fewBlocks)
		} else {
			g.grid.run(r, linkArgs{})
		}
		if positions > 0 {
			launch(r, count, some, &a)
			launch(r, place, blocks(s.images, 1<<16).of(tileThreads), &a)
			launch(r, fill, some, &a)
		}
		launch(r, sum, tiles.of(tileThreads), &a)
	})
	return nil
}
