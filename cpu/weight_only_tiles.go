package cpu

import (
	"unsafe"

	"github.com/isobit-ml/isobit/tensor"
)

// Many rows of x, and rows of weights, are packed. Where both fit the first cache, kernels multiply and fold
// whole stripes. Of longer ones they keep the sums of what does not fit the second cache until the next positions
// come; those of wide vectors take some vectors for all rows, then the others.

// weightFolds is how many elements kernels keep from time to time at most, of two or three rows of x.
const weightFolds = 192

// lined returns where the first line of some floats begins.
func lined(s []float32) unsafe.Pointer {
	return unsafe.Pointer(&s[misaligned(unsafe.Pointer(unsafe.SliceData(s)), tensor.F32)])
}

// packedPart returns where the positions of a row of x from k on, a multiple of deep, are packed.
func (r *weightRun) packedPart(m, k int64) *float32 {
	return r.packed(r.M*(k+k/r.deep*weightSlack) + m*packedRow(min(r.deep, r.K-k)))
}

// packedRow is the distance of packed rows of so many positions.
func packedRow(k int64) int64 { return roundUp(k, Lanes) + weightSlack }

// stripes returns the number of those that n elements are in.
func stripes(n int) int { return (n + Lanes - 1) / Lanes }

// packStripes packs elements, the first of so many stripes; what the last stripe lacks are zeros.
func (r *weightRun) packStripes(row []float32, to *float32, of int) {
	steps := stripes(len(row))
	clear(row[len(row) : steps*Lanes])
	r.weightKernel.pack(&row[0], steps, to, r.apart(of))
}

// apart is how many bytes lie between what kernels read of so many stripes at a time.
func (r *weightRun) apart(stripes int) int { return stripes * r.together * r.lanes * 4 }

// multiplyTiles makes the sums of some columns.
func (r *weightRun) multiplyTiles(first, end int64) {
	for n := first; n < end; n += weightTogether {
		for k := int64(0); k < r.K; k += r.deep {
			r.multiplyPart(n, min(weightTogether, end-n), n-first, k)
		}
	}
}

// multiplyPart multiplies some positions from k on of so many rows of weight from n on.
func (r *weightRun) multiplyPart(n, count, column, k int64) {
	size, rows := min(r.deep, r.K-k), r.M1-r.M0
	steps, row := stripes(int(size)), packedRow(size)
	x, w := unsafe.Pointer(r.packedPart(r.M0, k)), lined(r.s.tile[:])
	parts, folds, folding := lined(r.s.parts[:]), lined(r.s.folds[:]), 0
	if k+size == r.K {
		folding = 1
	}
	times := Lanes / (r.together * r.lanes)
	together, foldsTile, most := times, 0, int64(weightTileColumns)
	if r.K <= weightLeastDepth { // else parts, which find each other's sums, have as many columns at a time
		most = min(weightPacked/(row-weightSlack), weightTogether) / weightTileColumns * weightTileColumns
	}
	if r.sliced && r.K > r.near {
		together, foldsTile = 1, weightFolds*4
	}
	for at := int64(0); at < count; at += most {
		some := min(most, count-at)
		r.packWeights(w, n+at, some, k, size)
		for time := 0; time < times; time += together {
			r.tiles((*float32)(unsafe.Add(x, time*r.apart(steps))), int(row*4), int(rows),
				(*float32)(unsafe.Add(w, time*r.apart(steps))), int(row*4), int(roundUp(some, weightTileColumns)), steps, time, time+together,
				(*float32)(parts), int(k), &r.s.sums[0][column+at], int(unsafe.Sizeof(r.s.sums[0])), folding, (*float32)(folds), foldsTile)
			parts = unsafe.Add(parts, rows*roundUp(some, weightTileColumns)*4*Lanes*int64(together)/int64(times))
		}
	}
}

// packWeights packs weights of some rows from n on, from position k on.
func (r *weightRun) packWeights(to unsafe.Pointer, n, count, k, size int64) {
	row, c := packedRow(size)*4, &r.read
	for i := int64(0); i < count; {
		r.codes(c, n+i, count-i, k, size, r.packs)
		r.packCodes((*byte)(c.codes), int(size/Lanes), r.shift, r.numbersFrom(k), c.scale, c.zero, r.halves, (*float32)(unsafe.Add(to, i*row)), int(row),
			r.apart(stripes(int(size))), int(c.rows), c.codeRow, c.scaleRow, c.zeroRow, r.restIn(size))
		i += c.rows
	}
}
