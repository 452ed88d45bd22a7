package cpu

import (
	"unsafe"

	"github.com/isobit-ml/isobit/tensor"
)

// Bilinear grid_sample of images whose channels lie side by side (channels last). The channels of
// a sample are a sum of rows times weights, as a bag of an embedding is, by the same kernels; the
// grid's gradient has kernels of its own.

// fewestRows is how many channels pay where their number is no multiple of wholeVectors.
const fewestRows = 24

// SamplesRows reports whether kernels sample such images, of so many channels.
func SamplesRows(_ tensor.DType, mode Mode, channels int64) bool {
	return mode == Bilinear && channels > 0 && (channels%wholeVectors == 0 || channels >= fewestRows)
}

// SlopesRows reports whether kernels make the grid's gradient of such images.
func SlopesRows(dtype tensor.DType, mode Mode, channels int64) bool {
	return dtype != tensor.F64 && channels <= mostSums/2 && channels%wholeVectors == 0 && SamplesRows(dtype, mode, channels)
}

// rowTermsKernel makes the sums of the grid's gradient.
type rowTermsKernel func(cells *byte, n int, input, zeros, dy *byte, dyPitch, rowBytes int)

// tapRows lists the taps of a block's positions, without those outside: of position i they are
// those from start[i] on.
type tapRows[C Compute] struct {
	start   [Block + 1]int64
	places  [8*Block + 1]int64
	weights [8*Block + 1]C
}

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
	c := locateInput[C](k.cells(), b, zerosFollow, noSlopes)
	taps := (*tapRows[C])(unsafe.Pointer(&b.Scratch.columns[1]))
	known := taps.list(c, 1<<b.Dims, b.N)
	if b.last(&b.found.steps)*size <= nearBytes {
		known = 0
	}
	run := rowSumOf(k).run
	sum := func(channel int64, first, n int, to unsafe.Pointer, apart, channels int64) {
		run((*byte)(b.Input.Channel(channel)), int(size), &taps.start[first], n, &taps.places[0], known,
			(*byte)(unsafe.Pointer(&taps.weights)), (*byte)(to), int(apart), int(channels), sumWideFactors)
	}
	if asRows {
		sum(0, 0, b.N, b.Output.P, b.Output.Stride, b.Channels)
		return true
	}
	sums, width := unsafe.Pointer(&b.Scratch.columns[0]), min(b.Channels, mostSums/squareSide)
	for channel := int64(0); channel < b.Channels; channel += width {
		width = min(width, b.Channels-channel)
		most := positionsOf(width)
		for first := 0; first < b.N; first += most {
			n := min(most, b.N-first)
			sum(channel, first, n, sums, width*size, width)
			k.storeTransposed(b.Output.Row(channel, int64(first)), b.Output.RowStride, sums, n, width)
		}
	}
	return true
}

// list fills the lists from a block's cells, and returns how many taps there are.
func (t *tapRows[C]) list(c *gridCells, taps, n int) (count int) {
	places := (*[8][cellPitch]int32)(unsafe.Pointer(placesOf[C](c)))
	weights := (*[8][cellPitch]C)(unsafe.Pointer(planeOf[C](c, planeWeight)))
	t.start[0] = 0
	for i := range n {
		for tap := range taps {
			place := places[tap][i]
			t.places[count], t.weights[count] = int64(place), weights[tap][i]
			count += 1 + int(place>>31) // -1 is outside
		}
		t.start[i+1] = int64(count)
	}
	return count
}

// rowSumOf returns the sums of a kernel's type.
func rowSumOf(k *gridKernel) *rowSum {
	for i := range rowSums {
		if s := &rowSums[i]; s.needs == k.needs && s.in == k.dtype && s.out == k.dtype {
			return s
		}
	}
	panic("no sums of rows")
}

// storeTransposed stores samples of n positions, whose channels lie side by side, in planes that lie
// apart bytes apart.
func (k *gridKernel) storeTransposed(to Span, apart int64, samples unsafe.Pointer, n int, channels int64) {
	whole, size := int64(0), to.DType.Size()
	if k.dtype == tensor.F32 && channels >= squareSide {
		whole = int64(n) &^ (squareSide - 1)
		for next := int64(0); next < channels; next += squareSide {
			channel := min(next, channels-squareSide) // the last square may have some channels once more
			k.transpose32((*byte)(unsafe.Add(samples, channel*4)), int(channels*4), int(channels*squareSide*4),
				(*float32)(unsafe.Add(to.P, channel*apart)), int(apart), squareSide*4, int(whole/squareSide))
		}
	}
	transposeBySize[size](to.At(whole).P, apart, unsafe.Add(samples, whole*channels*size), channels*size, int64(n)-whole, channels)
}

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
