package cpu

import (
	"unsafe"

	"golang.org/x/sys/cpu"
)

// The rows of QuantizedLinear before the definition.
var linearRows = []Row[func(*LinearTile)]{
	{"avx512vnni", AVX512, func(t Types) (func(*LinearTile), bool) {
		f, _ := ByCompute(linearTiles[float32], linearTiles[float64])(t)
		return func(tile *LinearTile) { f(tile, &vnni) }, cpu.X86.HasAVX512VNNI
	}},
	{"avx2", AVX2, func(t Types) (func(*LinearTile), bool) {
		f, _ := ByCompute(linearTiles[float32], linearTiles[float64])(t)
		return func(tile *LinearTile) { f(tile, &avx2) }, true
	}},
}

// dotKernel computes 4 rows against 4.
type dotKernel struct {
	dot     func(x *int8, xStride int, w *int8, wStride int, k int, acc *int32, accStride int, correction *int32)
	scale   func(y *float32, acc *int32, n int, xScale float32, wScale, bias *float32)
	step    int64 // what its k is a multiple of
	shifted bool  // it adds 128 to x, which the correction takes off
}

var (
	vnni = dotKernel{dotVNNI, scaleSumsAVX512, 1, true}
	avx2 = dotKernel{dotAVX2, scaleSumsAVX2, 16, false}
)

// linearTiles runs a tile in squares of 4 rows by 4 columns; the last square
// along each side overlaps the one before.
func linearTiles[C Compute](t *LinearTile, kernel *dotKernel) {
	rows, columns := t.M1-t.M0, t.N1-t.N0
	if t.X.Stride != 1 || t.Weight.Stride != 1 || columns < 4 || t.K > maxInt32Depth || t.K < kernel.step {
		quantizedLinearGo[C](t)
		return
	}
	s := scaledBy[C]{newScaled[C](t), kernel.scale, t.Y.DType.Size() == int64(unsafe.Sizeof(C(0))) && t.Y.Contiguous()}
	sums := linearSums{t: t, kernel: kernel, whole: t.K / kernel.step * kernel.step}
	sums.acc = unsafe.Slice((*int32)(unsafe.Pointer(&t.Scratch.ints[0])), 4*columns)
	sums.correct(columns)
	for m := int64(0); m < rows; m += 4 {
		first, stride := t.M0+min(m, max(rows-4, 0)), t.X.RowStride
		if rows < 4 {
			stride = 0 // the same row four times
			for i := range rows {
				sums.quad(t.M0+i, stride, 1)
				s.store(t.M0+i, sums.acc[:columns])
			}
			return
		}
		sums.quad(first, stride, 4)
		for i := range int64(4) {
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

// linearSums computes the integer sums of 4 rows of x with a tile's columns.
type linearSums struct {
	t      *LinearTile
	kernel *dotKernel
	whole  int64   // the part of K that the kernel takes
	acc    []int32 // 4 rows
	minus  []int32 // corrections
}

// correct computes the corrections of a tile's columns.
func (s *linearSums) correct(columns int64) {
	s.minus = unsafe.Slice((*int32)(unsafe.Pointer(&s.t.Scratch.ints[1])), columns)
	clear(s.minus)
	if !s.kernel.shifted {
		return
	}
	s.squares(&zeros[0], 0) // a row of zeros, shifted, is 128 everywhere
	copy(s.minus, s.acc)
}

// zeros is a row of x as long as a tile takes.
var zeros [maxInt32Depth]int8

// squares multiplies 4 rows of x with every 4 columns.
func (s *linearSums) squares(x *int8, xStride int64) {
	columns := int64(len(s.minus))
	for j := int64(0); j < columns; j += 4 {
		n := min(j, columns-4)
		w := s.t.Weight.Row(s.t.N0+n, 0)
		s.kernel.dot(x, int(xStride), (*int8)(w.P), int(s.t.Weight.RowStride), int(s.whole), &s.acc[n], int(4*columns), &s.minus[n])
	}
}

// quad computes the sums of 4 rows of x, or of one row four times.
func (s *linearSums) quad(m, xStride, rows int64) {
	columns := int64(len(s.minus))
	s.squares((*int8)(s.t.X.Row(m, 0).P), xStride)
	if s.whole == s.t.K {
		return
	}
	for i := range rows {
		rest := s.t.X.Row(m+i, s.whole)
		for j := range columns {
			s.acc[i*columns+j] += dot32(rest, s.t.Weight.Row(s.t.N0+j, s.whole), s.t.K-s.whole)
		}
	}
}
