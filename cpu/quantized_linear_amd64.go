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

// dotTile computes some rows of x against 4 of weight.
type dotTile func(x *int8, xStride int, w *int8, wStride int, k int, acc *int32, accStride int, correction *int32)

// dotKernel has the tiles of an instruction set.
type dotKernel struct {
	first [4]dotTile // of 1 to 4 rows, the first of x, which note corrections
	dot   dotTile    // of 4 more
	scale func(y *float32, acc *int32, n int, xScale float32, wScale, bias *float32)
	step  int64 // what k is a multiple of
}

var (
	vnni = dotKernel{[4]dotTile{dotVNNIFirst1, dotVNNIFirst2, dotVNNIFirst3, dotVNNIFirst4}, dotVNNI, scaleSumsAVX512, 1}
	avx2 = dotKernel{[4]dotTile{dotAVX2Rows1, dotAVX2Rows2, dotAVX2Rows3, dotAVX2Rows4}, dotAVX2Rows4, scaleSumsAVX2, 16}
)

// linearTiles runs a tile in squares of 4 rows, or as many as there are, by 4
// columns; the last square along each side overlaps the one before.
func linearTiles[C Compute](t *LinearTile, kernel *dotKernel) {
	rows, columns := t.M1-t.M0, t.N1-t.N0
	if t.X.Stride != 1 || t.Weight.Stride != 1 || columns < 4 || t.K > maxInt32Depth || t.K < kernel.step {
		quantizedLinearGo[C](t)
		return
	}
	s := scaledBy[C]{newScaled[C](t), kernel.scale, t.Y.DType.Size() == int64(unsafe.Sizeof(C(0))) && t.Y.Contiguous()}
	sums := linearSums{t: t, whole: t.K / kernel.step * kernel.step}
	sums.acc = unsafe.Slice((*int32)(unsafe.Pointer(&t.Scratch.ints[0])), 4*columns)
	sums.minus = unsafe.Slice((*int32)(unsafe.Pointer(&t.Scratch.ints[1])), columns)
	together := min(4, rows)
	for m, dot := int64(0), kernel.first[together-1]; m < rows; m, dot = m+4, kernel.dot {
		first := t.M0 + min(m, rows-together)
		sums.rows(first, together, dot)
		for i := range together {
			s.store(first+i, sums.acc[i*columns:][:columns])
		}
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

// linearSums computes the integer sums of up to 4 rows of x with a tile's columns.
type linearSums struct {
	t     *LinearTile
	whole int64   // the part of K that kernels take
	acc   []int32 // 4 rows
	minus []int32 // corrections
}

// rows computes the sums of some rows of x.
func (s *linearSums) rows(m, rows int64, dot dotTile) {
	columns, x := int64(len(s.minus)), &s.t.X
	for j := int64(0); j < columns; j += 4 {
		n := min(j, columns-4)
		w := s.t.Weight.Row(s.t.N0+n, 0)
		dot((*int8)(x.Row(m, 0).P), int(x.RowStride), (*int8)(w.P), int(s.t.Weight.RowStride), int(s.whole), &s.acc[n], int(4*columns), &s.minus[n])
	}
	if s.whole == s.t.K {
		return
	}
	for i := range rows {
		rest := x.Row(m+i, s.whole)
		for j := range columns {
			s.acc[i*columns+j] += dot32(rest, s.t.Weight.Row(s.t.N0+j, s.whole), s.t.K-s.whole)
		}
	}
}
