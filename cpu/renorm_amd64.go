package cpu

import "github.com/isobit-ml/isobit/tensor"

var normKernels = []normKernel{
	{AVX512, tensor.F32, rowAbsAVX512F32, rowSquareAVX512F32, rowLargestAVX512F32, rowCubeAVX512F32, rowScaleAVX512F32},
	{AVX512, tensor.F64, rowAbsAVX512F64, rowSquareAVX512F64, rowLargestAVX512F64, nil, rowScaleAVX512F64},
	{AVX512, tensor.BF16, rowAbsAVX512BF16, rowSquareAVX512BF16, rowLargestAVX512BF16, rowCubeAVX512BF16, rowScaleAVX512BF16},
	{AVX512, tensor.F16, rowAbsAVX512F16, rowSquareAVX512F16, rowLargestAVX512F16, rowCubeAVX512F16, rowScaleAVX512F16},
	{AVX2, tensor.F32, rowAbsAVX2F32, rowSquareAVX2F32, rowLargestAVX2F32, rowCubeAVX2F32, rowScaleAVX2F32},
	{AVX2, tensor.F64, rowAbsAVX2F64, rowSquareAVX2F64, rowLargestAVX2F64, nil, rowScaleAVX2F64},
	{AVX2, tensor.BF16, rowAbsAVX2BF16, rowSquareAVX2BF16, rowLargestAVX2BF16, rowCubeAVX2BF16, rowScaleAVX2BF16},
	{AVX2, tensor.F16, rowAbsAVX2F16, rowSquareAVX2F16, rowLargestAVX2F16, rowCubeAVX2F16, rowScaleAVX2F16},
}
