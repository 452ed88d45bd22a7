package cpu

import "unsafe"

var outsideRows = []Row[IndexSearch]{
	{"avx512", AVX512, always(IndexSearch{
		outsideBy(outsideAVX512I64), outsideBy(outsideAVX512I32), leapsBy(leapsAVX2I64), leapsBy(leapsAVX2I32),
	})},
	{"avx2", AVX2, always(IndexSearch{
		outsideBy(outsideAVX2I64), outsideBy(outsideAVX2I32), leapsBy(leapsAVX2I64), leapsBy(leapsAVX2I32),
	})},
}

var widenRows = []Row[func(to []int64, from []int32)]{{"avx2", AVX2, always(widenBy(widenAVX2))}}

var copyRows = []Row[func(*RowCopies)]{{"avx2", AVX2, always(func(r *RowCopies) {
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
	copyRowsAVX2(to, apart, from, stride, &r.Indices[0], len(r.Indices), int(size), r.Early, r.Stream && lines)
})}}
