package cpu

import (
	"unsafe"

	"github.com/isobit-ml/isobit/tensor"
)

var rowSums = []rowSum{
	{AVX512, tensor.F32, 1, sumRowsAVX512F32},
	{AVX512, tensor.F64, 1, sumRowsAVX512F64},
	{AVX512, tensor.BF16, 1, sumRowsAVX512BF16},
	{AVX512, tensor.F16, 1, sumRowsAVX512F16},
	{AVX2, tensor.F32, 16, sumRowsAVX2F32},
	{AVX2, tensor.F64, 8, sumRowsAVX2F64},
	{AVX2, tensor.BF16, 16, sumRowsAVX2BF16},
	{AVX2, tensor.F16, 16, sumRowsAVX2F16},
}

var copyRows = []Row[RowCopy]{{"avx2", AVX2, always(RowCopy(func(dst, src Span, n int64, next unsafe.Pointer, stream bool) {
	if !stream || !dst.Contiguous() || !src.Contiguous() || n*dst.Stride < 2*streamAlignment {
		CopyRow(dst, src, n)
		return
	}
	to, from := unsafe.Slice((*byte)(dst.P), n*dst.Stride), unsafe.Slice((*byte)(src.P), n*dst.Stride)
	head := int(-uintptr(dst.P) % streamAlignment)
	whole := (len(to) - head) / streamAlignment * streamAlignment
	copy(to[:head], from)
	copyAroundAVX2(&to[head], &from[head], (*byte)(next), whole)
	copy(to[head+whole:], from[head+whole:])
}))}}
