package cpu

import (
	"unsafe"

	"github.com/isobit-ml/isobit/tensor"
)

// What stands between bilinear grid_sample on images and its generated
// kernels. A block's positions are located once, for all channels: their cells
// lie in planes of 32-bit words.

// gridKernel is a set of generated kernels for one type of images.
type gridKernel struct {
	needs       ISA
	dtype       tensor.DType
	lanes       int
	locate      func(cells *byte, n int)
	sample      func(cells *byte, n int, input *byte, row int, y *byte)
	terms       func(cells *byte, n int, input *byte, row, channelStride int, dy *byte, dyStride, channels int, terms *byte)
	combine     func(cells *byte, n int)
	double      doublePairs
	bend        func(cells *byte, n int)
	transpose   transposeTile // of the images' type
	transpose32 transposeTile
	slopes      [2]rowTermsKernel // of images, of volumes
}

// transposeTile transposes squares of 16 by 16 elements: of a square, rows lie
// fromRow bytes apart, and the next one begins fromTile bytes further on.
type transposeTile func(from *byte, fromRow, fromTile int, to *float32, toRow, toTile, tiles int)

// gridRows makes an op's table: a row for each instruction set that has kernels,
// then the definition, to which a kernel leaves the blocks that it does not take.
func gridRows[F any](definition func(Types) (F, bool), glue func(k *gridKernel, definition F) F) []Row[F] {
	return tableOf(definition, func(isa ISA, t Types) (f F, ok bool) {
		k := gridKernelFor(isa, t.In[0])
		if k == nil {
			return f, false
		}
		slow, _ := definition(t)
		return glue(k, slow), true
	})
}

// gridKernelFor returns the kernels of an instruction set for a type of images, or nil.
func gridKernelFor(isa ISA, dtype tensor.DType) *gridKernel {
	for i := range gridKernels {
		if k := &gridKernels[i]; k.needs == isa && k.dtype == dtype {
			return k
		}
	}
	return nil
}

// takes reports whether the kernels can locate positions in images: of at least 2 by 2
// pixels, so few that a float32 holds the number of every column and row, and 31 bits the
// number of every pixel, also within a frame. Rows lie pitch elements apart.
func (g *Sampler) takes(pitch int64) bool {
	return g.Dims == 2 && g.Mode == Bilinear && min(g.Size[0], g.Size[1]) >= 2 &&
		max(g.Size[0], g.Size[1]) < 1<<24 && pitch >= 0 && max(pitch, g.Size[0]+1)*(g.Size[1]+3) < 1<<31-g.Size[0]
}

// takes reports whether the kernels can read a block's input.
func (k *gridKernel) takes(b *GridBlock) bool {
	size := b.Input.DType.Size()
	return b.Mode == Bilinear && k.sample != nil && b.N >= k.lanes && b.Input.AxisStride[0] == size && b.Sampler.takes(b.Input.AxisStride[1]/size)
}

// locatePairs fills the cells of a block; see locateBlock. Slopes are located for a gradient of the
// grid alone.
func (k *gridKernel) locatePairs(b *GridBlock, slopes bool) *gridCells {
	if !b.isLocated(locatedPairs, slopes) {
		k.setParameters(b, b.Input.AxisStride[1]/b.Input.DType.Size(), slopes)
	}
	return k.locateBlock(b, k.locate, lastRepeats)
}

// setParameters sets those of images as they are, or in frames, whose rows lie pitch elements apart.
func (k *gridKernel) setParameters(b *GridBlock, pitch int64, slopes bool) {
	c := cellsOf(b.Scratch)
	setParameters(c.floats(planeParams), &b.Sampler)
	c[planeParams][paramPitch] = uint32(pitch)
	c[planeParams][paramMode] = uint32(b.Padding)
	c[planeParams][paramHalf] = kindOfHalf(k.dtype)
	c[planeParams][paramSlopes] = wordOf(slopes)
}

// How the last vector is filled up where positions are no multiple of a vector: it has the last
// positions, some of them for a second time; or zeros follow the positions.
const lastRepeats, zerosFollow = true, false

// Whether cells have what the grid's gradient needs, too.
const withSlopes, noSlopes = true, false

// locateBlock fills cells that have parameters by the given kernel.
func (k *gridKernel) locateBlock(b *GridBlock, locate func(cells *byte, n int), repeats bool) *gridCells {
	c := cellsOf(b.Scratch)
	loadCells[float32](k.cells(), c, b, &b.Coords, repeats)
	locate(c.start(), b.N)
	b.continuePlaces((*byte)(unsafe.Pointer(&c[planePair])), 1, k.lanes, repeats)
	return c
}

// setParameters sets those that are the geometry's alone.
func setParameters[C Compute](params *[Block]C, g *Sampler) {
	for axis, size := range g.Size[:g.Dims] {
		s := C(size)
		scale, shift, factor, slope, low, span := s, C(1), C(0.5), s/2, C(-0.5), s
		if g.AlignCorners {
			scale, shift, factor, slope, low, span = 0.5, 0, s-1, (s-1)/2, 0, s-1
		}
		params[paramScale+axis], params[paramShift+axis], params[paramFactor+axis], params[paramK+axis] = scale, shift, factor, slope
		params[paramSize+axis], params[paramLast+axis], params[paramPair+axis] = s, s-1, s-2
		params[paramFold+axis], params[paramSpan+axis] = low, span
		if params[paramBeyond+axis] = 0; g.Padding == Border {
			params[paramBeyond+axis] = s - 1
		}
	}
}

// otherKernels are for blocks that the kernels of pairs do not take. Each reports whether
// it takes the block.
type otherKernels struct {
	sampleRows, sample, gradient func(k *gridKernel, b *GridBlock) bool
}

func (k *gridKernel) others() otherKernels {
	return ForCompute(k.dtype,
		otherKernels{sampleRows[float32], sampleGather[float32], gradientGather[float32]},
		otherKernels{sampleRows[float64], sampleGather[float64], gradientGather[float64]})
}

// sampleBlock is GridSample by kernels.
func (k *gridKernel) sampleBlock(b *GridBlock, definition func(*GridBlock)) {
	switch {
	case b.Joined.Images == 0 && k.others().sampleRows(k, b):
	case k.isShort(b, b.apart(&b.Output, b.Joined.Output)):
		k.sampleShort(b, definition)
	default:
		k.samplePlanes(b, definition)
	}
}

// samplePlanes is sampleBlock of one channel after the other.
func (k *gridKernel) samplePlanes(b *GridBlock, definition func(*GridBlock)) {
	if !k.takes(b) || !b.Output.Contiguous() {
		if !k.others().sample(k, b) {
			definition(b)
		}
		return
	}
	c := k.locatePairs(b, noSlopes)
	for channel := range b.Channels {
		k.sample(c.start(), b.N, (*byte)(b.Input.Channel(channel)), int(b.Input.AxisStride[1]), (*byte)(b.Output.Row(channel, 0).P))
	}
}

// gradientBlock is GridSampleBackwardGrid by kernels.
func (k *gridKernel) gradientBlock(b *GridBlock, definition func(*GridBlock)) {
	switch {
	case b.Joined.Images == 0 && slopesOfRows(k, b):
		return
	case k.isShort(b, b.apart(&b.Output, b.Joined.Output) || b.apart(&b.GradOutput, b.Joined.GradOutput)):
		k.gradientShort(b, definition)
		return
	}
	if !k.takes(b) || !b.GradOutput.Contiguous() {
		if !k.others().gradient(k, b) {
			definition(b)
		}
		return
	}
	c := k.locatePairs(b, withSlopes)
	for p := planeSums; p < planeSums+4; p++ {
		clear(c[p][:])
	}
	for first := int64(0); first < b.Channels; first += groupSize {
		k.terms(c.start(), b.N, (*byte)(b.Input.Channel(first)), int(b.Input.AxisStride[1]), int(b.Input.ChannelStride),
			(*byte)(b.GradOutput.Row(first, 0).P), int(b.GradOutput.RowStride), int(min(groupSize, b.Channels-first)),
			(*byte)(b.Scratch.block(termBlocks)))
	}
	k.combine(c.start(), b.N)
	storeGradients[float32](k.cells(), c, b)
}
