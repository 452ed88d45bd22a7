package cpu

import "github.com/isobit-ml/isobit/tensor"

var matmulTypes = []matmulType{
	newMatmulType(AVX512, tensor.F32, 16, matmulAVX512F32, matmulHalfAVX512F32, matmulWideAVX512F32, matmulTurnedAVX512F32, matmulTurnedWideAVX512F32, turnTileAVX512F32),
	newMatmulType(AVX512, tensor.BF16, 16, matmulAVX512BF16, matmulHalfAVX512BF16, matmulWideAVX512BF16, matmulTurnedAVX512BF16, matmulTurnedWideAVX512BF16, turnTileAVX512BF16),
	newMatmulType(AVX512, tensor.F16, 16, matmulAVX512F16, matmulHalfAVX512F16, matmulWideAVX512F16, matmulTurnedAVX512F16, matmulTurnedWideAVX512F16, turnTileAVX512F16),
	newMatmulType(AVX512, tensor.F64, 8, matmulAVX512F64, matmulHalfAVX512F64, matmulWideAVX512F64, matmulTurnedAVX512F64, matmulTurnedWideAVX512F64, turnTileAVX512F64),
	newMatmulType(AVX2, tensor.F32, 8, matmulAVX2F32, matmulHalfAVX2F32, matmulWideAVX2F32, matmulTurnedAVX2F32, matmulTurnedWideAVX2F32, turnTileAVX2F32),
	newMatmulType(AVX2, tensor.BF16, 8, matmulAVX2BF16, matmulHalfAVX2BF16, matmulWideAVX2BF16, matmulTurnedAVX2BF16, matmulTurnedWideAVX2BF16, turnTileAVX2BF16),
	newMatmulType(AVX2, tensor.F16, 8, matmulAVX2F16, matmulHalfAVX2F16, matmulWideAVX2F16, matmulTurnedAVX2F16, matmulTurnedWideAVX2F16, turnTileAVX2F16),
	newMatmulType(AVX2, tensor.F64, 4, matmulAVX2F64, matmulHalfAVX2F64, matmulWideAVX2F64, matmulTurnedAVX2F64, matmulTurnedWideAVX2F64, turnTileAVX2F64),
}

var matmulBatches = []matmulBatchKernel{
	{AVX512, tensor.F32, 16, matmulBatchAVX512F32},
	{AVX512, tensor.F64, 8, matmulBatchAVX512F64},
	{AVX2, tensor.F32, 8, matmulBatchAVX2F32},
	{AVX2, tensor.F64, 4, matmulBatchAVX2F64},
}
