package cpu

import "unsafe"

// What stands between bicubic grid_sample and the kernels that take any images
// and volumes (internal/gen/grid_axes.go): those that grid_cubic_cells.go does
// not take. Each axis has its own places and weights, of which a tap's are the
// sum and the product.

// axisCell is a set of generated kernels for one compute type, of images or volumes.
type axisCell struct {
	locate, combine cellKernel
	pixels          func(cells *byte, n int, pixels, weights *byte)
}

// axisType is one for a type of images.
type axisType struct {
	sample func(cells *byte, n int, input, y *byte)
	terms  gridTerms
}

// mostAxisPlaces is how many elements of a channel they can number: an offset
// outside is so far below 0 that sums of three stay there.
const mostAxisPlaces = 1 << 29

// holdsWindows reports whether four elements in a row of an image are neighbours.
func (g *Sampler) holdsWindows(steps [3]int64) bool { return steps[0] == 1 && g.Size[0] >= cubicTaps }

// addAxes adds a block's contributions; the cells' places are numbers of pixels.
// The taps' pixels and weights lie where the definition has them.
func addAxes[C Compute](k *gridKernel, g *gatherCell, s *GridScatter[C], b *GridBlock, c *gridCells) {
	c[planeParams][paramFirst], c[planeParams][paramPixels] = uint32(s.band.First), uint32(s.band.Pixels)
	pixels, weights := (*byte)(unsafe.Pointer(&b.Scratch.blocks)), (*byte)(unsafe.Pointer(&b.Scratch.blocks[axisProducts]))
	g.axes[b.Dims-2].pixels(c.start(), b.N, pixels, weights)
	pitch := int(b.Most()) + cellPitch - Block
	addTaps(k, g, s, b, pixels, weights, 1<<(2*b.Dims), pitch)
}

// axisProducts is the scratch block of the taps' weights, behind their pixels.
const axisProducts = (maxTaps*(Block/cubicTaps+cellPitch-Block)*4 + Block*8 - 1) / (Block * 8)

// There is room for both below the rows of upstream gradients.
const _ = uint(tapBlocks - axisProducts - (maxTaps*(Block/cubicTaps+cellPitch-Block)*8+Block*8-1)/(Block*8))
