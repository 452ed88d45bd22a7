package cpu

import (
	"unsafe"

	"github.com/isobit-ml/isobit/tensor"
)

// grid_sample of images whose channels lie side by side (channels last). The channels of a sample are
// a sum of rows times weights, as a bag of an embedding is, by the same kernels (grid_rows_taps.go);
// bilinear's gradient by the grid has kernels of its own.

// The fewest channels that pay: where their number is no multiple of wholeVectors, of nearest, and of bicubic,
// where an image of fewer than manyCubicRows is rather copied for many samples; measured.
const (
	fewestRows        = 24
	fewestNearestRows = 32
	fewestCubicRows   = 8
	manyCubicRows     = 48
)

// SamplesRows reports whether kernels sample such images, of so many channels.
func SamplesRows(dtype tensor.DType, mode Mode, channels int64) bool {
	switch {
	case mode == Bicubic:
		return channels >= fewestCubicRows
	case mode == Nearest && dtype == tensor.F64: // single loads are as fast where pixels lie no large power of 2 apart
		return channels > 0 && channels%64 == 0
	case mode == Nearest && dtype == tensor.F32:
		return channels >= fewestNearestRows
	}
	return channels > 0 && (channels%wholeVectors == 0 || channels >= fewestRows)
}

// SamplesManyRows reports whether they do so in less time than from a copy, of which most is read.
func SamplesManyRows(dtype tensor.DType, mode Mode, channels int64) bool {
	return SamplesRows(dtype, mode, channels) && (mode != Bicubic || channels >= manyCubicRows)
}

// SlopesRows reports whether kernels make the grid's gradient of such images.
func SlopesRows(dtype tensor.DType, mode Mode, channels int64) bool {
	return mode == Bilinear && dtype != tensor.F64 && channels <= mostSums/2 && channels%wholeVectors == 0 && SamplesRows(dtype, mode, channels)
}

// rowTermsKernel makes the sums of the grid's gradient.
type rowTermsKernel func(cells *byte, n int, input, zeros, dy *byte, dyPitch, rowBytes int)

// mostSums is how many channels of positions are put together, or taken apart, at a time: as many
// as a cache next to the processor holds.
const mostSums = 1 << 13

// positionsOf returns how many positions of so many channels that are, in whole tiles.
func positionsOf(channels int64) int { return max(squareSide, int(mostSums/channels)&^(squareSide-1)) }

// sampleRows is sampleBlock by sums of rows; it reports whether it was possible.
func sampleRows[C Compute](k *gridKernel, b *GridBlock) bool {
	size := b.Input.DType.Size()
	asRows := b.Output.RowStride == size
	if b.Input.ChannelStride != size || !SamplesRows(k.dtype, b.Mode, b.Channels) || !asRows && !b.Output.Contiguous() || !readsInput[C](b, 1) {
		return false
	}
	taps := (*tapRows[C])(unsafe.Pointer(&b.Scratch.columns[1]))
	taps.list(b, locateInput[C](k.cells(), b, zerosFollow, noSlopes))
	if asRows {
		taps.sample(k, b, rowTile{0, b.N, 0, b.Channels}, resultRows{b.Output.P, b.Output.Stride})
		return true
	}
	samples, width := unsafe.Pointer(&b.Scratch.columns[0]), min(b.Channels, mostSums/squareSide)
	for channel := int64(0); channel < b.Channels; channel += width {
		width = min(width, b.Channels-channel)
		most := positionsOf(width)
		for first := 0; first < b.N; first += most {
			n := min(most, b.N-first)
			taps.sample(k, b, rowTile{first, n, channel, width}, resultRows{samples, width * size})
			k.storeTransposed(b, b.Output.Row(channel, int64(first)), samples, n, width)
		}
	}
	return true
}

// storeTransposed stores samples of n positions, whose channels lie side by side, in the planes of the
// output that begin at to.
func (k *gridKernel) storeTransposed(b *GridBlock, to Span, samples unsafe.Pointer, n int, channels int64) {
	whole, size, apart := int64(0), to.DType.Size(), b.Output.RowStride
	squares, planes := k.dtype == tensor.F32 && channels >= squareSide, channels // planes at a time
	if squares {
		planes = squareSide
	}
	collide := planes*min(apart&-apart, smallestPage) > mostColliding
	if squares && !collide {
		whole = int64(n) &^ (squareSide - 1)
		for next := int64(0); next < channels; next += squareSide {
			channel := min(next, channels-squareSide) // the last square may have some channels once more
			k.transpose32((*byte)(unsafe.Add(samples, channel*4)), int(channels*4), int(channels*squareSide*4),
				(*float32)(unsafe.Add(to.P, channel*apart)), int(apart), squareSide*4, int(whole/squareSide))
		}
	}
	to, samples, rest := to.At(whole), unsafe.Add(samples, whole*channels*size), int64(n)-whole
	if !collide {
		transposeBySize[size](to.P, apart, samples, channels*size, rest, channels)
		return
	}
	row := rest*size&^63 + 64
	rows := unsafe.Pointer(&b.Scratch.columns[0][mostSums]) // behind samples
	transposeBySize[size](rows, row, samples, channels*size, rest, channels)
	for c := range channels {
		copy(unsafe.Slice((*byte)(unsafe.Add(to.P, c*apart)), rest*size), unsafe.Slice((*byte)(unsafe.Add(rows, c*row)), rest*size))
	}
}

// mostColliding is from how many planes on, times the power of 2 that they lie apart, parts of their lines do not
// stay in the first cache until these are whole: eight lines of each of its sets.
const mostColliding = 8 * smallestPage

// slopesOfRows is gradientBlock for such images; it reports whether it was possible.
func slopesOfRows(k *gridKernel, b *GridBlock) bool {
	size := b.Input.DType.Size()
	if b.Input.ChannelStride != size || !SlopesRows(k.dtype, b.Mode, b.Channels) || !readsInput[float32](b, 1) {
		return false
	}
	g := k.cells()
	c := locateInput[float32](g, b, zerosFollow, noSlopes)
	zeros := b.Scratch.columns[1][:b.Channels*size/8]
	clear(zeros)
	most := positionsOf(b.Channels)
	for first := 0; first < b.N; first += most {
		n := min(most, b.N-first)
		dy, pitch := k.upstreamRows(b, first, n)
		k.slopes[b.Dims-2]((*byte)(unsafe.Pointer(&c[0][first])), n, (*byte)(b.Input.P), (*byte)(unsafe.Pointer(&zeros[0])),
			dy, int(pitch), int(b.Channels*size))
	}
	g.combine[b.Dims-2](c.start(), b.N)
	var grads [3]*[Block]float32
	for axis := range b.Dims {
		grads[axis] = c.floats(planeGrad + axis)
	}
	storeCoords(g, c, b, &grads)
	return true
}

// upstreamRows returns the upstream gradients of n positions as float32, channels side by side, and
// how far positions lie apart.
func (k *gridKernel) upstreamRows(b *GridBlock, first, n int) (rows *byte, pitch int64) {
	dy, channels := b.GradOutput, b.Channels
	if dy.DType == tensor.F32 && dy.RowStride == 4 {
		return (*byte)(dy.Row(0, int64(first)).P), dy.Stride
	}
	to, whole := unsafe.Pointer(&b.Scratch.columns[0]), 0
	pitch = channels * 4
	if dy.Contiguous() {
		whole = n &^ (squareSide - 1)
		for c := int64(0); c < channels; c += squareSide {
			k.transpose((*byte)(dy.Row(c, int64(first)).P), int(dy.RowStride), int(squareSide*dy.Stride),
				(*float32)(unsafe.Add(to, c*4)), int(pitch), int(squareSide*pitch), whole/squareSide)
		}
	}
	rest := BlockOf[float32](b.Scratch, tapBlocks, n-whole)
	for c := range channels {
		Load(rest, dy.Row(c, int64(first+whole)))
		for i, v := range rest {
			*(*float32)(unsafe.Add(to, int64(whole+i)*pitch+c*4)) = v
		}
	}
	return (*byte)(to), pitch
}
