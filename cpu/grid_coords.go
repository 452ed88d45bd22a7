package cpu

import "unsafe"

// The coordinates of a block's positions on their way to cells, and their gradients on the way from them.

// loadCells puts a block's coordinates, or their tangents, into cells.
func loadCells[C Compute](g *gatherCell, c *gridCells, b *GridBlock, coords *[3]Span, repeats bool) {
	whole := b.N - b.N%g.lanes
	first := int64(0)
	if interleaved[C](b.Dims, coords) && whole > 0 {
		g.split[b.Dims-2]((*byte)(coords[0].P), whole, c.start())
		first = int64(whole)
	}
	for axis := range b.Dims {
		x := unsafe.Slice(&planeOf[C](c, planeCoord+axis)[0], cellPitch)
		if first < int64(b.N) {
			Load(x[first:b.N], coords[axis].At(first))
		}
		switch {
		case whole == b.N:
		case repeats:
			copy(x[whole:whole+g.lanes], x[b.N-g.lanes:b.N])
		default:
			clear(x[b.N : whole+g.lanes])
		}
	}
}

// interleaved reports whether the coordinates of a position lie side by side, and
// those of the next one after them.
func interleaved[C Compute](dims int, coords *[3]Span) bool {
	size := int64(unsafe.Sizeof(C(0)))
	for axis := range dims {
		x := &coords[axis]
		apart := int64(uintptr(x.P) - uintptr(coords[0].P))
		if x.DType.Size() != size || x.Stride != int64(dims)*size || apart != int64(axis)*size {
			return false
		}
	}
	return true
}

// clearCoords stores zeros for the gradients of a block's coordinates.
func (b *GridBlock) clearCoords() {
	size, dims := b.Output.DType.Size(), int64(b.Dims)
	if b.Output.RowStride == size && b.Output.Stride == dims*size {
		clear(unsafe.Slice((*byte)(b.Output.P), int64(b.N)*dims*size))
		return
	}
	for axis := range dims {
		ZeroRow(b.Output.Row(axis, 0), int64(b.N))
	}
}

// storeCoords stores the gradients of a block's coordinates.
func storeCoords[C Compute](g *gatherCell, c *gridCells, b *GridBlock, planes *[3]*[Block]C) {
	var out [3]Span
	for axis := range b.Dims {
		out[axis] = b.Output.Row(int64(axis), 0)
	}
	switch x, y, z := planes[0], planes[1], planes[2]; {
	case !interleaved[C](b.Dims, &out):
		for axis := range b.Dims {
			Store(out[axis], planes[axis][:b.N])
		}
	case b.Dims == 2:
		to := unsafe.Slice((*[2]C)(out[0].P), b.N)
		whole := b.N - b.N%g.lanes
		g.join(c.start(), whole, (*byte)(out[0].P))
		for i := whole; i < b.N; i++ {
			to[i] = [2]C{x[i], y[i]}
		}
	default:
		for i, to := 0, unsafe.Slice((*[3]C)(out[0].P), b.N); i < len(to); i++ {
			to[i] = [3]C{x[i], y[i], z[i]}
		}
	}
}
