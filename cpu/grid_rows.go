package cpu

import (
	"unsafe"

	"github.com/isobit-ml/isobit/tensor"
)

// Bilinear samples of images whose channels lie side by side (channels last): the channels of a
// position are a sum of rows times weights, as a bag of an embedding is, by the same kernels.

// TakesRows reports whether kernels sample images of a type so, where pixels have so many channels.
func TakesRows(dtype tensor.DType, mode Mode, channels int64) bool {
	return dtype == dtype.Compute() && mode == Bilinear && channels > 0 && channels%wholeVectors == 0
}

// tapRows lists the taps of a block's positions, without those outside: of position i they are
// those from start[i] on.
type tapRows[C Compute] struct {
	start   [Block + 1]int64
	places  [8*Block + 1]int64
	weights [8*Block + 1]C
}

// mostSums is how many sums a kernel computes before they are put in planes.
const mostSums = 1 << 13

// sampleRows is sampleBlock by sums of rows; it reports whether it was possible.
func sampleRows[C Compute](k *gridKernel, b *GridBlock) bool {
	size := int64(unsafe.Sizeof(C(0)))
	steps, ok := stepsOf[C](b, 1)
	asRows := b.Output.RowStride == size
	if !ok || !TakesRows(k.dtype, b.Mode, b.Channels) || b.Input.ChannelStride != size || !asRows && !b.Output.Contiguous() {
		return false
	}
	c := locateGather[C](cellsFor(k.needs, k.dtype), b, steps, false, false)
	taps := (*tapRows[C])(unsafe.Pointer(&b.Scratch.columns[1]))
	known := taps.list(c, 1<<b.Dims, b.N)
	if b.last(steps)*size <= nearBytes {
		known = 0
	}
	run := rowSumOf(k).run
	sum := func(channel int64, first, n int, to unsafe.Pointer, apart, channels int64) {
		run((*byte)(b.Input.Channel(channel)), int(size), &taps.start[first], n, &taps.places[0], known,
			(*byte)(unsafe.Pointer(&taps.weights)), (*byte)(to), int(apart), int(channels), 0)
	}
	if asRows {
		sum(0, 0, b.N, b.Output.P, b.Output.Stride, b.Channels)
		return true
	}
	sums, width := unsafe.Pointer(&b.Scratch.columns[0]), min(b.Channels, mostSums/tile)
	for channel := int64(0); channel < b.Channels; channel += width {
		width = min(width, b.Channels-channel)
		most := int(mostSums/width) &^ (tile - 1)
		for first := 0; first < b.N; first += most {
			n := min(most, b.N-first)
			sum(channel, first, n, sums, width*size, width)
			storeTurned[C](k, b.Output.Row(channel, int64(first)), b.Output.RowStride, sums, n, width)
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

// storeTurned stores the sums of n positions, whose channels lie side by side, in planes apart bytes apart.
func storeTurned[C Compute](k *gridKernel, to Span, apart int64, sums unsafe.Pointer, n int, channels int64) {
	whole := int64(0)
	if k.turn32 != nil && k.dtype == tensor.F32 {
		whole = int64(n) &^ (tile - 1)
		for channel := int64(0); channel < channels; channel += tile {
			k.turn32((*byte)(unsafe.Add(sums, channel*4)), int(channels*4), int(channels*tile*4),
				(*float32)(unsafe.Add(to.P, channel*apart)), int(apart), tile*4, int(whole/tile))
		}
	}
	turnOf[C]()(to.At(whole).P, apart, unsafe.Add(sums, whole*channels*to.DType.Size()), channels*to.DType.Size(), int64(n)-whole, channels)
}
