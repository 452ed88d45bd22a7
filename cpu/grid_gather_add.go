package cpu

import (
	"slices"
	"unsafe"
)

// The input's gradient by kernels that take each tap by itself.

// addGather is the scatter's Add; along is for second gradients, whose weights are
// derivatives along the grid's tangent.
func addGather[C Compute](k *gridKernel, s *GridScatter[C], b *GridBlock, along bool) bool {
	if !takesPixels[C](s.g) {
		return false
	}
	g := k.cells()
	addPlaced(k, g, s, b, locatePixels[C](g, b, along), along)
	return true
}

// addBoth makes the grid's gradient of a block, too, for which it is located once where that is possible.
func addBoth[C Compute](k *gridKernel, definition GridScatterKernel[C], s *GridScatter[C], b *GridBlock) {
	g := k.cells()
	steps := pixelSteps(s.g)
	// In both, places are the same, but not those that follow the last position of what is no whole vector.
	once := b.N%g.lanes == 0 && takesGather[C](s.g, &steps) && readsInput[C](b, g.lanes) && slices.Equal(b.found.steps[:b.Dims], steps[:b.Dims])
	if once && gradientGather[C](k, b) {
		addPlaced(k, g, s, b, cellsOf(b.Scratch), noSlopes)
		return
	}
	k.gradientBlock(b, gridGradientGo[C])
	b.found.located = located{} // the definition, or a copy of the block, may have written over it
	if !addGather(k, s, b, noSlopes) {
		definition.Add(s, b)
	}
}

// addPlaced adds a block's contributions at places that are numbers of pixels.
func addPlaced[C Compute](k *gridKernel, g *gatherCell, s *GridScatter[C], b *GridBlock, c *gridCells, along bool) {
	if s.g.Mode == Bicubic {
		addCubic(k, g, s, b, c, along)
		return
	}
	if along {
		loadCells[C](g, c, b, &b.Second.Coords, zerosFollow)
		g.weights[b.Dims-2](c.start(), b.N)
	}
	places, taps := placesOf[C](c), s.g.Taps()
	if s.band.First > 0 || s.band.Pixels < s.g.Size[0]*s.g.Size[1]*s.g.Size[2] {
		g.band(places, b.N, taps, int(s.band.First), int(s.band.Pixels))
	}
	if s.g.Mode == Nearest && s.channels <= maxQuad {
		addNearest(typeFor(k.needs, k.dtype), g.few[s.channels-1], s, b, places)
	} else {
		addTaps(k, g, s, b, placedTaps{places, (*byte)(unsafe.Pointer(planeOf[C](c, planeWeight))), taps, cellPitch})
	}
}

// takesPixels reports whether kernels take places that are numbers of pixels.
func takesPixels[C Compute](g *Sampler) bool {
	steps := pixelSteps(g)
	return takesGather[C](g, &steps)
}

// pixelSteps are the distances of pixels that lie row-major.
func pixelSteps(g *Sampler) [3]int64 { return [3]int64{1, g.Size[0], g.Size[0] * g.Size[1]} }

// addNearest adds a block's upstream gradients to pixels of given numbers.
func addNearest[C Compute](t *gatherType, add nearestAdd, s *GridScatter[C], b *GridBlock, pixels *byte) {
	s.touch(pixels, 1, 0, b.N)
	dy, stride := s.gradOutput(t, b, 0, s.channels)
	chunks, list := s.room()
	s.full = add(pixels, b.N, (*byte)(s.pixels), (*byte)(dy), stride, unsafe.SliceData(s.count), chunks, list, s.full)
}

// room is where the next chunk goes.
func (s *GridScatter[C]) room() (sums *byte, list *[2]int64) {
	return (*byte)(unsafe.Pointer(unsafe.SliceData(s.sums[s.full*s.pitch:]))), (*[2]int64)(unsafe.Pointer(unsafe.SliceData(s.chunks[s.full:])))
}

// placedTaps are the taps of a block: numbers of pixels, and weights. Those of one tap after the other lie pitch
// elements apart.
type placedTaps struct {
	pixels, weights *byte
	count, pitch    int
}

// addTaps adds a block's contributions to its taps.
func addTaps[C Compute](k *gridKernel, g *gatherCell, s *GridScatter[C], b *GridBlock, t placedTaps) {
	s.touch(t.pixels, t.count, t.pitch, b.N)
	dy := transposeGradients(k, s, b)
	chunks, list := s.room()
	s.full = g.add[s.pitch/4](t.pixels, t.weights, t.count, t.pitch*4, b.N, (*byte)(s.pixels), (*byte)(unsafe.Pointer(dy)),
		unsafe.SliceData(s.count), chunks, list, s.full)
}
