package cpu

import (
	"unsafe"

	"golang.org/x/sys/cpu"
)

// The rows of QuantizedLinear before the definition.
var linearRows = []Row[func(*LinearTile)]{
	{"avx512vnni", AVX512, func(t Types) (func(*LinearTile), bool) {
		f, _ := byCompute(linearTiles[float32], linearTiles[float64])(t)
		return func(tile *LinearTile) { f(tile, &vnni) }, cpu.X86.HasAVX512VNNI
	}},
	{"avx2", AVX2, func(t Types) (func(*LinearTile), bool) {
		f, _ := byCompute(linearTiles[float32], linearTiles[float64])(t)
		return func(tile *LinearTile) { f(tile, &avx2) }, true
	}},
}

// dotTiles computes columns, a multiple of 4, of groups of some rows of x.
type dotTiles func(x *int8, xStride, groups int, w *int8, wStride, columns, ahead, k int, acc *int32, accStride int, correction *int32)

// dotKernel has the tiles of an instruction set.
type dotKernel struct {
	dots    [4]dotTiles // of groups of 1 to 4 rows
	correct func(x *int8, k int) int32
	scale   func(y *float32, acc *int32, n int, xScale float32, wScale, bias *float32)
	step    int64 // what k is a multiple of
}

var (
	vnni = dotKernel{[4]dotTiles{dotVNNIRows1, dotVNNIRows2, dotVNNIRows3, dotVNNIRows4}, correctionVNNI, scaleSumsAVX512, 1}
	avx2 = dotKernel{[4]dotTiles{dotAVX2Rows1, dotAVX2Rows2, dotAVX2Rows3, dotAVX2Rows4}, nil, scaleSumsAVX2, 16}
)

const (
	// A strip has as many rows of x as stay in the first cache, beside 4 of weight, while they meet all columns.
	linearStripBytes = 32 << 10
	linearStrip      = 24

	linearProducts = 1 << 20 // in a call, which cannot be preempted
)

// linearTiles runs a tile in strips of rows.
func linearTiles[C Compute](t *LinearTile, kernel *dotKernel) {
	rows, columns := t.M1-t.M0, t.N1-t.N0
	if t.X.Stride != 1 || t.Weight.Stride != 1 || columns < 4 || t.K > maxInt32Depth || t.K < kernel.step {
		quantizedLinearGo[C](t)
		return
	}
	s := scaledBy[C]{newScaled[C](t), kernel.scale, t.Y.DType.Size() == int64(unsafe.Sizeof(C(0))) && t.Y.Contiguous()}
	sums := linearSums{t: t, kernel: kernel, columns: columns, whole: t.K / kernel.step * kernel.step}
	sums.acc = unsafe.Slice((*int32)(unsafe.Pointer(&t.Scratch.ints[0])), linearStrip*columns)
	sums.minus = unsafe.Slice((*int32)(unsafe.Pointer(&t.Scratch.ints[3])), linearStrip)
	sums.ahead = int(4 * t.Weight.RowStride)
	strip := min(max(4, (linearStripBytes/t.K-4)&^3), linearStrip)
	for m := int64(0); m < rows; m += strip {
		n := min(strip, rows-m)
		sums.rows(t.M0+m, n)
		for i := range n {
			s.store(t.M0+m+i, sums.acc[i*columns:][:columns])
		}
		sums.ahead = 0
	}
}

// scaledBy is scaled with a kernel for float32.
type scaledBy[C Compute] struct {
	scaled[C]
	kernel func(y *float32, acc *int32, n int, xScale float32, wScale, bias *float32)
	direct bool // y is written where it lies
}

// store writes the outputs of row m.
func (s scaledBy[C]) store(m int64, acc []int32) {
	y := s.Y.Row(m, s.N0)
	if s.direct {
		s.row(m, unsafe.Slice((*C)(y.P), len(acc)), acc)
		return
	}
	s.row(m, s.y, acc)
	Store(y, s.y[:len(acc)])
}

// row makes y of the sums of row m.
func (s scaledBy[C]) row(m int64, y []C, acc []int32) {
	Load(s.sx, s.XScale.At(m))
	whole := 0
	if unsafe.Sizeof(s.sx[0]) == 4 {
		whole = len(acc) &^ 15 // what the kernel takes
		bias := as32(s.bias)
		if s.Bias.P == nil {
			bias = nil
		}
		s.kernel(as32(y), unsafe.SliceData(acc), whole, *as32(s.sx), as32(s.sw), bias)
	}
	scaleSums(s.scaled, y, whole, acc)
}

func as32[C Compute](v []C) *float32 { return (*float32)(unsafe.Pointer(unsafe.SliceData(v))) }

// linearSums computes the integer sums of some rows of x with a tile's columns.
type linearSums struct {
	t       *LinearTile
	kernel  *dotKernel
	columns int64
	whole   int64   // the part of K that kernels take
	ahead   int     // how far from columns the next ones are, where they are read for the first time
	acc     []int32 // of the rows
	minus   []int32 // corrections
}

// rows computes the sums of some rows of x: in groups of 4 rows, or as many as there are, by 4 columns. The
// last group and the last columns overlap those before.
func (s *linearSums) rows(m, rows int64) {
	x := &s.t.X
	if s.kernel.correct != nil {
		for i := range rows {
			s.minus[i] = s.kernel.correct((*int8)(x.Row(m+i, 0).P), int(s.whole))
		}
	}
	together := min(4, rows)
	dots, most := s.kernel.dots[together-1], max(4, linearProducts/(rows*s.whole)&^3)
	for i := int64(0); i < rows; {
		first, count := wholeOrLast(i, rows, together)
		for j := int64(0); j < s.columns; {
			column, columns := wholeOrLast(j, s.columns, 4)
			columns = min(columns, most)
			w := s.t.Weight.Row(s.t.N0+column, 0)
			dots((*int8)(x.Row(m+first, 0).P), int(x.RowStride), int(count/together), (*int8)(w.P), int(s.t.Weight.RowStride), int(columns), s.ahead, int(s.whole),
				&s.acc[first*s.columns+column], int(4*s.columns), &s.minus[first])
			j = column + columns
		}
		i = first + count
	}
	if s.whole == s.t.K {
		return
	}
	for i := range rows {
		rest := x.Row(m+i, s.whole)
		for j := range s.columns {
			s.acc[i*s.columns+j] += dot32(rest, s.t.Weight.Row(s.t.N0+j, s.whole), s.t.K-s.whole)
		}
	}
}

// wholeOrLast returns the elements from at on that are whole steps, or else the last step, which
// overlaps those before.
func wholeOrLast(at, size, step int64) (first, count int64) {
	if count = (size - at) / step * step; count > 0 {
		return at, count
	}
	return size - step, step
}
