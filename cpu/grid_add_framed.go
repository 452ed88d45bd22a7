package cpu

import (
	"unsafe"

	"github.com/isobit-ml/isobit/tensor"
)

// The input's gradient where channels lie in planes: sums in a frame of zeros
// (grid_framed.go).

// A pixel has the positions of the four cells around it. While each has had
// fewer than this, no pixel has a chunk, and its sum is a plain loop; from then
// on each pixel's contributions are counted.
const fullCell = ChunkSize / 4

// framedSums are sums of some channels in a frame. Of 2 to 4 channels, those of
// a pixel lie side by side in four places, so that one addition does; else, and
// where all do not fit caches, each channel has a plane.
type framedSums struct {
	gridFrame
	start    *float32
	channels int
	byPixel  bool // contributions are counted by pixel, and sums do not lie in planes
}

// quadPlaces is how many places may be of maxQuad sums.
const (
	quadPlaces = 1 << 20
	maxQuad    = 4
)

func (f *framedSums) quads() bool {
	return f.channels > 1 && f.channels <= maxQuad && (f.plane < quadPlaces || f.byPixel)
}

// planes reports whether each of several channels has a plane.
func (f *framedSums) planes() bool { return f.channels > 1 && !f.quads() }

// floats returns how many there are, places without a channel among them.
func (f *framedSums) floats() int64 {
	if f.quads() {
		return 4 * f.plane
	}
	return int64(f.channels) * f.plane
}

func (f *framedSums) clear() { clear(unsafe.Slice(f.start, f.floats())) }

// at returns the sum at a place of a channel's plane, or of the first channel.
func (f *framedSums) at(channel int, place int64) *float32 {
	return (*float32)(unsafe.Add(unsafe.Pointer(f.start), (int64(channel)*f.plane+place)*4))
}

// add adds n positions' contributions; the channels' dy lie stride bytes apart.
func (f *framedSums) add(cells *byte, n int, dy unsafe.Pointer, stride int) {
	if f.quads() {
		gridFramedQuads[f.channels-2](cells, n, f.start, int(f.pitch*16), (*float32)(dy), stride)
		return
	}
	for first := 0; first < f.channels; first += len(gridFramedAdds) {
		channels := min(len(gridFramedAdds), f.channels-first)
		gridFramedAdds[channels-1](cells, n, f.at(first, 0), int(f.pitch*4), int(f.plane*4), (*float32)(unsafe.Add(dy, first*stride)), stride)
	}
}

// transposeRow moves a row of sums that lie in quads to planes.
func (f *framedSums) transposeRow(y int64, to *float32, stride int64, x, n int) {
	transposeQuads(unsafe.Add(unsafe.Pointer(f.start), (f.first+(y-f.rows[0])*f.pitch+int64(x))*16), f.channels, to, stride, n)
}

// transposeQuads moves the sums of n pixels, which lie in quads, to planes that lie
// stride bytes apart.
func transposeQuads(from unsafe.Pointer, channels int, to *float32, stride int64, n int) {
	gridFramedTranspose((*float32)(from), n&^3, to, int(stride), channels)
	for i := n &^ 3; i < n; i++ {
		for c := range channels {
			*(*float32)(unsafe.Add(unsafe.Pointer(to), int64(c)*stride+int64(i)*4)) = *(*float32)(unsafe.Add(from, i*16+c*4))
		}
	}
}

// store stores the sums as an image's rows.
func (f *framedSums) store(t *gatherType, out Image, scratch *Scratch) {
	direct := out.DType == tensor.F32 && out.AxisStride[0] == 4
	for y := f.rows[0]; y < f.rows[1]; y++ {
		switch start := unsafe.Add(out.P, y*out.AxisStride[1]); {
		case direct && f.quads():
			f.transposeRow(y, (*float32)(start), out.ChannelStride, 0, int(f.width))
		case direct:
			for c := range f.channels {
				copy(unsafe.Slice((*float32)(unsafe.Add(start, int64(c)*out.ChannelStride)), f.width), f.row(c, y))
			}
		default:
			f.storeRow(t, y, Span{start, out.AxisStride[0], out.DType}, out.ChannelStride, scratch)
		}
	}
}

// row returns the sums of a channel that has a plane.
func (f *framedSums) row(channel int, y int64) []float32 {
	return unsafe.Slice(f.at(channel, f.first+(y-f.rows[0])*f.pitch), f.width)
}

// storeRow stores a row as what it takes.
func (f *framedSums) storeRow(t *gatherType, y int64, to Span, channelStride int64, scratch *Scratch) {
	for x := 0; x < int(f.width); x += Block {
		n := min(Block, int(f.width)-x)
		if f.quads() {
			f.transposeRow(y, &BlockOf[float32](scratch, 0, n)[0], blockBytes, x, n)
		}
		for c := range f.channels {
			run := BlockOf[float32](scratch, c, n)
			if !f.quads() {
				run = f.row(c, y)[x:][:n]
			}
			part := to.At(int64(x))
			part.P = unsafe.Add(part.P, int64(c)*channelStride)
			storeRow(t, part, run)
		}
	}
}

// addFramed adds a block's contributions.
func (k *gridKernel) addFramed(locate func(cells *byte, n int), s *GridScatter[float32], b *GridBlock) {
	c, count := s.frame.locate(k, b, locate, zerosFollow, noSlopes), unsafe.SliceData(s.count)
	dy, stride := s.gradOutput(typeFor(k.needs, k.dtype), b, 0, s.channels)
	if !s.frame.byPixel {
		if gridFramedCount(c.start(), b.N, count) < fullCell {
			s.frame.add(c.start(), b.N, dy, stride)
			return
		}
		for _, at := range c[planePair][:b.N] {
			if at != 0 {
				s.count[at]--
			}
		}
		s.countPixels()
	}
	chunks, list := s.room()
	s.full = gridFramedRuns[s.channels-1](c.start(), b.N, s.frame.start, int(s.frame.pitch), (*float32)(dy), stride, count, chunks, list, s.full)
}

// gradOutput returns some channels of the block's upstream gradient.
func (s *GridScatter[C]) gradOutput(t *gatherType, b *GridBlock, first, channels int) (unsafe.Pointer, int) {
	size := int64(unsafe.Sizeof(C(0)))
	dy := b.GradOutput.Row(int64(first), 0)
	if dy.DType.Size() == size && dy.Contiguous() {
		return dy.P, int(b.GradOutput.RowStride)
	}
	for i := range channels {
		loadRow(t, BlockOf[C](b.Scratch, tapBlocks+i, b.N), b.GradOutput.Row(int64(first+i), 0))
	}
	return b.Scratch.block(tapBlocks), blockBytes
}

func (s *GridScatter[C]) frameOf() gridFrame {
	width := s.g.Size[0]
	return frameRows(width, s.band.First/width, (s.band.First+s.band.Pixels)/width)
}

// enterFrame has sums and counts of a few channels lie in a frame.
func (s *GridScatter[C]) enterFrame() {
	s.frame = framedSums{gridFrame: s.frameOf(), start: (*float32)(s.pixels), channels: s.channels}
	if s.frame.planes() {
		s.frame.start = (*float32)(s.apart)
	}
	s.frame.clear()
	clear(s.count)
}

// countPixels has contributions be counted by pixel, no longer by cell.
func (s *GridScatter[C]) countPixels() {
	f := &s.frame
	planes := *f
	if f.byPixel = true; planes.planes() {
		f.start = (*float32)(s.pixels)
		f.clear()
		quads := unsafe.Slice((*[maxQuad]float32)(s.pixels), f.plane)
		for c := range s.channels {
			for i, sum := range unsafe.Slice(planes.at(c, 0), f.plane) {
				quads[i][c] = sum
			}
		}
	}
	// A pixel is a tap of its own cell, of the one before, and of those above. Cells are so few that eight
	// sums are one of 64 bits; what is left over at the frame's begin is above the image.
	eight := func(place int64) *uint64 {
		return (*uint64)(unsafe.Add(unsafe.Pointer(unsafe.SliceData(s.count)), place))
	}
	for at := f.plane - 8; at > f.pitch; at -= 8 {
		*eight(at) += *eight(at - 1) + *eight(at - f.pitch) + *eight(at - f.pitch - 1)
	}
}

// sumAt returns the sum of a channel that was counted at a place: of a pixel, or in a frame, where it may be
// none of the image's.
func (s *GridScatter[C]) sumAt(channel int, place int64) *C {
	switch {
	case s.frame.start == nil:
		return s.sum(channel, place)
	case s.frame.quads():
		place, channel = place*maxQuad+int64(channel), 0
	}
	return (*C)(unsafe.Pointer(s.frame.at(channel, place)))
}
