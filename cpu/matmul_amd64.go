package cpu

import "github.com/isobit-ml/isobit/tensor"

var matmulKernels = []matmulKernel{
	{AVX512, tensor.F32, 32, matmulAVX512F32},
	{AVX512, tensor.BF16, 32, matmulAVX512BF16},
	{AVX512, tensor.F16, 32, matmulAVX512F16},
	{AVX512, tensor.F64, 16, matmulAVX512F64},
	{AVX2, tensor.F32, 16, matmulAVX2F32},
	{AVX2, tensor.BF16, 16, matmulAVX2BF16},
	{AVX2, tensor.F16, 16, matmulAVX2F16},
	{AVX2, tensor.F64, 8, matmulAVX2F64},
}

var matmulHalfKernels = []matmulKernel{
	{AVX512, tensor.F32, 16, matmulHalfAVX512F32},
	{AVX512, tensor.BF16, 16, matmulHalfAVX512BF16},
	{AVX512, tensor.F16, 16, matmulHalfAVX512F16},
	{AVX512, tensor.F64, 8, matmulHalfAVX512F64},
	{AVX2, tensor.F32, 8, matmulHalfAVX2F32},
	{AVX2, tensor.BF16, 8, matmulHalfAVX2BF16},
	{AVX2, tensor.F16, 8, matmulHalfAVX2F16},
	{AVX2, tensor.F64, 4, matmulHalfAVX2F64},
}

var matmulTurnedKernels = []matmulKernel{
	{AVX512, tensor.F32, 16, matmulTurnedAVX512F32},
	{AVX512, tensor.BF16, 16, matmulTurnedAVX512BF16},
	{AVX512, tensor.F16, 16, matmulTurnedAVX512F16},
	{AVX512, tensor.F64, 8, matmulTurnedAVX512F64},
	{AVX2, tensor.F32, 8, matmulTurnedAVX2F32},
	{AVX2, tensor.BF16, 8, matmulTurnedAVX2BF16},
	{AVX2, tensor.F16, 8, matmulTurnedAVX2F16},
	{AVX2, tensor.F64, 4, matmulTurnedAVX2F64},
}
