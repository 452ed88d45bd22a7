package cpu

import "unsafe"

// Blocks of fewer positions than a vector has, such as a few keypoints of an image: kernels take
// copies in memory of their own, filled up with zeros, which are the middle of the image. So they
// do of the positions of several images whose rows lie apart.

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
	if s.N = max(b.N, k.vector()); s.N == b.N {
		return s
	}
	rows := shortRows(b.Scratch, 1, s.N, b.Coords[0])
	for axis := range b.Dims {
		s.Coords[axis] = rows.Row(int64(axis), 0)
		CopyRow(s.Coords[axis], b.Coords[axis], int64(b.N))
		ZeroRow(s.Coords[axis].At(int64(b.N)), int64(s.N-b.N))
	}
	return s
}

// forget clears a block in a worker's memory, which keeps no pointers of the caller's.
func (b *GridBlock) forget() { *b = GridBlock{} }

// vector is how many positions a vector of the kernels has.
func (k *gridKernel) vector() int { return k.cells().lanes }

// isShort reports whether kernels take a copy of a block with these rows.
func (k *gridKernel) isShort(b *GridBlock, apart bool) bool {
	return (apart || b.N < k.vector()) && b.Channels > 0
}

// sampleShort is sampleBlock for such a block.
func (k *gridKernel) sampleShort(b *GridBlock, definition func(*GridBlock)) {
	s := k.short(b)
	defer s.forget()
	s.Output = shortRows(b.Scratch, 0, s.N, b.Output.Span)
	s.Joined.Output = int64(b.Joined.Each) * s.Output.Stride
	for channel := int64(0); channel < b.Channels; channel += s.Channels {
		s.Channels = min(b.Channels-channel, mostShort(b, s.N))
		s.Input.P = b.Input.Channel(channel)
		k.samplePlanes(s, definition) // by rows would be in the memory that the copies lie in
		for c := range s.Channels {
			b.copyParts(b.Output.Row(channel+c, 0), b.Joined.Output, s.Output.Row(c, 0), s.Joined.Output)
		}
	}
}

// gradientShort is gradientBlock for such a block.
func (k *gridKernel) gradientShort(b *GridBlock, definition func(*GridBlock)) {
	s := k.short(b)
	defer s.forget()
	if b.Channels > mostShort(b, s.N) {
		definition(b)
		return
	}
	s.GradOutput = shortRows(b.Scratch, 0, s.N, b.GradOutput.Span)
	s.Joined.GradOutput = int64(b.Joined.Each) * s.GradOutput.Stride
	for c := range b.Channels {
		row := s.GradOutput.Row(c, 0)
		b.copyParts(row, s.Joined.GradOutput, b.GradOutput.Row(c, 0), b.Joined.GradOutput)
		ZeroRow(row.At(int64(b.N)), int64(s.N-b.N))
	}
	s.Output = shortRows(b.Scratch, 1, s.N, b.Output.Span) // over the coordinates, which are read before
	s.Joined.Output = int64(b.Joined.Each) * s.Output.Stride
	k.gradientBlock(s, definition)
	for axis := range int64(b.Dims) {
		b.copyParts(b.Output.Row(axis, 0), b.Joined.Output, s.Output.Row(axis, 0), s.Joined.Output)
	}
}
