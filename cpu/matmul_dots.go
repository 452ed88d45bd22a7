package cpu

import (
	"slices"
	"unsafe"

	"github.com/isobit-ml/isobit/tensor"
)

// Products of bf16 on a processor that adds two of them at a time, one after the
// other, to a sum of f32: the chain of the contract, but that it takes what is
// nearer to 0 than f32's least normal number for 0. So it is asked only where no
// such number can come up: where all elements are normal or 0, a product is a
// multiple of the last bits of its factors, and so is each sum.

// matmulDots are kernels of pairs of bf16, in words whose upper half comes first
// along K.
type matmulDots struct {
	products   matmulPanels // of copies
	transposed matmulTransposed[matmulTransposedDots]
	swap       pairing // of neighbours in a row, count being of words
	transpose  pairing // and of 16 columns so many times 16 rows
	rows       pairing // of each two rows
	columns    pairing // of neighbours in a row of f32
}

// matmulTransposedDots is matmulTransposedRun that notes the least of b's bits.
type matmulTransposedDots func(a *byte, aRow, rows int, b *byte, bColumn, squares int, bias, y *byte, yRow, more int, ahead, least *byte)

// pairing makes rows of pairs. It returns the least of the elements' bits that are
// not 0, shifted left by 1, less 1; noBits where all are 0.
type pairing func(from *byte, fromRow int, to *byte, toRow, rows, count int) (least uint32)

const (
	noBits      = 1<<16 - 1
	matmulPairs = 3  // rows of Input that rows of Other are not paired for
	dotSquare   = 16 // columns, and pairs along K, that are transposed at a time

	matmulPairRows = 288 // of Input that are paired at a time
)

// transposedDots is transposedSums of pairs: it returns how deep the chains are, 0 where
// their products may not be taken, which is seen afterwards.
func (r *kernelMatmul[C]) transposedDots(t *MatmulTile, p *matmulMemory, columns int64) (depth int64) {
	if r.dots == nil || t.More {
		return 0
	}
	const deep = 2 * dotSquare
	depth = t.K / deep * deep
	seen := unsafe.Pointer(&BlockOf[float32](t.Scratch, 0, dotSquare)[0])
	bits := unsafe.Slice((*uint16)(seen), deep)
	for k := int64(0); k < depth; k += matmulAlong {
		steps := min(matmulAlong, depth-k)
		input := r.inputPairs(t, p, t.Input.From(0, k), steps)
		for i := range bits {
			bits[i] = noBits
		}
		for n := int64(0); n < columns; {
			run, wide := r.dots.transposed.next(t, columns-n)
			bias, y, yRow, begun := r.result(t, p, n, k, k+steps)
			run((*byte)(p.from), int(p.fromRow), int(p.rows), (*byte)(t.Other.Row(k, n).P), int(t.Other.Stride), int(steps/deep),
				bias, y, yRow, begun, t.ahead(n+wide, columns, k, steps, depth), (*byte)(seen))
			n += wide
		}
		if !staysNormal(input, uint32(slices.Min(bits))) {
			return 0
		}
	}
	return depth
}

// takesPairs reports whether a tile is worth copies of pairs: rows of Other are
// paired faster than its columns are transposed.
func (r *kernelMatmul[C]) takesPairs(t *MatmulTile) bool {
	switch {
	case r.dots == nil || t.K == 0 || t.More:
		return false
	case t.Other.Stride == 2:
		return t.M > matmulPairs
	}
	return t.Other.RowStride == 2 && t.M > r.few(t)
}

// inPairs copies, as pairs, what a part of a tile needs, and reports whether their
// products may be taken.
func (r *kernelMatmul[C]) inPairs(t *MatmulTile, p *matmulMemory, part matmulPart, copies unsafe.Pointer) bool {
	input, other, depth := t.Input.From(0, part.from), t.Other.From(part.from, part.begin), part.to-part.from
	far := 0
	if t.Far {
		far = 1
	}
	return staysNormal(r.inputPairs(t, p, input, depth), r.otherPairs(p, other, copies, depth, part.end-part.begin, far))
}

// inputPairs makes those of Input.
func (r *kernelMatmul[C]) inputPairs(t *MatmulTile, p *matmulMemory, input Rows, depth int64) (least uint32) {
	p.from, p.fromRow = unsafe.Add(t.Memory, p.input), p.inputRow
	zerosBelow(p, ceilDiv(depth, 2), 4)
	to, toRow, even := (*byte)(p.from), int(p.fromRow), depth&^1
	if input.Stride != 2 {
		r.copy(&r.input, p.from, p.fromRow, input, t.M, depth)
		return r.dots.columns(to, toRow, to, toRow, int(t.M), int(depth))
	}
	least = noBits
	if even > 0 {
		least = r.dots.swap((*byte)(input.P), int(input.RowStride), to, toRow, int(t.M), int(even/2))
	}
	if even == depth {
		return least
	}
	return min(least, lonePairs(unsafe.Add(p.from, 2*even), p.fromRow, input.From(0, even).Transposed(), t.M))
}

// otherPairs makes those of Other.
func (r *kernelMatmul[C]) otherPairs(p *matmulMemory, other Rows, copies unsafe.Pointer, depth, columns int64, far int) (least uint32) {
	even := depth &^ 1
	least = noBits
	switch {
	case even == 0:
	case other.Stride == 2:
		least = r.dots.rows((*byte)(other.P), int(other.RowStride), (*byte)(copies), int(p.copiesRow), int(even/2), int(columns))
	default:
		least = r.transposedPairs(copies, p.copiesRow, other, even/2, columns, far)
	}
	if even == depth {
		return least
	}
	return min(least, lonePairs(unsafe.Add(copies, even/2*p.copiesRow), 4, other.From(even, 0), columns))
}

// transposedPairs makes pairs of columns of so many words.
func (r *kernelMatmul[C]) transposedPairs(to unsafe.Pointer, toRow int64, from Rows, words, columns int64, far int) (least uint32) {
	least = noBits
	across, down := columns/dotSquare*dotSquare, words/dotSquare*dotSquare
	for n := int64(0); n < across && down > 0; n += dotSquare {
		at := from.Row(0, n)
		least = min(least, r.dots.transpose((*byte)(at.P), int(from.Stride), (*byte)(unsafe.Add(to, 4*n)), int(toRow), int(down/dotSquare), far))
	}
	rest := func(first, last, begin int64) { // words of columns
		if first == last || begin == columns {
			return
		}
		p := unsafe.Add(to, first*toRow+4*begin)
		r.transpose(p, toRow, from.Row(2*first, begin).P, from.Stride, columns-begin, last-first)
		least = min(least, r.dots.swap((*byte)(p), int(toRow), (*byte)(p), int(toRow), int(last-first), int(columns-begin)))
	}
	rest(down, words, 0)
	rest(0, down, across)
	return least
}

// lonePairs makes pairs of elements and zeros.
func lonePairs(to unsafe.Pointer, apart int64, from Rows, count int64) (least uint32) {
	least = noBits
	for i := range count {
		bits := *(*uint16)(from.Row(0, i).P)
		*(*uint32)(unsafe.Add(to, i*apart)) = uint32(bits) << 16
		least = min(least, uint32(bits<<1-1))
	}
	return least
}

// staysNormal reports whether no sum of products of bf16 is nearer to 0 than f32's
// least normal number, from the least bits of the factors.
func staysNormal(x, y uint32) bool {
	const bias, digits, least = 127, 7, -126
	exponent := func(bits uint32) int {
		if bits == noBits {
			return 2 * bias // there are only zeros
		}
		return int((bits + 1) >> 8)
	}
	i, j := exponent(x), exponent(y)
	return i > 0 && j > 0 && (i-bias-digits)+(j-bias-digits) >= least
}

// dotsAreChains reports whether the processor's sums are chains, each product
// rounded with the sum, as its manuals say.
func (d *matmulDots) dotsAreChains() bool {
	const pairs, columns = 64, 32
	var x [2 * pairs]float32
	var a [pairs]uint32
	var b [pairs][columns]uint32
	var want, y, row [columns]float32
	state := uint32(1)
	number := func() float32 { // of 8 bits, of either sign, from 2^-12 to 2^10
		state = state*1664525 + 1013904223
		return float32(int32(state)>>24) * float32(uint32(1)<<(state>>10&15)) / (1 << 12)
	}
	bits := func(v float32) uint32 { return uint32(tensor.ToBF16(v)) }
	for k := range x {
		x[k] = number()
		upper := 16 * (1 - k%2)
		a[k/2] |= bits(x[k]) << upper
		for n := range row {
			row[n] = number()
			b[k/2][n] |= bits(row[n]) << upper
		}
		fuseInto(want[:], x[k], row[:])
	}
	d.products.whole.run((*byte)(unsafe.Pointer(&a)), 0, 1, (*byte)(unsafe.Pointer(&b)), 4*columns, columns, pairs, nil, (*byte)(unsafe.Pointer(&y)), 0, 0)
	return y == want
}
