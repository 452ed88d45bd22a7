package cuda

import (
	"fmt"

	"github.com/isobit-ml/isobit/tensor"
)

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

// tileSums are the gradient of an image's input, by links and by tiles of pixels
// (kernels/links.cuh, tiles.cuh).
type tileSums struct {
	inputGradient
	args                                        tileArgs // without tensors and memory
	patch                                       patch
	stored                                      tensor.DType // of the images
	linked                                      bool
	zero, link, gather, count, place, fill, sum int // kernels, in the order that they run in
	// Where memory begins in the workspace: from heads, or from lengths, up to next it is cleared.
	heads, lengths, heavy, next, order, spots int64
	lists                                     [2]int64
}

// buildTiles adds them. positions is how many positions of an image count: with rows made
// as long as a power of two, 32 bits number them.
func (g inputGradient) buildTiles(p *Problem, prog *Program, s samplerArgs, positions int64) error {
	a := tileArgs{sampler: s, positions: positions, columns: ceilDiv(s.size[0], tileWidth)}
	a.tiles = a.columns * ceilDiv(s.size[1], tileHeight)
	if tiles := s.images * a.tiles; tiles > limit32 {
		return fmt.Errorf("has %d pieces of %d by %d pixels; CUDA takes up to %d", tiles, tileWidth, tileHeight, int64(limit32))
	}
	if 4*positions > limit32 || s.out[1] > limit32>>logOf(s.out[0]) {
		return fmt.Errorf("has %d output positions in an image; CUDA takes up to %d", positions, int64(limit32)/4)
	}
	t := tileSums{inputGradient: g, stored: p.Types[backwardInput]}
	kind := "gradient"
	if g.second {
		kind = "double"
	}
	a.links, t.linked = linksOf(&s, positions)
	t.patch = patchOf(&s, kind)
	a.channels, a.logGroups = t.patch.share(&s)
	t.args = a
	t.load(prog, kind)
	t.reserve(prog)
	prog.then(t.run)
	return nil
}

// load names the kernels of a gradient of an order, "gradient" or "double".
func (t *tileSums) load(prog *Program, order string) {
	compute, stored, some := typeNames(prog.Compute), typeNames(t.stored), t.args.positions > 0
	t.zero, t.sum = prog.kernel("fill"), prog.kernel("input_tiles_%s%s", order, stored)
	t.count, t.place = prog.kernelIf(some, "input_tiles_count%s", compute), prog.kernelIf(some, "input_tiles_place")
	t.fill = prog.kernelIf(some, "input_tiles_fill%s", compute)
	if t.linked {
		t.link = prog.kernelIf(some, "input_links_%s%s", order, compute)
		t.gather = prog.kernel("%s%s", t.patch.gather, stored)
	}
}

// reserve takes the workspace.
func (t *tileSums) reserve(prog *Program) {
	a, l, spot := &t.args, &t.args.links, 2*prog.Compute.Size()
	if t.second {
		spot *= 2
	}
	images, counters := a.sampler.images, a.sampler.images*a.tiles*counterPitch
	t.heads, t.lengths, t.heavy = prog.reserve(images*l.cells*4), prog.reserve(counters*4), prog.reserve((images*a.tiles+1)*4)
	t.next = prog.reserve(counters * 4)
	for i := range t.lists {
		t.lists[i] = prog.reserve(images * a.positions * 4 * 4)
	}
	t.order, t.spots = prog.reserve(images*l.sources*4), prog.reserve(images*l.sources*spot)
}

// bind returns the kernels' arguments with a run's tensors and memory.
func (t *tileSums) bind(r *run) tileArgs {
	a := t.args
	a.sampler.bind(r, backwardInput, backwardGrid, backwardGradOutput)
	a.out, a.count, a.next = imageOf(&r.args[t.out]), r.at(t.lengths), r.at(t.next)
	a.lists, a.spare = r.at(t.lists[0]), r.at(t.lists[1])
	a.links.heads, a.links.next, a.links.spots, a.heavy = r.at(t.heads), r.at(t.order), r.at(t.spots), r.at(t.heavy)
	if t.second {
		a.tangent = gridOf(&r.args[t.tangent])
	}
	a.packs = boolArg(t.patch.packs(&a.out, t.stored.Size()))
	return a
}

func (t *tileSums) run(r *run) {
	s, some := &t.args.sampler, t.args.positions > 0
	all := s.images * t.args.tiles
	if all == 0 || s.channels == 0 {
		t.grid.run(r, linkArgs{})
		return
	}
	a := t.bind(r)
	cover := a.sampler.cover(blockThreads, 1)
	listing, tiles := cover, blocks(all, mostBlocks)
	linking, from := t.linked && (!some || near(s, &a.sampler.output, t.stored.Size())), t.heads
	if !linking { // all tiles are summed
		from, a.heavy = t.lengths, 0
	}
	launch(r, t.zero, threads((t.next-from)/16), &fillArgs{n: uint64(t.next-from) / 4, words: r.at(from)})
	if linking {
		if !t.grid.run(r, a.links) && some {
			launch(r, t.link, cover, &a)
		}
		launch(r, t.gather, t.patch.cover(s, a.logGroups), &a)
		// What follows seldom finds anything to do: its blocks loop.
		listing, tiles = cover.within(fewBlocks), blocks(all, fewBlocks)
	} else {
		t.grid.run(r, linkArgs{})
	}
	if some {
		launch(r, t.count, listing, &a)
		launch(r, t.place, blocks(s.images, 1<<16).of(tileThreads), &a)
		launch(r, t.fill, listing, &a)
	}
	launch(r, t.sum, tiles.of(tileThreads), &a)
}
