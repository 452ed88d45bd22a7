package cpu

import "unsafe"

// Blocks of fewer positions than a vector has, such as a few keypoints of an image: kernels take
// copies in memory of their own, filled up with zeros, which are the middle of the image.

// shortRows are rows of a vector's positions in such memory, of the type of others.
func shortRows(s *Scratch, number, lanes int, like Span) Rows {
	like.P, like.Stride = unsafe.Pointer(&s.columns[number]), like.DType.Size()
	return Rows{like, int64(lanes) * like.Stride}
}

// mostShort is how many channels have room for so many positions.
func mostShort(b *GridBlock, lanes int) int64 {
	return int64(unsafe.Sizeof(b.Scratch.columns[0])) / (int64(lanes) * b.Input.DType.Size())
}

// short returns such a block filled up, whose channels are still to be put in the place of others.
func (k *gridKernel) short(b *GridBlock) *GridBlock {
	s := &b.Scratch.short
	*s = *b
	s.N = k.vector()
	rows := shortRows(b.Scratch, 1, s.N, b.Coords[0])
	for axis := range b.Dims {
		s.Coords[axis] = rows.Row(int64(axis), 0)
		fillUp(s.Coords[axis], b.Coords[axis], b.N, s.N)
	}
	return s
}

// fillUp copies some elements and clears those behind them.
func fillUp(to, from Span, n, all int) {
	CopyRow(to, from, int64(n))
	ZeroRow(to.At(int64(n)), int64(all-n))
}

// vector is how many positions a vector of the kernels has.
func (k *gridKernel) vector() int { return cellsFor(k.needs, k.dtype.Compute()).lanes }

// isShort reports whether a block is one.
func (k *gridKernel) isShort(b *GridBlock) bool { return b.N < k.vector() && b.Channels > 0 }

// sampleShort is sampleBlock for such a block.
func (k *gridKernel) sampleShort(b *GridBlock, definition func(*GridBlock)) {
	s := k.short(b)
	s.Output = shortRows(b.Scratch, 0, s.N, b.Output.Span)
	for channel := int64(0); channel < b.Channels; channel += s.Channels {
		s.Channels = min(b.Channels-channel, mostShort(b, s.N))
		s.Input.P = b.Input.Channel(channel)
		k.sampleBlock(s, definition)
		for c := range s.Channels {
			CopyRow(b.Output.Row(channel+c, 0), s.Output.Row(c, 0), int64(b.N))
		}
	}
}

// gradientShort is gradientBlock for such a block.
func (k *gridKernel) gradientShort(b *GridBlock, definition func(*GridBlock)) {
	s := k.short(b)
	if b.Channels > mostShort(b, s.N) {
		definition(b)
		return
	}
	s.GradOutput = shortRows(b.Scratch, 0, s.N, b.GradOutput.Span)
	for c := range b.Channels {
		fillUp(s.GradOutput.Row(c, 0), b.GradOutput.Row(c, 0), b.N, s.N)
	}
	s.Output = shortRows(b.Scratch, 1, s.N, b.Output.Span) // over the coordinates, which are read before
	k.gradientBlock(s, definition)
	for axis := range int64(b.Dims) {
		CopyRow(b.Output.Row(axis, 0), s.Output.Row(axis, 0), int64(b.N))
	}
}
