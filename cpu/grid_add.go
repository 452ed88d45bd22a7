package cpu

import "unsafe"

// The input's gradient by generated kernels.

// scatterByKernel is GridScatter32 by kernels. A block that completes a
// pixel's chunk is left to the definition.
func scatterByKernel(k *gridKernel, definition GridScatterKernel[float32]) GridScatterKernel[float32] {
	framed := framedOf(k.needs)
	start := func(s *GridScatter[float32]) {
		if s.pixel == 1 && s.g.takes(s.g.Size[0]) {
			s.enterFrame()
		} else {
			definition.Start(s)
		}
	}
	add := func(s *GridScatter[float32], b *GridBlock) {
		if s.frame.start != nil && k.addFramed(framed.place, s, b) {
			return
		}
		if !s.g.takes(s.g.Size[0]) {
			if s.g.Mode != Bicubic || !k.addCubic(s, b) {
				definition.Add(s, b)
			}
			return
		}
		c := k.locateBlock(b, k.place, s.g.Size[0], false)
		c[planeParams][paramFirst], c[planeParams][paramPixels] = uint32(s.band.First), uint32(s.band.Pixels)
		k.pixels(c.start(), b.N)
		if s.countPixels(c, b.N) {
			definition.Add(s, b)
		} else if s.channel == 1 {
			k.addInterleaved(s, c, b)
		} else {
			s.addPlanes(c, b)
		}
	}
	store := func(s *GridScatter[float32], out Image, scratch *Scratch) {
		switch {
		case s.frame.start != nil:
			s.frame.store(out, scratch)
		case s.channel == 1 && s.channels == MaxScatterChannels && out.DType.Size() == 4 && out.compact(s.g.Size, s.g.Dims):
			k.storeInterleaved(s, out)
		default:
			definition.Store(s, out, scratch)
		}
	}
	return GridScatterKernel[float32]{start, add, store}
}

// addPlanes adds a block's contributions, some channels at a time.
func (s *GridScatter[C]) addPlanes(c *gridCells, b *GridBlock) {
	for first := 0; first < s.channels; first += len(gridAdds) {
		channels := min(len(gridAdds), s.channels-first)
		dy, stride := s.gradOutput(b, first, channels)
		gridAdds[channels-1](c.start(), b.N, (*float32)(unsafe.Pointer(s.sum(first, 0))), int(s.channel*int64(unsafe.Sizeof(C(0)))), (*float32)(dy), stride)
	}
}

// tile is the side of the squares that are transposed.
const tile = 16

// addInterleaved adds a block's contributions where a pixel's sums lie side by
// side, after turning dy the same way.
func (k *gridKernel) addInterleaved(s *GridScatter[float32], c *gridCells, b *GridBlock) {
	k.add(c.start(), b.N, (*float32)(s.planes), k.turnGradients(s, b))
}

// turnGradients puts the upstream gradients of a position's channels side by
// side, as its sums are.
func (k *gridKernel) turnGradients(s *GridScatter[float32], b *GridBlock) *float32 {
	turned := unsafe.Slice((*float32)(unsafe.Pointer(&b.Scratch.blocks[turnedBlocks])), Block*tile)
	whole := 0
	if s.channels == tile && b.GradOutput.Contiguous() {
		whole = b.N / tile
		k.turn((*byte)(b.GradOutput.P), int(b.GradOutput.RowStride), int(tile*b.GradOutput.Stride),
			&turned[0], tile*4, tile*tile*4, whole)
	}
	if rest := b.N - whole*tile; rest > 0 {
		row := BlockOf[float32](b.Scratch, tapBlocks, rest)
		if s.channels < s.pitch {
			clear(turned[:rest*s.pitch])
		}
		for channel := range s.channels {
			Load(row, b.GradOutput.Row(int64(channel), int64(whole*tile)))
			to := turned[whole*tile*s.pitch+channel:]
			for i, v := range row {
				to[i*s.pitch] = v
			}
		}
	}
	return &turned[0]
}

// storeInterleaved turns the sums into planes.
func (k *gridKernel) storeInterleaved(s *GridScatter[float32], out Image) {
	to := (*float32)(unsafe.Add(out.P, s.band.First*4))
	whole := s.band.Pixels / tile
	for at := int64(0); at < whole; at += turnTiles {
		k.turn32((*byte)(unsafe.Pointer(s.sum(0, at*tile))), tile*4, tile*tile*4,
			(*float32)(unsafe.Add(unsafe.Pointer(to), at*tile*4)), int(out.ChannelStride), tile*4, int(min(turnTiles, whole-at)))
	}
	for channel := range tile {
		for p := whole * tile; p < s.band.Pixels; p++ {
			*(*float32)(unsafe.Add(unsafe.Pointer(to), int64(channel)*out.ChannelStride+p*4)) = *s.sum(channel, p)
		}
	}
}

// turnTiles bounds the tiles of one call.
const turnTiles = 1024

// countPixels counts the block's contributions and reports whether some pixel
// completes a chunk; if so the counts stay as they were.
func (s *GridScatter[C]) countPixels(c *gridCells, n int) (full bool) {
	full = gridCount(c.start(), n, unsafe.SliceData(s.count)) > 0
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
