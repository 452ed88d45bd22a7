package cpu

import "github.com/isobit-ml/isobit/tensor"

var gridKernels = []gridKernel{
	{AVX512, tensor.F32, 16, gridLocateAVX512, gridPlaceAVX512, gridSampleAVX512F32, gridTermsAVX512F32, gridCombineAVX512, gridDoubleAVX512F32, gridBendAVX512, turnTileAVX512F32, turnTileAVX512F32},
	{AVX512, tensor.BF16, 16, gridLocateAVX512, gridPlaceAVX512, gridSampleAVX512BF16, gridTermsAVX512BF16, gridCombineAVX512, gridDoubleAVX512BF16, gridBendAVX512, turnTileAVX512BF16, turnTileAVX512F32},
	{AVX512, tensor.F16, 16, gridLocateAVX512, gridPlaceAVX512, gridSampleAVX512F16, gridTermsAVX512F16, gridCombineAVX512, gridDoubleAVX512F16, gridBendAVX512, turnTileAVX512F16, turnTileAVX512F32},
	{needs: AVX512, dtype: tensor.F64}, // by gathers alone
	{AVX2, tensor.F32, 8, gridLocateAVX2, gridPlaceAVX2, gridSampleAVX2F32, gridTermsAVX2F32, gridCombineAVX2, gridDoubleAVX2F32, gridBendAVX2, turnTileAVX2F32, turnTileAVX2F32},
	{AVX2, tensor.BF16, 8, gridLocateAVX2, gridPlaceAVX2, gridSampleAVX2BF16, gridTermsAVX2BF16, gridCombineAVX2, gridDoubleAVX2BF16, gridBendAVX2, turnTileAVX2BF16, turnTileAVX2F32},
	{AVX2, tensor.F16, 8, gridLocateAVX2, gridPlaceAVX2, gridSampleAVX2F16, gridTermsAVX2F16, gridCombineAVX2, gridDoubleAVX2F16, gridBendAVX2, turnTileAVX2F16, turnTileAVX2F32},
	{needs: AVX2, dtype: tensor.F64},
}

// The kernels of small images.
var framedKernels = []framedKernel{
	{AVX512, gridFramedLocateAVX512, gridFramedPlaceAVX512, gridFramedSampleAVX512, gridFramedSlopeAVX512},
	{AVX2, gridFramedLocateAVX2, gridFramedPlaceAVX2, gridFramedSampleAVX2, gridFramedSlopeAVX2},
}

var gridFramedQuads = []framedQuad{gridFramedQuad2, gridFramedQuad3, gridFramedQuad4}

var gridFramedAdds = []framedAdd{gridFramedAdd1, gridFramedAdd2, gridFramedAdd3, gridFramedAdd4}
