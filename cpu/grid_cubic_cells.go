package cpu

import "unsafe"

// What stands between bicubic grid_sample and its generated kernels. Its cells
// are those of gathers, but that each axis has its own places and weights, of
// which a tap's are the sum and the product.

// cubicCell is a set of generated kernels for one compute type, of images or volumes.
type cubicCell struct {
	locate, combine cellKernel
	pixels          func(cells *byte, n int, pixels, weights *byte)
}

// cubicType is one for a type of images.
type cubicType struct {
	sample func(cells *byte, n int, input, y *byte)
	terms  gridTerms
}

// lastWindow is the last place in a channel where four neighbours begin that are
// one load, or -1. In images of fewer columns they are of more than one row.
func (g *Sampler) lastWindow(steps *[3]int64) int32 {
	if steps[0] != 1 {
		return -1
	}
	return int32(max(g.last(steps)-(cubicTaps-1), -1))
}

// last is the number of a channel's last element.
func (g *Sampler) last(steps *[3]int64) (last int64) {
	for axis, step := range steps[:g.Dims] {
		last += step * (g.Size[axis] - 1)
	}
	return last
}

// addCubic adds a block's contributions; the cells' places are numbers of pixels.
// The taps' pixels and weights lie where the definition has them; along is as addGather's.
func addCubic[C Compute](k *gridKernel, g *gatherCell, s *GridScatter[C], b *GridBlock, c *gridCells, along bool) {
	c[planeParams][paramFirst], c[planeParams][paramPixels] = uint32(s.band.First), uint32(s.band.Pixels)
	pixels, weights := (*byte)(b.Scratch.block(0)), (*byte)(b.Scratch.block(cubicProducts))
	g.cubic[b.Dims-2].pixels(c.start(), b.N, pixels, weights)
	pitch := int(b.Most()) + cellPitch - Block
	if along {
		d := newDoubleCubic[C](k, b, c, zerosFollow)
		d.weights(unsafe.Slice((*C)(unsafe.Pointer(weights)), pitch<<(2*b.Dims)), pitch)
	}
	addTaps(k, g, s, b, placedTaps{pixels, weights, 1 << (2 * b.Dims), pitch})
}
