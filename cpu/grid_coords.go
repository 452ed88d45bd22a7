package cpu

import "unsafe"

// The coordinates of a block's positions on their way to cells, and their gradients on the way from them.

// loadCells puts a block's coordinates, or their tangents, into cells.
func loadCells[C Compute](g *gatherCell, c *gridCells, b *GridBlock, coords *[3]Span, repeats bool) {
	whole := b.N - b.N%g.lanes
	first := int64(0)
	if size := interleaved[C](b.Dims, coords); size > 0 && whole > 0 {
		from := coords[0]
		if size < int64(unsafe.Sizeof(C(0))) {
			wide := coordsBeside[C](b)[:whole*b.Dims]
			from.Stride = size
			loadRow(typeFor(g.needs, from.DType), wide, from)
			from.P = unsafe.Pointer(&wide[0])
		}
		g.split[b.Dims-2]((*byte)(from.P), whole, c.start())
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

// interleaved returns the size of coordinates if those of a position lie side by side, and those of the next one
// after them, and they are of the compute type or of 16 bits; else 0.
func interleaved[C Compute](dims int, coords *[3]Span) int64 {
	size := coords[0].DType.Size()
	if size != 2 && size != int64(unsafe.Sizeof(C(0))) {
		return 0
	}
	for axis := range dims {
		x := &coords[axis]
		apart := int64(uintptr(x.P) - uintptr(coords[0].P))
		if x.Stride != int64(dims)*size || apart != int64(axis)*size {
			return 0
		}
	}
	return size
}

// coordsBeside is memory for a block's coordinates of the compute type that lie so.
func coordsBeside[C Compute](b *GridBlock) []C {
	return unsafe.Slice((*C)(b.Scratch.block(termBlocks)), 3*Block)
}

// There is room for them.
const _ = uint(transposedBlocks - termBlocks - 3)

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
	size := interleaved[C](b.Dims, &out)
	if size == 0 {
		for axis := range b.Dims {
			Store(out[axis], planes[axis][:b.N])
		}
		return
	}
	beside := coordsBeside[C](b)
	if size == int64(unsafe.Sizeof(C(0))) {
		beside = unsafe.Slice((*C)(out[0].P), b.N*b.Dims)
	}
	x, y, z := planes[0], planes[1], planes[2]
	if b.Dims == 2 {
		to := unsafe.Slice((*[2]C)(unsafe.Pointer(&beside[0])), b.N)
		whole := b.N - b.N%g.lanes
		g.join(c.start(), whole, (*byte)(unsafe.Pointer(&beside[0])))
		for i := whole; i < b.N; i++ {
			to[i] = [2]C{x[i], y[i]}
		}
	} else {
		for i, to := 0, unsafe.Slice((*[3]C)(unsafe.Pointer(&beside[0])), b.N); i < len(to); i++ {
			to[i] = [3]C{x[i], y[i], z[i]}
		}
	}
	if size < int64(unsafe.Sizeof(C(0))) {
		storeRow(typeFor(g.needs, out[0].DType), Span{out[0].P, size, out[0].DType}, beside[:b.N*b.Dims])
	}
}
