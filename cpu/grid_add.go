package cpu

import "unsafe"

// The input's gradient by generated kernels.

// scatterByKernel is GridScatterAdd32 by kernels. A block that completes a
// pixel's chunk is left to the definition.
func scatterByKernel(k *gridKernel, definition func(*GridScatter[float32], *GridBlock)) func(*GridScatter[float32], *GridBlock) {
	return func(s *GridScatter[float32], b *GridBlock) {
		if !s.g.takes(s.g.Size[0]) {
			definition(s, b)
			return
		}
		c := k.locateBlock(b, s.g.Size[0], false)
		c[planeParams][paramFirst], c[planeParams][paramPixels] = uint32(s.band.First), uint32(s.band.Pixels)
		k.pixels(c.start(), b.N)
		if s.countPixels(c, b.N) {
			definition(s, b)
			return
		}
		for first := 0; first < s.channels; first += len(gridAdds) {
			s.addChannels(c, b, first, min(len(gridAdds), s.channels-first))
		}
	}
}

// addChannels adds a block's contributions to some channels.
func (s *GridScatter[C]) addChannels(c *gridCells, b *GridBlock, first, channels int) {
	dy, stride := b.GradOutput.Row(int64(first), 0), b.GradOutput.RowStride
	if dy.DType.Size() != int64(unsafe.Sizeof(C(0))) || !dy.Contiguous() {
		for i := range channels {
			Load(BlockOf[C](b.Scratch, tapBlocks+i, b.N), b.GradOutput.Row(int64(first+i), 0))
		}
		dy.P, stride = unsafe.Pointer(&b.Scratch.blocks[tapBlocks]), int64(unsafe.Sizeof(b.Scratch.blocks[0]))
	}
	plane := unsafe.Add(s.planes, int64(first)*s.stride)
	gridAdds[channels-1](c.start(), b.N, (*float32)(plane), int(s.stride), (*float32)(dy.P), int(stride))
}

// countPixels counts the block's contributions and reports whether some pixel
// completes a chunk; if so the counts stay as they were.
func (s *GridScatter[C]) countPixels(c *gridCells, n int) (full bool) {
	for tap := range 4 {
		for _, p := range c[planePixel+tap][:n] {
			if int32(p) >= 0 {
				s.count[p]++
				if s.count[p] == 0 {
					full = true
				}
			}
		}
	}
	if full {
		for tap := range 4 {
			for _, p := range c[planePixel+tap][:n] {
				if int32(p) >= 0 {
					s.count[p]--
				}
			}
		}
	}
	return full
}
