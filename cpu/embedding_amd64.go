package cpu

import (
	"unsafe"

	"github.com/isobit-ml/isobit/tensor"
)

var rowSums = []rowSum{
	{AVX512, tensor.F32, tensor.F32, 1, sumRowsAVX512F32, sumChosenAVX512F32},
	{AVX512, tensor.F64, tensor.F64, 1, sumRowsAVX512F64, sumChosenAVX512F64},
	{AVX512, tensor.BF16, tensor.BF16, 1, sumRowsAVX512BF16, sumChosenAVX512BF16},
	{AVX512, tensor.F16, tensor.F16, 1, sumRowsAVX512F16, sumChosenAVX512F16},
	{AVX512, tensor.F32, tensor.BF16, 1, sumRowsAVX512F32, nil},
	{AVX512, tensor.F32, tensor.F16, 1, sumRowsAVX512F32, nil},
	{AVX2, tensor.F32, tensor.F32, 16, sumRowsAVX2F32, sumChosenAVX2F32},
	{AVX2, tensor.F64, tensor.F64, 8, sumRowsAVX2F64, sumChosenAVX2F64},
	{AVX2, tensor.BF16, tensor.BF16, 16, sumRowsAVX2BF16, sumChosenAVX2BF16},
	{AVX2, tensor.F16, tensor.F16, 16, sumRowsAVX2F16, sumChosenAVX2F16},
	{AVX2, tensor.F32, tensor.BF16, 16, sumRowsAVX2F32, nil},
	{AVX2, tensor.F32, tensor.F16, 16, sumRowsAVX2F32, nil},
}

var pairKernels = []pairKernel{
	{AVX512, tensor.F32, 1, pairProductsAVX512F32},
	{AVX512, tensor.BF16, 1, pairProductsAVX512BF16},
	{AVX512, tensor.F16, 1, pairProductsAVX512F16},
	{AVX2, tensor.F32, 8, pairProductsAVX2F32},
	{AVX2, tensor.BF16, 8, pairProductsAVX2BF16},
	{AVX2, tensor.F16, 8, pairProductsAVX2F16},
}

var rowDivisions = []rowDivision{
	{AVX512, tensor.F32, divideRowAVX512F32},
	{AVX512, tensor.F64, divideRowAVX512F64},
	{AVX512, tensor.BF16, divideRowAVX512BF16},
	{AVX512, tensor.F16, divideRowAVX512F16},
	{AVX2, tensor.F32, divideRowAVX2F32},
	{AVX2, tensor.F64, divideRowAVX2F64},
	{AVX2, tensor.BF16, divideRowAVX2BF16},
	{AVX2, tensor.F16, divideRowAVX2F16},
}

var bagMaxima = []bagMax{
	{AVX512, tensor.F32, 1, bagMaxAVX512F32},
	{AVX512, tensor.F64, 1, bagMaxAVX512F64},
	{AVX512, tensor.BF16, 1, bagMaxAVX512BF16},
	{AVX512, tensor.F16, 1, bagMaxAVX512F16},
	{AVX2, tensor.F32, 16, bagMaxAVX2F32},
	{AVX2, tensor.F64, 8, bagMaxAVX2F64},
	{AVX2, tensor.BF16, 16, bagMaxAVX2BF16},
	{AVX2, tensor.F16, 16, bagMaxAVX2F16},
}

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
