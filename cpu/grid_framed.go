package cpu

import (
	"unsafe"

	"github.com/isobit-ml/isobit/tensor"
)

// Small images of a batch, whole: both gradients in one pass.
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

// framedKernel is a set of generated kernels.
type framedKernel struct {
	needs         ISA
	locate, place func(cells *byte, n int) // as gridKernel's
	sample        func(cells *byte, n int, input *byte, row int, y *byte)
	slope         func(cells *byte, n int, input *byte, row, channelStride int, dy *byte, dyStride, channels int, terms *byte)
}

// framedAdd adds a block's contributions to some channels.
type framedAdd func(cells *byte, n int, plane *float32, row, planeStride int, dy *float32, dyStride int)

// GridFrames is the table of rows.
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
	for isa := AVX512; isa >= Go; isa-- {
		table = append(table, Row[GridFramed]{isa.String(), isa, func(t Types) (framed GridFramed, ok bool) {
			for i := range gridKernels {
				if k := &gridKernels[i]; k.needs == isa && k.dtype == tensor.F32 && t.In[0] == tensor.F32 {
					framed = GridFramed{k, framedOf(isa)}
				}
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
	// Distances of planes that are a large power of 2 would hold one another up.
	return gridFrame{[2]int64{begin, end}, width, pitch, 2*pitch + 1, ((end-begin+3)*pitch+1+15)&^15 + 16}
}

// locate fills the cells of a block with places in the frame.
func (f *gridFrame) locate(k *gridKernel, b *GridBlock, locate func(cells *byte, n int), lastAligned bool) *gridCells {
	params := &cellsOf(b.Scratch)[planeParams]
	floats := (*[Block]float32)(unsafe.Pointer(params))
	floats[paramLow], floats[paramHigh] = -1, float32(f.width-1)
	floats[paramLow+1], floats[paramHigh+1] = float32(f.rows[0]-1), float32(f.rows[1]-1)
	params[paramOrigin] = uint32((1 - f.rows[0]) * f.pitch)
	return k.locateBlock(b, locate, f.pitch, lastAligned)
}

// row returns the pixels of a row of the image in a plane.
func (f *gridFrame) row(plane []float32, y int64) []float32 {
	return plane[f.first+(y-f.rows[0])*f.pitch:][:f.width]
}

// Takes reports whether the kernels can sample images, with sums where the
// input's gradient is wanted, in blocks of at least n positions.
func (g GridFramed) Takes(s *Sampler, channels int64, sums bool, n int64) bool {
	if g.k == nil || s.Dims != 2 || s.Mode != Bilinear || channels == 0 || n < int64(g.k.lanes) {
		return false
	}
	if max(s.Size[0], s.Size[1]) >= 1<<16 || (sums && channels >= MaxScatterChannels) {
		return false
	}
	floats := frameOf(s).plane * channels
	if sums {
		floats += floats + frameOf(s).plane/4
	}
	return floats*4 <= int64(unsafe.Sizeof(Scratch{}.columns))
}

// input returns the framed image, sums its gradient's.
func (f gridFrame) input(s *Scratch, channel int64) *float32 {
	return (*float32)(unsafe.Add(unsafe.Pointer(&s.columns), channel*f.plane*4))
}

func (f gridFrame) sums(b *GridBlock, channel int64) *float32 {
	return f.input(b.Scratch, b.Channels+channel)
}

func (f gridFrame) count(b *GridBlock) *uint8 {
	return (*uint8)(unsafe.Pointer(f.input(b.Scratch, 2*b.Channels)))
}

// Open puts a block's image into its frame.
func (g GridFramed) Open(b *GridBlock) {
	f := frameOf(&b.Sampler)
	clear(unsafe.Slice(f.input(b.Scratch, 0), f.plane*b.Channels))
	for c := range b.Channels {
		plane := unsafe.Slice(f.input(b.Scratch, c), f.plane)
		for y := range b.Size[1] {
			row := Span{unsafe.Add(b.Input.Channel(c), y*b.Input.AxisStride[1]), b.Input.AxisStride[0], b.Input.DType}
			loadRow(f.row(plane, y), row)
		}
	}
}

// Sample is GridSample for a block of the open image.
func (g GridFramed) Sample(b *GridBlock) {
	f := frameOf(&b.Sampler)
	c := f.locate(g.k, b, g.f.place, true)
	for channel := range b.Channels {
		g.f.sample(c.start(), b.N, (*byte)(unsafe.Pointer(f.input(b.Scratch, channel))), int(f.pitch*4), (*byte)(b.Output.Row(channel, 0).P))
	}
}

// Clear makes the sums and counts of an image that has not begun.
func (g GridFramed) Clear(b *GridBlock) {
	f := frameOf(&b.Sampler)
	clear(unsafe.Slice(f.sums(b, 0), f.plane*b.Channels))
	clear(unsafe.Slice(f.count(b), f.plane))
}

// Gradients stores the gradient of the grid, where grid is set, for a block of
// the open image, and adds to that of the input, where input is set. It reports
// whether the latter holds: an image with a chunk is left to GridScatter.
func (g GridFramed) Gradients(b *GridBlock, grid, input bool) bool {
	f := frameOf(&b.Sampler)
	locate := g.f.place
	if grid {
		locate = g.f.locate
	}
	c := f.locate(g.k, b, locate, true)
	if grid {
		g.f.slope(c.start(), b.N, (*byte)(unsafe.Pointer(f.input(b.Scratch, 0))), int(f.pitch*4), int(f.plane*4),
			(*byte)(b.GradOutput.P), int(b.GradOutput.RowStride), int(b.Channels), (*byte)(unsafe.Pointer(&b.Scratch.blocks[termBlocks])))
		g.k.alignLast(c, b)
		g.k.storeGradients(c, b)
	}
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
	for channel := int64(0); channel < b.Channels; channel += int64(len(gridFramedAdds)) {
		n := min(int64(len(gridFramedAdds)), b.Channels-channel)
		sums, dy, stride := f.sums(b, channel), b.GradOutput.Row(channel, 0), int(b.GradOutput.RowStride)
		add := gridFramedAdds[n-1]
		add(c.start(), whole, sums, int(f.pitch*4), int(f.plane*4), (*float32)(dy.P), stride)
		if rest > 0 {
			add(last, rest, sums, int(f.pitch*4), int(f.plane*4), (*float32)(dy.At(int64(whole)).P), stride)
		}
	}
	return true
}

// Store stores the sums of an image as its gradient.
func (g GridFramed) Store(b *GridBlock, out Image) {
	f := frameOf(&b.Sampler)
	for c := range b.Channels {
		plane := unsafe.Slice(f.sums(b, c), f.plane)
		for y := range b.Size[1] {
			row := Span{unsafe.Add(out.Channel(c), y*out.AxisStride[1]), out.AxisStride[0], out.DType}
			storeRow(row, f.row(plane, y))
		}
	}
}
