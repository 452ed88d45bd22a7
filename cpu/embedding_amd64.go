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

var pairKernels = []pairKernel{
	{AVX512, tensor.F32, 1, pairProductsAVX512F32},
	{AVX512, tensor.BF16, 1, pairProductsAVX512BF16},
	{AVX512, tensor.F16, 1, pairProductsAVX512F16},
	{AVX2, tensor.F32, 8, pairProductsAVX2F32},
	{AVX2, tensor.BF16, 8, pairProductsAVX2BF16},
	{AVX2, tensor.F16, 8, pairProductsAVX2F16},
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

func bagMaxBackwardRow(isa ISA, t Types) (func(*EmbeddingSums), bool) {
	if isa != AVX2 {
		return nil, false
	}
	f32, f64 := chosenBy(8, addChosenAVX2F32), chosenBy(4, addChosenAVX2F64)
	return ByCompute(each(func(e *EmbeddingSum) { sumChosenThere(e, f32) }), each(func(e *EmbeddingSum) { sumChosenThere(e, f64) }))(t)
}

// sumChosenThere is sumChosen, in the destination itself where one chunk has all
// and nothing is rounded.
func sumChosenThere[C Compute](e *EmbeddingSum, add chosenSum[C]) {
	wide := e.Out.DType.Size() == int64(unsafe.Sizeof(C(0)))
	if !wide || len(e.Positions) > ChunkSize || e.Accumulate || !e.Out.Contiguous() || !e.Terms.Contiguous() {
		sumChosen(e, add)
		return
	}
	sum := unsafe.Slice((*C)(e.Out.P), e.Columns)
	clear(sum)
	for k, bag := range e.Positions {
		add(sum, unsafe.Slice((*C)(e.Terms.Row(bag, e.Column).P), e.Columns), e.Chosen.Row(bag, e.Column), e.Sources[k])
	}
}

// chosenBy is addChosen by a kernel for multiples of some elements.
func chosenBy[C Compute](step int, kernel func(acc, terms *C, chosen *int64, n int, position int64)) chosenSum[C] {
	return func(acc, terms []C, chosen Span, position int64) {
		whole := 0
		if chosen.Contiguous() {
			whole = len(acc) / step * step
		}
		if whole > 0 {
			kernel(&acc[0], &terms[0], (*int64)(chosen.P), whole, position)
		}
		if whole < len(acc) {
			addChosen(acc[whole:], terms[whole:], chosen.At(int64(whole)), position)
		}
	}
}
