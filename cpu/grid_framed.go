package cpu

import (
	"unsafe"

	"github.com/isobit-ml/isobit/tensor"
)

// Small images of a batch, whole: both gradients of few channels in one pass.
//
// A worker's scratch memory holds the image, its gradient, and a count of
// positions for each cell, within a frame of zeros: a column between rows, two
// rows above and one below. Every tap of a position with a tap inside the image
// has a place there; for others there is place 0, all of whose taps are frame.

// GridFramed are the kernels for small images; its zero value takes none.
type GridFramed struct {
	k *gridKernel
	f *framedKernel
}

// MostFramedSums is the most channels for which the gradients of input and grid are computed together:
// the sums of a pixel's channels lie side by side.
const MostFramedSums = maxQuad

// framedKernel is a set of generated kernels.
type framedKernel struct {
	needs  ISA
	locate func(cells *byte, n int) // as gridKernel's
	sample func(cells *byte, n int, input *byte, row int, y *byte)
	slope  func(cells *byte, n int, input *byte, row, channelStride int, dy *byte, dyStride, channels int, terms *byte)
}

// framedAdd adds a block's contributions to some channels.
type framedAdd func(cells *byte, n int, plane *float32, row, planeStride int, dy *float32, dyStride int)

// framedQuad does so for channels that lie side by side.
type framedQuad func(cells *byte, n int, sums *float32, row int, dy *float32, dyStride int)

// framedRuns does so, or for a single channel, and counts each pixel's contributions: a row is so many pixels.
type framedRuns func(cells *byte, n int, sums *float32, row int, dy *float32, dyStride int, count *uint8, chunks *byte, list *[2]int64, full int) int

// GridFrames is the table of rows of grid_sample, and of its gradients, in small images with a frame of zeros.
var GridFrames = framedRows()

// framedOf returns the kernels of an instruction set.
func framedOf(isa ISA) *framedKernel {
	for i := range framedKernels {
		if framedKernels[i].needs == isa {
			return &framedKernels[i]
		}
	}
	return nil
}

func framedRows() (table []Row[GridFramed]) {
	for isa := largestISA; isa >= Go; isa-- {
		table = append(table, Row[GridFramed]{isa.String(), isa, func(t Types) (framed GridFramed, ok bool) {
			if k := gridKernelFor(isa, tensor.F32); k != nil && t.In[0] == tensor.F32 {
				framed = GridFramed{k, framedOf(isa)}
			}
			return framed, true
		}})
	}
	return table
}

// gridFrame is the geometry of some rows of an image in a frame.
type gridFrame struct {
	rows  [2]int64 // the first, and the one after the last
	width int64
	pitch int64 // from one row to the next, in elements
	first int64 // place of the first pixel
	plane int64 // elements of a channel
}

func frameOf(g *Sampler) gridFrame { return frameRows(g.Size[0], 0, g.Size[1]) }

func frameRows(width, begin, end int64) gridFrame {
	pitch := width + 1
	// No large power of 2 between planes: see cellPitch.
	return gridFrame{[2]int64{begin, end}, width, pitch, 2*pitch + 1, ((end-begin+3)*pitch+1+15)&^15 + 16}
}

// locate fills the cells of a block with places in the frame.
func (f *gridFrame) locate(k *gridKernel, b *GridBlock, locate func(cells *byte, n int), repeats, slopes bool) *gridCells {
	if !b.isLocated(locatedFrame, slopes) {
		k.setParameters(b, f.pitch, slopes)
		c := cellsOf(b.Scratch)
		floats := c.floats(planeParams)
		floats[paramLow], floats[paramHigh] = -1, float32(f.width-1)
		floats[paramLow+1], floats[paramHigh+1] = float32(f.rows[0]-1), float32(f.rows[1]-1)
		c[planeParams][paramOrigin] = uint32((1 - f.rows[0]) * f.pitch)
	}
	return k.locateBlock(b, locate, repeats)
}

// GridGradients says which gradients are wanted: none where images are sampled.
type GridGradients struct{ Grid, Input bool }

// Takes reports whether the kernels can sample images in blocks of at least n
// positions, or make the gradients that are wanted.
func (g GridFramed) Takes(s *Sampler, channels int64, wanted GridGradients, n int64) bool {
	if g.k == nil || s.Dims != 2 || s.Mode != Bilinear || channels == 0 || n < int64(g.k.lanes) {
		return false
	}
	if max(s.Size[0], s.Size[1]) >= 1<<16 || (wanted.Input && channels > MostFramedSums) || (wanted.Grid && channels > groupSize) {
		return false
	}
	bytes := frameOf(s).plane * channels * 4
	if wanted.Input {
		bytes += frameOf(s).plane // counts
		bytes += (&framedSums{gridFrame: frameOf(s), channels: int(channels)}).floats() * 4
	}
	return bytes <= int64(unsafe.Sizeof(Scratch{}.columns))
}

// input returns a channel of the framed image, sums its gradient's.
func (f gridFrame) input(s *Scratch, channel int64) *float32 {
	return (*float32)(unsafe.Add(unsafe.Pointer(&s.columns), channel*f.plane*4))
}

func (f gridFrame) sums(b *GridBlock) framedSums {
	return framedSums{gridFrame: f, start: f.input(b.Scratch, b.Channels), channels: int(b.Channels)}
}

func (f gridFrame) count(b *GridBlock) *uint8 {
	s := f.sums(b)
	return (*uint8)(unsafe.Add(unsafe.Pointer(s.start), s.floats()*4))
}

// Open puts a block's image into its frame.
func (g GridFramed) Open(b *GridBlock) {
	f := frameOf(&b.Sampler)
	clear(unsafe.Slice(f.input(b.Scratch, 0), f.plane*b.Channels))
	for c := range b.Channels {
		to := unsafe.Slice(f.input(b.Scratch, c), f.plane)[f.first:]
		from := b.Input.Channel(c)
		for y := range f.rows[1] {
			row := unsafe.Add(from, y*b.Input.AxisStride[1])
			if b.Input.AxisStride[0] == 4 {
				copy(to[y*f.pitch:], unsafe.Slice((*float32)(row), f.width))
			} else {
				Load(to[y*f.pitch:][:f.width], Span{row, b.Input.AxisStride[0], tensor.F32})
			}
		}
	}
}

// Sample is GridSample for a block of the open image.
func (g GridFramed) Sample(b *GridBlock) {
	f := frameOf(&b.Sampler)
	c := f.locate(g.k, b, g.f.locate, lastRepeats, noSlopes)
	for channel := range b.Channels {
		g.f.sample(c.start(), b.N, (*byte)(unsafe.Pointer(f.input(b.Scratch, channel))), int(f.pitch*4), (*byte)(b.Output.Row(channel, 0).P))
	}
}

// Clear makes the sums and counts of an image that has not begun.
func (g GridFramed) Clear(b *GridBlock) {
	f := frameOf(&b.Sampler)
	sums := f.sums(b)
	sums.clear()
	clear(unsafe.Slice(f.count(b), f.plane))
}

// Gradients stores the gradient of the grid for a block of the open image, and
// adds to that of the input, where input is set. It reports whether the latter
// holds: an image with a chunk is left to GridScatter.
func (g GridFramed) Gradients(b *GridBlock, input bool) bool {
	f := frameOf(&b.Sampler)
	c := f.locate(g.k, b, g.f.locate, lastRepeats, withSlopes)
	g.f.slope(c.start(), b.N, (*byte)(unsafe.Pointer(f.input(b.Scratch, 0))), int(f.pitch*4), int(f.plane*4),
		(*byte)(b.GradOutput.P), int(b.GradOutput.RowStride), int(b.Channels), (*byte)(b.Scratch.block(termBlocks)))
	storeGradients[float32](g.k.cells(), c, b)
	if !input {
		return true
	}
	// The last vector of cells repeats some positions; they count once.
	rest := b.N % g.k.lanes
	whole := b.N - rest
	last := (*byte)(unsafe.Pointer(&c[0][whole+(g.k.lanes-rest)%g.k.lanes]))
	if (gridFramedCount(c.start(), whole, f.count(b))|gridFramedCount(last, rest, f.count(b)))&^(fullCell-1) != 0 {
		return false
	}
	sums, dy, stride := f.sums(b), b.GradOutput.P, int(b.GradOutput.RowStride)
	sums.add(c.start(), whole, dy, stride)
	if rest > 0 {
		sums.add(last, rest, unsafe.Add(dy, whole*4), stride)
	}
	return true
}

// Store stores the sums of an image as its gradient.
func (g GridFramed) Store(b *GridBlock, out Image) {
	sums := frameOf(&b.Sampler).sums(b)
	sums.store(typeFor(g.k.needs, g.k.dtype), out, b.Scratch)
}
