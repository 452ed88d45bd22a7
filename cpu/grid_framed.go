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

func framedRows() (table []Row[GridFramed]) {
	for isa := AVX512; isa >= Go; isa-- {
		table = append(table, Row[GridFramed]{isa.String(), isa, func(t Types) (framed GridFramed, ok bool) {
			for i := range framedKernels {
				for j := range gridKernels {
					f, k := &framedKernels[i], &gridKernels[j]
					if f.needs == isa && k.needs == isa && k.dtype == tensor.F32 && t.In[0] == tensor.F32 {
						framed = GridFramed{k, f}
					}
				}
			}
			return framed, true
		}})
	}
	return table
}

// gridFrame is the geometry of a framed image.
type gridFrame struct {
	pitch int64 // from one row to the next, in elements
	first int64 // the image's first pixel
	plane int64 // elements of a channel
}

func frameOf(g *Sampler) gridFrame {
	pitch := g.Size[0] + 1
	// Distances of planes that are a large power of 2 would hold one another up.
	return gridFrame{pitch, 2*pitch + 1, ((g.Size[1]+3)*pitch+1+15)&^15 + 16}
}

// A scatter is left to others once a cell has had this many positions: of the
// four cells around a pixel each has had fewer, so that no pixel has a chunk.
const fullCell = ChunkSize / 4

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
			to := plane[f.first+y*f.pitch:][:b.Size[0]]
			if row.Contiguous() {
				copy(to, unsafe.Slice((*float32)(row.P), len(to)))
			} else {
				Load(to, row)
			}
		}
	}
}

// Sample is GridSample for a block of the open image.
func (g GridFramed) Sample(b *GridBlock) {
	f := frameOf(&b.Sampler)
	c := g.k.locateBlock(b, g.f.place, f.pitch, true)
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
	c := g.k.locateBlock(b, locate, f.pitch, true)
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
			from := plane[f.first+y*f.pitch:][:b.Size[0]]
			if row.Contiguous() {
				copy(unsafe.Slice((*float32)(row.P), len(from)), from)
			} else {
				Store(row, from)
			}
		}
	}
}
