package cpu

import (
	"unsafe"

	"github.com/isobit-ml/isobit/tensor"
)

// weightReader reads codes of a type, in groups of some sizes.
type weightReader struct {
	weightCodes          // kernels for the codes as they are, or made bytes
	direct      bool     // multiply takes them as they are,
	packs       bool     // and so does packCodes
	halves      *float32 // see halvesOf; nil: codes are bytes
}

// halvesOf has what kernels need for codes that are halves of bytes: what these
// stand for, the numbers of 16 even elements and 16 odd ones in turn, and those
// of the even and the odd ones of 32.
type halvesOf struct {
	codes     [16]float32
	low, high [16]int32
	even, odd [16]int32
}

var halves = map[tensor.DType]*halvesOf{
	tensor.U4: newHalves(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15),
	tensor.S4: newHalves(0, 1, 2, 3, 4, 5, 6, 7, -8, -7, -6, -5, -4, -3, -2, -1),
}

func newHalves(codes ...float32) *halvesOf {
	h := &halvesOf{codes: [16]float32(codes)}
	for i := range int32(16) {
		h.low[i], h.high[i] = i/2+i%2*16, 8+i/2+i%2*16
		h.even[i], h.odd[i] = 2*i, 2*i+1
	}
	return h
}

// byteCodes is the type of codes that are unpacked to bytes.
func byteCodes(codes tensor.DType) tensor.DType {
	if codes.Packed() {
		return tensor.S8 // up to 15, also of u4
	}
	return codes
}

// newRow returns a row of the kernels, for codes of a type.
func (k *weightKernel) newRow(x *gatherType, codes tensor.DType) weightRow {
	bytes := byteCodes(codes)
	r := weightRow{weightKernel: k, x: x, bytes: k.dequantize[bytes], unsigned: bytes == tensor.U8}
	r.packing, _ = PickUpTo(PackingRows, k.needs, Types{})
	r.shared, r.grouped, r.groupedBytes = newReader(k.shared, codes, bytes), newReader(k.grouped, codes, bytes), newReader(k.grouped, tensor.None, bytes)
	if bytes == codes {
		r.groupedBytes = r.grouped
	}
	return r
}

// newReader returns a reader of codes by some kernels, or of codes that were made bytes.
func newReader(kernels map[tensor.DType]weightCodes, codes, bytes tensor.DType) (r weightReader) {
	if r.weightCodes, r.direct = kernels[codes]; !r.direct {
		r.weightCodes = kernels[bytes]
	}
	if r.packs = r.direct && r.packCodes != nil; !r.packs {
		r.packCodes = kernels[bytes].packCodes
	}
	if h := halves[codes]; r.direct && h != nil {
		r.halves = &h.codes[0]
	}
	return r
}

// rowCodes are rows of codes as kernels take them at once; what of the next one lies how many bytes further.
type rowCodes struct {
	rows                       int64
	codes                      unsafe.Pointer
	scale, zero                *float32
	codeRow, scaleRow, zeroRow int
}

// codes makes c n codes from position k on, an even one, of at most so many rows: where they lie, or copied or as bytes.
func (r *weightRun) codes(c *rowCodes, row, rows, k, n int64, direct bool) {
	c.rows = min(rows, r.most)
	if direct && row < r.inside {
		c.rows = min(c.rows, r.inside-row)
		c.codes, c.codeRow = unsafe.Add(r.Weight.Row(row, 0).P, r.bytesOf(k)), int(r.Weight.RowStride)
	} else {
		c.codeRow = int(roundUp(n, Lanes))
		c.rows = min(c.rows, int64(unsafe.Sizeof(r.Scratch.unused))/int64(c.codeRow))
		c.codes = unsafe.Pointer(&r.Scratch.unused)
		for i := range c.rows {
			r.copyCodes(unsafe.Add(c.codes, i*int64(c.codeRow)), row+i, k, n, direct)
		}
	}
	scales, zeros := r.group(row, k, n, c.rows)
	c.scale, c.zero, c.scaleRow, c.zeroRow = &scales[0], &zeros[0], int(r.Scale.RowStride), 0
	if !r.scalesAsTheyAre() {
		c.scaleRow = len(scales) / int(c.rows) * 4
	}
	switch {
	case r.Zero.P != nil:
		c.zeroRow = len(zeros) / int(c.rows) * 4
	case r.Numbers != nil || r.halves == nil || r.needs < AVX512:
		c.zero = nil // nothing to subtract, nor a table to make
	}
}

// copyCodes copies codes as they are, or as bytes.
func (r *weightRun) copyCodes(to unsafe.Pointer, row, k, n int64, direct bool) {
	from := r.Weight.Row(row, 0).P
	if r.Weight.DType.Packed() && !direct {
		r.packing.Unpack(unsafe.Slice((*int8)(to), n), from, k, 1, r.Weight.DType)
		return
	}
	copy(unsafe.Slice((*byte)(to), r.bytesOf(n)), unsafe.Slice((*byte)(unsafe.Add(from, r.bytesOf(k))), r.bytesOf(n)))
}

// bytesOf returns how many bytes so many codes have.
func (t *WeightTile) bytesOf(codes int64) int64 {
	if t.Weight.DType.Packed() {
		return (codes + 1) / 2
	}
	return codes
}

// rowsInside returns how many rows have codes behind them, up to the end of a stripe, that kernels may read: where rows lie
// a page apart, nothing may be mapped there.
func (t *WeightTile) rowsInside() int64 {
	apart, row := t.Weight.RowStride, t.bytesOf(t.K)
	if apart <= 0 || apart-row >= smallestPage {
		return 0
	}
	more := t.bytesOf(roundUp(t.K, Lanes)) - row
	return max(0, t.Rows-ceilDiv(more, apart))
}

// codeBytes returns n codes of a row from position k on, as bytes.
func (t *WeightTile) codeBytes(p Packing, row, k, n int64) *byte {
	d := t.Weight.DType
	if !d.Packed() {
		return (*byte)(t.Weight.Row(row, k).P)
	}
	bytes := unsafe.Slice((*int8)(unsafe.Pointer(&t.Scratch.unused)), n)
	p.Unpack(bytes, t.Weight.Row(row, 0).P, k, 1, d)
	return (*byte)(unsafe.Pointer(&bytes[0]))
}

// weights fills w with the weights of row n from position k on.
func (r *weightRun) weights(w []float32, n, k int64) {
	scales, zeros := r.group(n, k, int64(len(w)), 1)
	codes := codeRun[float32]{r.codeBytes(r.packing, n, k, int64(len(w))), r.unsigned, r.GroupSize, k, scales, zeros}
	codes.weights(w, r.bytes)
}

// codeRun are codes of a row, from position first on, in groups that have a scale and a zero point each.
type codeRun[C Compute] struct {
	codes         *byte
	unsigned      bool
	group, first  int64
	scales, zeros []C
}

// weights fills w with what codes stand for: kernel makes what it takes of a group.
func (r *codeRun[C]) weights(w []C, kernel func(q *byte, groups, size int, scale, zero, w *C)) {
	q := unsafe.Pointer(r.codes)
	for at, number := 0, 0; at < len(w); {
		left := len(w) - at
		size := min(int(r.group-(r.first+int64(at))%r.group), left)
		groups, kernels := 1, size&^(groupUnit-1)
		if size == kernels && int64(size) == r.group {
			groups = left / size
		}
		if kernels > 0 {
			kernel((*byte)(unsafe.Add(q, at)), groups, kernels, &r.scales[number], &r.zeros[number], &w[at])
		}
		for i := kernels; i < size; i++ {
			code := C(*(*int8)(unsafe.Add(q, at+i)))
			if r.unsigned {
				code = C(*(*uint8)(unsafe.Add(q, at+i)))
			}
			w[at+i] = (code - r.zeros[number]) * r.scales[number]
		}
		at, number = at+groups*size, number+groups
	}
}

// groupUnit is of how many elements kernels take multiples.
const groupUnit = 16

// mostScales is how many scales are loaded at a time, at most: groups may be single elements of a
// tile, or 32 of a whole row.
const mostScales = max(TileSize, StripeBlock/sharedUnit) + 1

// noZeros are the zero points of codes that have none, and what a vector may have behind them.
var noZeros [mostScales + Lanes]float32

// scalesAsTheyAre reports whether kernels read a row's scales where they lie: by numbers they read a whole vector.
func (r *weightRun) scalesAsTheyAre() bool {
	return r.Scale.DType == tensor.F32 && r.Scale.Contiguous() && r.Numbers == nil
}

// group returns the scales of n elements of a row from position k on, and their zero points,
// followed by those of the same elements of later rows: of scales as they are where those lie.
func (r *weightRun) group(row, k, n, rows int64) (scales, zeros []float32) {
	first := k / r.GroupSize
	if r.Numbers != nil {
		first &^= int64(r.lanes) - 1
	}
	count := (k+n-1)/r.GroupSize - first + 1
	if s := r.Scale.Row(row, first); r.scalesAsTheyAre() {
		scales = unsafe.Slice((*float32)(s.P), count)
	} else {
		scales = BlockOf[float32](r.Scratch, scaleBlocks, int(rows*count))
		loadRows(scales, count, r.Scale, row, first, areScales, 0, 0)
	}
	if r.Zero.P == nil {
		return scales, noZeros[:count]
	}
	zeros = BlockOf[float32](r.Scratch, zeroBlocks, int(rows*count))
	lo, hi := r.Weight.DType.WholeRange()
	loadRows(zeros, count, r.Zero, row, first, areZeroPoints, float64(lo), float64(hi))
	return scales, zeros
}

// loadRows loads count parameters of each row from a row and column on; whole rows at once.
func loadRows(v []float32, count int64, from Rows, row, column int64, zeroPoints bool, lo, hi float64) {
	if from.RowStride == count*from.Stride {
		count = int64(len(v))
	}
	for ; len(v) > 0; v, row = v[count:], row+1 {
		loadByKernel(v[:count], from.Row(row, column), zeroPoints, lo, hi)
	}
}
