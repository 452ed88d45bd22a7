package cpu

import (
	"math/bits"
	"unsafe"

	"github.com/isobit-ml/isobit/tensor"
)

// What stands between grid_sample and the kernels that read each tap by itself:
// of volumes, nearest, f64, and images that hold no pairs. Cells have a tap's
// place, the number of its element in a channel, or -1 for one outside; those of
// bicubic are in grid_cubic_cells.go.

type (
	cellKernel func(cells *byte, n int)
	gridSplit  func(from *byte, n int, cells *byte)
	gridTerms  func(cells *byte, n int, input *byte, channelStride int, dy *byte, dyStride int, channels int, terms *byte)
	// tangentKernel makes the gradient of a channel's upstream gradient; tangent may be nil.
	tangentKernel func(cells *byte, n int, input, tangent, y *byte)
	// tapAdd adds a block's contributions to sums of channels that lie side by side.
	tapAdd func(pixels, weights *byte, taps, pitch, n int, sums, dy *byte, count *uint8, chunks *byte, list *[2]int64, full int) int
	// fewAdd adds those of images one after the other, of n positions each, to sums that lie next bytes apart.
	fewAdd func(cells *byte, n, images int, sums *byte, next int, dy *byte)
	// nearestAdd does so where each position has one tap, and dy's channels lie apart.
	nearestAdd func(pixels *byte, n int, sums, dy *byte, dyStride int, count *uint8, chunks *byte, list *[2]int64, full int) int
)

// gatherCell is a set of generated kernels for one compute type; those of images
// come before those of volumes.
type gatherCell struct {
	needs   ISA
	compute tensor.DType
	lanes   int
	split   [2]gridSplit
	join    func(cells *byte, n int, to *byte) // of images
	locate  [2]cellKernel
	nearest [2]cellKernel
	combine [2]cellKernel
	bend    [2]cellKernel // adds to the gradients of combine
	weights [2]cellKernel // turns weights into their derivatives
	cubic   [2]cubicCell
	band    func(places *byte, n, taps, first, pixels int)
	add     [5]tapAdd // of 1, 4, 8, 12 and 16 channels
	addFew  [3]fewAdd // of nearest, images and volumes
	few     [maxQuad]nearestAdd
}

// gatherType is one for a type of images.
type gatherType struct {
	needs  ISA
	dtype  tensor.DType
	sample func(cells *byte, n int, input *byte, taps int, y *byte)
	copy   func(cells *byte, n int, input, y *byte)
	terms  [2]gridTerms
	bends  [2]gridTerms
	shift  [2]tangentKernel
	near   func(cells *byte, n int, tangent, y *byte) // shift for the nearest pixel
	cubic  [2]cubicType
	// From and to f32, of types of 16 bits.
	widen, narrow func(from *byte, n int, to *byte)
}

// wholeVectors is a multiple of the elements of any vector.
const wholeVectors = 16

// loadRow is Load of what may be of the kernels' type.
func loadRow[C Compute](t *gatherType, dst []C, from Span) {
	whole := len(dst) &^ (wholeVectors - 1)
	if t.widen == nil || from.DType != t.dtype || !from.Contiguous() || whole == 0 {
		Load(dst, from)
		return
	}
	t.widen((*byte)(from.P), whole, (*byte)(unsafe.Pointer(&dst[0])))
	if last := len(dst) - wholeVectors; whole < len(dst) {
		t.widen((*byte)(from.At(int64(last)).P), wholeVectors, (*byte)(unsafe.Pointer(&dst[last]))) // some once more
	}
}

// storeRow is Store of what may be of the kernels' type.
func storeRow[C Compute](t *gatherType, to Span, src []C) {
	whole := len(src) &^ (wholeVectors - 1)
	if t.narrow == nil || to.DType != t.dtype || !to.Contiguous() || whole == 0 {
		Store(to, src)
		return
	}
	t.narrow((*byte)(unsafe.Pointer(&src[0])), whole, (*byte)(to.P))
	if last := len(src) - wholeVectors; whole < len(src) {
		t.narrow((*byte)(unsafe.Pointer(&src[last])), wholeVectors, (*byte)(to.At(int64(last)).P))
	}
}

// cellsFor returns the kernels of an instruction set and compute type.
func cellsFor(needs ISA, compute tensor.DType) *gatherCell {
	for i := range gatherCells {
		if g := &gatherCells[i]; g.needs == needs && g.compute == compute {
			return g
		}
	}
	panic("no kernels of gathers")
}

// cells are those of the images' compute type.
func (k *gridKernel) cells() *gatherCell { return cellsFor(k.needs, k.dtype.Compute()) }

func typeFor(needs ISA, dtype tensor.DType) *gatherType {
	if t, ok := findType(needs, dtype); ok {
		return t
	}
	panic("no kernels of gathers")
}

func findType(needs ISA, dtype tensor.DType) (t *gatherType, ok bool) {
	for i := range gatherTypes {
		if t = &gatherTypes[i]; t.needs == needs && t.dtype == dtype {
			return t, true
		}
	}
	return nil, false
}

// planeOf returns a plane of the compute type.
func planeOf[C Compute](c *gridCells, number int) *[Block]C {
	return (*[Block]C)(unsafe.Add(unsafe.Pointer(c), number*cellPitch*int(unsafe.Sizeof(C(0)))))
}

// placesOf returns the places of the first tap; those of the others follow.
func placesOf[C Compute](c *gridCells) *byte {
	return (*byte)(unsafe.Pointer(planeOf[C](c, planePair)))
}

// takesGather reports whether 31 bits number the elements of a channel, which
// lie so many elements apart along each axis, and the compute type the pixels.
func takesGather[C Compute](g *Sampler, steps *[3]int64) bool {
	exact, most := int64(1)<<24, int64(1<<31-1)
	if unsafe.Sizeof(C(0)) == 8 {
		exact = 1 << 31
	}
	for axis, step := range steps[:g.Dims] {
		if step < 0 || g.Size[axis] >= exact {
			return false
		}
	}
	if g.Mode == Bicubic {
		most = 1 << (32 - g.Dims) // see internal/gen's cubicOutside
	}
	return g.last(steps) < most
}

// readsInput reports whether kernels can read a block, and finds the distances of its pixels.
func readsInput[C Compute](b *GridBlock, lanes int) bool {
	f := &b.found
	if !f.known {
		shift := bits.TrailingZeros64(uint64(b.Input.DType.Size()))
		for axis := range b.Dims {
			f.steps[axis] = b.Input.AxisStride[axis] >> shift
		}
		f.known, f.takes = true, takesGather[C](&b.Sampler, &f.steps)
	}
	return f.takes && b.N >= lanes
}

// locateInput fills the cells of a block that kernels can read, of the grid's gradient or not; see locateBlock.
func locateInput[C Compute](g *gatherCell, b *GridBlock, repeats, slopes bool) *gridCells {
	if !b.isLocated(locatedInput, slopes) {
		setGathers[C](b, &b.found.steps, slopes)
	}
	return locateGather[C](g, b, repeats)
}

// locatePixels does so where places are numbers of pixels.
func locatePixels[C Compute](g *gatherCell, b *GridBlock, slopes bool) *gridCells {
	if !b.isLocated(locatedPixels, slopes) {
		steps := pixelSteps(&b.Sampler)
		setGathers[C](b, &steps, slopes)
	}
	return locateGather[C](g, b, zerosFollow)
}

// setGathers sets the parameters of pixels so many elements apart.
func setGathers[C Compute](b *GridBlock, steps *[3]int64, slopes bool) {
	c := cellsOf(b.Scratch)
	setParameters(planeOf[C](c, planeParams), &b.Sampler)
	for axis := range b.Dims {
		c[planeParams][paramEnd+axis] = uint32(b.Size[axis] - 1)
	}
	for tap := range 1 << b.Dims {
		step := int64(0)
		for axis := range b.Dims {
			step += steps[axis] * int64(tap>>axis&1)
		}
		c[planeParams][paramStep+tap] = uint32(step)
	}
	c[planeParams][paramMode] = uint32(b.Padding)
	c[planeParams][paramHalf] = kindOfHalf(b.Input.DType)
	c[planeParams][paramSlopes] = wordOf(slopes)
	if b.Mode == Bicubic {
		c[planeParams][paramWindow] = uint32(b.lastWindow(steps))
	}
}

// locateGather fills cells that have parameters.
func locateGather[C Compute](g *gatherCell, b *GridBlock, repeats bool) *gridCells {
	c := cellsOf(b.Scratch)
	loadCells[C](g, c, b, &b.Coords, repeats)
	locate := g.locate[b.Dims-2]
	switch b.Mode {
	case Nearest:
		locate = g.nearest[b.Dims-2]
	case Bicubic:
		locate = g.cubic[b.Dims-2].locate
	}
	locate(c.start(), b.N)
	b.continuePlaces(placesOf[C](c), b.Taps(), g.lanes, repeats)
	return c
}

// sampleGather is sampleBlock by gathers; it reports whether it was possible.
func sampleGather[C Compute](k *gridKernel, b *GridBlock) bool {
	g, t := k.cells(), typeFor(k.needs, k.dtype)
	if !readsInput[C](b, g.lanes) || !b.Output.Contiguous() {
		return false
	}
	c := locateInput[C](g, b, lastRepeats, noSlopes)
	for channel := range b.Channels {
		in, out := (*byte)(b.Input.Channel(channel)), (*byte)(b.Output.Row(channel, 0).P)
		switch b.Mode {
		case Nearest:
			t.copy(c.start(), b.N, in, out)
		case Bicubic:
			t.cubic[b.Dims-2].sample(c.start(), b.N, in, out)
		default:
			t.sample(c.start(), b.N, in, 1<<b.Dims, out)
		}
	}
	return true
}

// gradientGather is gradientBlock by gathers.
func gradientGather[C Compute](k *gridKernel, b *GridBlock) bool {
	g, t := k.cells(), typeFor(k.needs, k.dtype)
	if !readsInput[C](b, g.lanes) || !b.GradOutput.Contiguous() {
		return false
	}
	c := locateInput[C](g, b, lastRepeats, withSlopes)
	terms, combine, kinds := t.gradient(g, b)
	sumTerms[C](c, b, terms, kinds)
	combine(c.start(), b.N)
	storeGradients[C](g, c, b)
	return true
}

// gradient returns what makes the grid's gradient, and of how many sums.
func (t *gatherType) gradient(g *gatherCell, b *GridBlock) (terms gridTerms, combine cellKernel, kinds int) {
	if b.Mode == Bicubic {
		return t.cubic[b.Dims-2].terms, g.cubic[b.Dims-2].combine, b.Dims
	}
	return t.terms[b.Dims-2], g.combine[b.Dims-2], b.Dims << (b.Dims - 1)
}

// sumTerms sums terms of a block's channels, of which there are so many kinds.
func sumTerms[C Compute](c *gridCells, b *GridBlock, terms gridTerms, kinds int) {
	for p := range kinds {
		clear(planeOf[C](c, planeSums+p)[:])
	}
	for first := int64(0); first < b.Channels; first += groupSize {
		terms(c.start(), b.N, (*byte)(b.Input.Channel(first)), int(b.Input.ChannelStride),
			(*byte)(b.GradOutput.Row(first, 0).P), int(b.GradOutput.RowStride), int(min(groupSize, b.Channels-first)),
			(*byte)(b.Scratch.block(termBlocks)))
	}
}

// storeGradients stores the gradients that lie in cells.
func storeGradients[C Compute](g *gatherCell, c *gridCells, b *GridBlock) {
	var grads [3]*[Block]C
	for axis := range b.Dims {
		grad := planeOf[C](c, planeGrad+axis)
		if rest := b.N % g.lanes; rest > 0 { // the last vector is that of the last positions
			copy(grad[b.N-g.lanes:b.N], unsafe.Slice(&grad[0], cellPitch)[b.N-rest:])
		}
		grads[axis] = grad
	}
	storeCoords(g, c, b, &grads)
}
