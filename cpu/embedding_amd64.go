package cpu

import "github.com/isobit-ml/isobit/tensor"

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
