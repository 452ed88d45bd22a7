package cpu

import (
	"unsafe"

	"github.com/isobit-ml/isobit/tensor"
)

var outsideRows = []Row[IndexSearch]{
	{"avx512", AVX512, always(IndexSearch{
		outsideBy(outsideAVX512I64), outsideBy(outsideAVX512I32), leapsBy(leapsAVX2I64), leapsBy(leapsAVX2I32),
	})},
	{"avx2", AVX2, always(IndexSearch{
		outsideBy(outsideAVX2I64), outsideBy(outsideAVX2I32), leapsBy(leapsAVX2I64), leapsBy(leapsAVX2I32),
	})},
}

var widenRows = []Row[func(to []int64, from []int32)]{{"avx2", AVX2, always(widenBy(widenAVX2))}}

var copyRows = []Row[func(*RowCopies)]{
	{"avx512", AVX512, always(func(r *RowCopies) { r.copyBy(copyRowsAVX512, longestWhole) })},
	{"avx2", AVX2, always(func(r *RowCopies) { r.copyBy(copyRowsAVX2, 0) })},
}

// longestWhole is how many bytes rows have that AVX-512 copies: longer ones take up to 1.1 times as long, where they
// come from memory.
const longestWhole = 512

// copyBy copies rows, those of whole lines and of so many bytes by the given kernel.
func (r *RowCopies) copyBy(whole func(to *byte, apart int, from *byte, stride int, rows *int64, count, size, early int, stream bool), longest int64) {
	size := r.Columns * r.To.Stride
	if !r.To.hasEvenRows() || !r.From.hasEvenRows() || size == 0 || len(r.Indices) == 0 {
		copyRowsGo(r)
		return
	}
	to, apart, from, stride := (*byte)(r.To.Row(r.First, 0).P), int(r.To.Strides[0]), (*byte)(r.From.P), int(r.From.Strides[0])
	if size <= 64 {
		copyNarrowRowsAVX2(to, apart, from, stride, &r.Indices[0], len(r.Indices), int(size))
		return
	}
	lines := (int64(uintptr(unsafe.Pointer(to)))|int64(apart)|size)%streamAlignment == 0
	if !lines || size > longest {
		whole = copyRowsAVX2
	}
	whole(to, apart, from, stride, &r.Indices[0], len(r.Indices), int(size), r.Early, r.Stream && lines)
}

// copyBytes copies some bytes of the rows with numbers, one of them at least.
func copyBytes(to unsafe.Pointer, apart int64, from unsafe.Pointer, stride int64, rows []int64, size int64) {
	narrow := func(at, size int64) {
		copyNarrowRowsAVX2((*byte)(unsafe.Add(to, at)), int(apart), (*byte)(unsafe.Add(from, at)), int(stride), &rows[0], len(rows), int(size))
	}
	switch {
	case size > 64:
		copyRowsAVX2((*byte)(to), int(apart), (*byte)(from), int(stride), &rows[0], len(rows), int(size), touchRows, false)
	case size == 1:
		for i, row := range rows {
			*(*byte)(unsafe.Add(to, int64(i)*apart)) = *(*byte)(unsafe.Add(from, row*stride))
		}
	default:
		narrow(0, size&^1)
		if size%2 == 1 {
			narrow(size-2, 2)
		}
	}
}

var doublePair doublePairKernel = pairProductAVX2F64

var codeSums = []rowSum{
	{needs: AVX512, in: tensor.S8, out: tensor.F32, least: 16, codes: sumCodesAVX512S8},
	{needs: AVX512, in: tensor.U8, out: tensor.F32, least: 16, codes: sumCodesAVX512U8},
	{needs: AVX512, in: tensor.S4, out: tensor.F32, least: 16, halves: true, codes: sumCodesAVX512S4},
	{needs: AVX512, in: tensor.U4, out: tensor.F32, least: 16, halves: true, codes: sumCodesAVX512U4},
	{needs: AVX2, in: tensor.S8, out: tensor.F32, least: 8, codes: sumCodesAVX2S8},
	{needs: AVX2, in: tensor.U8, out: tensor.F32, least: 8, codes: sumCodesAVX2U8},
	{needs: AVX2, in: tensor.S4, out: tensor.F32, least: 8, halves: true, codes: sumCodesAVX2S4},
	{needs: AVX2, in: tensor.U4, out: tensor.F32, least: 8, halves: true, codes: sumCodesAVX2U4},
}
