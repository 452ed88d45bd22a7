package cpu

import "github.com/isobit-ml/isobit/tensor"

var matmulKernels = []matmulKernel{
	{AVX512, tensor.F32, 32, matmulAVX512F32},
	{AVX512, tensor.F64, 16, matmulAVX512F64},
	{AVX2, tensor.F32, 16, matmulAVX2F32},
	{AVX2, tensor.F64, 8, matmulAVX2F64},
}
