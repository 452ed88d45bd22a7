package cpu

import "github.com/isobit-ml/isobit/tensor"

// What stands between grid_sample's second gradients and the kernels that read
// each tap by itself. The coordinates' tangents take the planes of coordinates
// once positions are located.

// doublePairs makes the gradients of a group's upstream gradients and the sums of
// the grid's.
type doublePairs func(cells *byte, n int, input, tangent *byte, row, channelStride, tangentStride int,
	dy *byte, dyStride int, y *byte, yStride, channels int, terms *byte)

// doubleBlock is GridSampleDouble by kernels.
func (k *gridKernel) doubleBlock(b *GridBlock, definition func(*GridBlock)) {
	switch {
	case !b.readsAlike() || !b.GradOutput.Contiguous():
		definition(b)
	case k.takes(b) && b.wantsAll() && b.Channels > 0:
		k.doublePairs(b)
	case ForCompute(k.dtype, doubleGather[float32], doubleGather[float64])(k, b):
	default:
		definition(b)
	}
}

// wantsAll reports whether both tangents are there and both gradients wanted.
func (b *GridBlock) wantsAll() bool {
	s := &b.Second
	return s.hasInput() && s.hasCoords() && s.Output.DType != tensor.None && b.Output.DType != tensor.None
}

// doublePairs takes a block's channels once for both gradients.
func (k *gridKernel) doublePairs(b *GridBlock) {
	c := k.locatePairs(b, withSlopes)
	loadCells[float32](k.cells(), c, b, &b.Second.Coords, lastRepeats)
	for p := planeSums; p < planeSums+5; p++ {
		clear(c[p][:])
	}
	u, y := &b.Second.Input, &b.Second.Output
	for first := int64(0); first < b.Channels; first += groupSize {
		k.double(c.start(), b.N, (*byte)(b.Input.Channel(first)), (*byte)(u.Channel(first)), int(b.Input.AxisStride[1]), int(b.Input.ChannelStride), int(u.ChannelStride),
			(*byte)(b.GradOutput.Row(first, 0).P), int(b.GradOutput.RowStride), (*byte)(y.Row(first, 0).P), int(y.RowStride),
			int(min(groupSize, b.Channels-first)), (*byte)(b.Scratch.block(termBlocks)))
	}
	k.combine(c.start(), b.N)
	k.bend(c.start(), b.N)
	storeGradients[float32](k.cells(), c, b)
}

// doubleGather is doubleBlock by gathers; it reports whether it was possible.
func doubleGather[C Compute](k *gridKernel, b *GridBlock) bool {
	g, t, second := k.cells(), typeFor(k.needs, k.dtype), &b.Second
	switch {
	case !readsInput[C](b, g.lanes):
		return false
	case b.Mode == Nearest:
		nearestGather[C](g, t, b)
		return true
	}
	c := locateInput[C](g, b, lastRepeats, withSlopes)
	if b.Mode == Bicubic {
		d := newDoubleCubic[C](k, b, c, lastRepeats)
		d.double()
		return true
	}
	if second.hasCoords() {
		loadCells[C](g, c, b, &second.Coords, lastRepeats)
	}
	if second.Output.DType != tensor.None {
		tangentsGather(t, c, b)
	}
	if b.Output.DType != tensor.None {
		slopesGather[C](g, t, c, b)
	}
	return true
}

// readsAlike reports whether one place is that of a pixel and of its tangent,
// and whether what is written lies in runs.
func (b *GridBlock) readsAlike() bool {
	s := &b.Second
	for axis := range b.Dims {
		if s.hasInput() && b.Size[axis] > 1 && s.Input.AxisStride[axis] != b.Input.AxisStride[axis] {
			return false
		}
	}
	return s.Output.DType == tensor.None || s.Output.Contiguous()
}

// nearestGather computes both gradients of nearest; the grid's is +0.
func nearestGather[C Compute](g *gatherCell, t *gatherType, b *GridBlock) {
	second := &b.Second
	if b.Output.DType != tensor.None {
		b.clearCoords()
	}
	if second.Output.DType == tensor.None {
		return
	}
	c := locateInput[C](g, b, lastRepeats, noSlopes)
	if second.hasCoords() {
		loadCells[C](g, c, b, &second.Coords, lastRepeats)
	}
	for axis := range 3 {
		if axis >= b.Dims || !second.hasCoords() {
			clear(planeOf[C](c, planeCoord+axis)[:])
		}
	}
	for channel := range b.Channels {
		var tangent *byte
		if second.hasInput() {
			tangent = (*byte)(second.Input.Channel(channel))
		}
		t.near(c.start(), b.N, tangent, (*byte)(second.Output.Row(channel, 0).P))
	}
}

// tangentsGather computes the gradient of the upstream gradient.
func tangentsGather(t *gatherType, c *gridCells, b *GridBlock) {
	for channel := range b.Channels {
		var tangent *byte
		if b.Second.hasInput() {
			tangent = (*byte)(b.Second.Input.Channel(channel))
		}
		if y := (*byte)(b.Second.Output.Row(channel, 0).P); b.Second.hasCoords() {
			t.shift[b.Dims-2](c.start(), b.N, (*byte)(b.Input.Channel(channel)), tangent, y)
		} else {
			t.sample(c.start(), b.N, tangent, 1<<b.Dims, y)
		}
	}
}

// slopesGather computes the gradient of the grid.
func slopesGather[C Compute](g *gatherCell, t *gatherType, c *gridCells, b *GridBlock) {
	if b.Second.hasInput() {
		of := *b
		of.Input = b.Second.Input
		sumTerms[C](c, &of, t.terms[b.Dims-2], b.Dims<<(b.Dims-1))
		g.combine[b.Dims-2](c.start(), b.N)
	} else {
		for axis := range b.Dims {
			clear(planeOf[C](c, planeGrad+axis)[:])
		}
	}
	if b.Second.hasCoords() {
		sumTerms[C](c, b, t.bends[b.Dims-2], bendKinds[b.Dims-2])
		g.bend[b.Dims-2](c.start(), b.N)
	}
	storeGradients[C](g, c, b)
}

// bendKinds are how many second differences there are in an image, in a volume.
var bendKinds = [2]int{1, 6}

// doubleScatter64 is a scatter of second gradients by kernels.
func doubleScatter64(k *gridKernel, definition GridScatterKernel[float64]) GridScatterKernel[float64] {
	kernel := scatterByGather(k, definition)
	kernel.Start = startSecond(kernel.Start)
	kernel.Add = func(s *GridScatter[float64], b *GridBlock) {
		if !b.Second.hasCoords() || !addGather(k, s, b, withSlopes) {
			definition.Add(s, b)
		}
	}
	return kernel
}

// doubleScatter32 is that of float32.
func doubleScatter32(k *gridKernel, definition GridScatterKernel[float32]) GridScatterKernel[float32] {
	t := typeFor(k.needs, k.dtype)
	add := func(s *GridScatter[float32], b *GridBlock) {
		switch {
		case !b.Second.hasCoords():
		case addGather(k, s, b, withSlopes):
		default:
			definition.Add(s, b)
		}
	}
	store := func(s *GridScatter[float32], out Image, scratch *Scratch) {
		s.storeTouched(out, func(s *GridScatter[float32]) { k.storeSums(t, s, out, scratch) })
	}
	return GridScatterKernel[float32]{startSecond(definition.Start), add, store, nil, nil}
}

// startSecond is a scatter's Start where nearest adds nothing: no sums begin.
func startSecond[C Compute](start func(s *GridScatter[C], out Image)) func(s *GridScatter[C], out Image) {
	return func(s *GridScatter[C], out Image) {
		if s.g.Mode == Nearest {
			s.beginNone()
		} else {
			start(s, out)
		}
	}
}
