package cpu

import (
	"unsafe"

	"github.com/isobit-ml/isobit/tensor"
)

// Samples of images whose channels lie side by side, from lists of their taps.

// tapRows lists the taps of a block's positions, without those outside: of result i they are those from
// start[i] on. With Bicubic, results are sums along rows of taps, which are summed along the other axes; with
// Nearest each position has a place, or -1.
type tapRows[C Compute] struct {
	start   [4*Block + 1]int64
	places  [maxTaps*Block/4 + 1]int64
	weights [maxTaps*Block/4 + 1]C
	across  [2][4 * Block]C  // bicubic: weights along y and z, of each result
	quads   [Block + 1]int64 // where four results begin
	numbers [4 * Block]int64 // 0, 1, ...
	known   int              // places that may be asked for early
}

// There is room for them.
const _ = uint(unsafe.Sizeof(Scratch{}.columns[1]) - unsafe.Sizeof(tapRows[float64]{}))

// rowTile are some positions of a block, and some channels.
type rowTile struct {
	first, n          int
	channel, channels int64
}

// list fills the lists from a block's cells.
func (t *tapRows[C]) list(b *GridBlock, c *gridCells) {
	taps := 0
	switch b.Mode {
	case Nearest:
		for i, place := range unsafe.Slice((*int32)(unsafe.Pointer(placesOf[C](c))), b.N) {
			t.places[i] = int64(place)
		}
	case Bicubic:
		taps = t.listCubic(b, c)
	default:
		taps = t.listPairs(b, c)
	}
	if t.known = taps; b.last(&b.found.steps)*b.Input.DType.Size() <= nearBytes {
		t.known = 0
	}
}

// listPairs is list with Bilinear; it returns how many taps there are.
func (t *tapRows[C]) listPairs(b *GridBlock, c *gridCells) (count int) {
	places := (*[8][cellPitch]int32)(unsafe.Pointer(placesOf[C](c)))
	weights := (*[8][cellPitch]C)(unsafe.Pointer(planeOf[C](c, planeWeight)))
	t.start[0] = 0
	for i := range b.N {
		for tap := range 1 << b.Dims {
			place := places[tap][i]
			t.places[count], t.weights[count] = int64(place), weights[tap][i]
			count += 1 + int(place>>31) // -1 is outside
		}
		t.start[i+1] = int64(count)
	}
	return count
}

// listCubic is list with Bicubic.
func (t *tapRows[C]) listCubic(b *GridBlock, c *gridCells) (count int) {
	weights := (*[3 * 2 * cubicTaps][cellPitch]C)(unsafe.Pointer(planeOf[C](c, cubicWeight)))
	var places [3 * cubicTaps]*[Block]int32
	for i := range places {
		places[i] = (*[Block]int32)(unsafe.Pointer(planeOf[C](c, cubicOffset+i)))
	}
	t.start[0] = 0
	result := 0
	for i := range b.N {
		for row := range 1 << (2 * (b.Dims - 1)) {
			y, z := row%cubicTaps, row/cubicTaps
			along := places[cubicTaps+y][i]
			if t.across[0][result] = weights[2*cubicTaps+y][i]; b.Dims == 3 {
				along += places[2*cubicTaps+z][i]
				t.across[1][i*cubicTaps+z] = weights[4*cubicTaps+z][i]
			}
			for x := range cubicTaps {
				place := along + places[x][i]
				t.places[count], t.weights[count] = int64(place), weights[x][i]
				count += 1 + int(place>>31) // a negative one is outside
			}
			result++
			t.start[result] = int64(count)
		}
	}
	for i := range t.numbers {
		t.numbers[i] = int64(i)
	}
	for i := range t.quads {
		t.quads[i] = int64(cubicTaps * i)
	}
	return count
}

// sample makes the samples of a tile.
func (t *tapRows[C]) sample(k *gridKernel, b *GridBlock, r rowTile, to resultRows) {
	from, size := b.Input.Channel(r.channel), b.Input.DType.Size()
	switch b.Mode {
	case Nearest:
		t.copyRows(r, to, from, size)
	case Bicubic:
		t.sampleCubic(k, b, r, to)
	default:
		rowSumOf(k.needs, k.dtype).run((*byte)(from), int(size), &t.start[r.first], r.n, &t.places[0], t.known,
			(*byte)(unsafe.Pointer(&t.weights)), (*byte)(to.first), int(to.apart), int(r.channels), sumWideFactors)
	}
}

// copyRows copies the rows of a tile's places, zeros for those outside.
func (t *tapRows[C]) copyRows(r rowTile, to resultRows, from unsafe.Pointer, size int64) {
	places := t.places[r.first:][:r.n]
	for i := 0; i < r.n; {
		end := i
		for end < r.n && places[end] >= 0 {
			end++
		}
		if end > i {
			copyBytes(unsafe.Add(to.first, int64(i)*to.apart), to.apart, from, size, places[i:end], r.channels*size)
		}
		for i = end; i < r.n && places[i] < 0; i++ {
			clear(unsafe.Slice((*byte)(unsafe.Add(to.first, int64(i)*to.apart)), r.channels*size))
		}
	}
}

// sampleCubic makes samples of sums along rows of taps, of a part of the tile at a time.
func (t *tapRows[C]) sampleCubic(k *gridKernel, b *GridBlock, r rowTile, to resultRows) {
	size, compute := b.Input.DType.Size(), int64(unsafe.Sizeof(C(0)))
	along, across := rowSumOf(k.needs, k.dtype).run, rowSumOf(k.needs, k.dtype.Compute()).run
	rows, width := 1<<(2*(b.Dims-1)), min(r.channels, mostSums/squareSide)
	most := max(1, mostSums/(rows*int(width)))
	for channel := int64(0); channel < r.channels; channel += width {
		width = min(width, r.channels-channel)
		apart := int(width * compute)
		for i := 0; i < r.n; i += most {
			first, n := r.first+i, min(most, r.n-i)
			sums, results := b.Scratch.block(0), rows*n
			along((*byte)(b.Input.Channel(r.channel+channel)), int(size), &t.start[rows*first], results, &t.places[0], t.known,
				(*byte)(unsafe.Pointer(&t.weights)), (*byte)(sums), apart, int(width), sumWideFactors|sumWide)
			for axis := 1; axis < b.Dims; axis++ {
				weights := (*byte)(unsafe.Pointer(&t.across[axis-1][results/n*first]))
				next, nextApart, mode := unsafe.Add(sums, results*apart), apart, 0
				if results /= cubicTaps; axis == b.Dims-1 {
					next, nextApart, mode = unsafe.Add(to.first, int64(i)*to.apart+channel*size), int(to.apart), narrower(k.dtype)
				}
				across((*byte)(sums), apart, &t.quads[0], results, &t.numbers[0], 0, weights, (*byte)(next), nextApart, int(width), mode)
				sums = next
			}
		}
	}
}

// rowSumOf returns the sums of rows of a type into the same.
func rowSumOf(needs ISA, dtype tensor.DType) *rowSum {
	for i := range rowSums {
		if s := &rowSums[i]; s.needs == needs && s.in == dtype && s.out == dtype {
			return s
		}
	}
	panic("no sums of rows")
}
