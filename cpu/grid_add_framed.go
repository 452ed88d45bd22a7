package cpu

import (
	"unsafe"

	"github.com/isobit-ml/isobit/tensor"
)

// The input's gradient where channels lie in planes: sums in a frame of zeros
// (grid_framed.go), until some pixel might have a chunk.

// A pixel has the positions of the four cells around it. While each has had
// fewer than this, no pixel has a chunk, and its sum is a plain loop.
const fullCell = ChunkSize / 4

// addFramed adds a block's contributions, and reports whether it did: if not,
// the sums have left the frame, and no pixel of theirs has a chunk.
func (k *gridKernel) addFramed(place func(cells *byte, n int), s *GridScatter[float32], b *GridBlock) bool {
	c := s.frame.locate(k, b, place, false)
	count := unsafe.SliceData(s.count)
	if gridFramedCount(c.start(), b.N, count) >= fullCell {
		for _, at := range c[planePair][:b.N] {
			if at != 0 {
				s.count[at]--
			}
		}
		s.leaveFrame()
		return false
	}
	for first := 0; first < s.channels; first += len(gridFramedAdds) {
		channels := min(len(gridFramedAdds), s.channels-first)
		dy, stride := s.gradOutput(b, first, channels)
		gridFramedAdds[channels-1](c.start(), b.N, &s.plane(first)[0], int(s.frame.pitch*4), int(s.channel*4), dy, stride)
	}
	return true
}

// gradOutput returns some channels of the block's upstream gradient.
func (s *GridScatter[C]) gradOutput(b *GridBlock, first, channels int) (*float32, int) {
	size := int64(unsafe.Sizeof(C(0)))
	dy := b.GradOutput.Row(int64(first), 0)
	if dy.DType.Size() == size && dy.Contiguous() {
		return (*float32)(dy.P), int(b.GradOutput.RowStride)
	}
	for i := range channels {
		Load(BlockOf[C](b.Scratch, tapBlocks+i, b.N), b.GradOutput.Row(int64(first+i), 0))
	}
	return (*float32)(unsafe.Pointer(&b.Scratch.blocks[tapBlocks])), int(unsafe.Sizeof(b.Scratch.blocks[0]))
}

// plane returns the sums of a channel that lies in one.
func (s *GridScatter[C]) plane(channel int) []C {
	return unsafe.Slice(s.sum(channel, 0), s.channel)
}

// leaveFrame moves sums and counts to where those of plain planes lie, which
// is never further on.
func (s *GridScatter[C]) leaveFrame() {
	f := s.frame
	s.frame = gridFrame{}
	for c := range s.channels {
		plane := s.plane(c)
		for y := range f.rows[1] - f.rows[0] {
			copy(plane[y*f.width:][:f.width], plane[f.first+y*f.pitch:])
		}
	}
	for y := range f.rows[1] - f.rows[0] {
		for x := range f.width {
			cell := (y+1)*f.pitch + x // that of the tap to the south-east
			s.count[y*f.width+x] = s.count[cell] + s.count[cell+1] + s.count[cell+f.pitch] + s.count[cell+f.pitch+1]
		}
	}
}

// storeFramed is Store for sums in a frame.
func (s *GridScatter[C]) storeFramed(out Image) {
	for c := range s.channels {
		for y := s.frame.rows[0]; y < s.frame.rows[1]; y++ {
			row := Span{unsafe.Add(out.Channel(int64(c)), y*out.AxisStride[1]), out.AxisStride[0], out.DType}
			storeRow(row, s.plane(c)[s.frame.first+(y-s.frame.rows[0])*s.frame.pitch:][:s.frame.width])
		}
	}
}

// loadRow is Load, storeRow is Store: of a whole row, whose type may be the
// compute type.
func loadRow[C Compute](dst []C, s Span) {
	if s.Contiguous() && s.DType == computeOf[C]() {
		copy(dst, unsafe.Slice((*C)(s.P), len(dst)))
	} else {
		Load(dst, s)
	}
}

func storeRow[C Compute](s Span, src []C) {
	if s.Contiguous() && s.DType == computeOf[C]() {
		copy(unsafe.Slice((*C)(s.P), len(src)), src)
	} else {
		Store(s, src)
	}
}

func computeOf[C Compute]() tensor.DType {
	if unsafe.Sizeof(C(0)) == 8 {
		return tensor.F64
	}
	return tensor.F32
}
