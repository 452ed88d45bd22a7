package cpu

import "github.com/isobit-ml/isobit/tensor"

var gridKernels = []gridKernel{
	{
		needs:   AVX512,
		dtype:   tensor.F32,
		lanes:   16,
		locate:  gridLocateAVX512,
		place:   gridPlaceAVX512,
		sample:  gridSampleAVX512F32,
		terms:   gridTermsAVX512F32,
		combine: gridCombineAVX512,
		double:  gridDoubleAVX512F32,
		bend:    gridBendAVX512,
		turn:    turnTileAVX512F32,
		turn32:  turnTileAVX512F32,
	},
	{
		needs:   AVX512,
		dtype:   tensor.BF16,
		lanes:   16,
		locate:  gridLocateAVX512,
		place:   gridPlaceAVX512,
		sample:  gridSampleAVX512BF16,
		terms:   gridTermsAVX512BF16,
		combine: gridCombineAVX512,
		double:  gridDoubleAVX512BF16,
		bend:    gridBendAVX512,
		turn:    turnTileAVX512BF16,
		turn32:  turnTileAVX512F32,
	},
	{
		needs:   AVX512,
		dtype:   tensor.F16,
		lanes:   16,
		locate:  gridLocateAVX512,
		place:   gridPlaceAVX512,
		sample:  gridSampleAVX512F16,
		terms:   gridTermsAVX512F16,
		combine: gridCombineAVX512,
		double:  gridDoubleAVX512F16,
		bend:    gridBendAVX512,
		turn:    turnTileAVX512F16,
		turn32:  turnTileAVX512F32,
	},
	{needs: AVX512, dtype: tensor.F64}, // by gathers alone
	{
		needs:   AVX2,
		dtype:   tensor.F32,
		lanes:   8,
		locate:  gridLocateAVX2,
		place:   gridPlaceAVX2,
		sample:  gridSampleAVX2F32,
		terms:   gridTermsAVX2F32,
		combine: gridCombineAVX2,
		double:  gridDoubleAVX2F32,
		bend:    gridBendAVX2,
		turn:    turnTileAVX2F32,
		turn32:  turnTileAVX2F32,
	},
	{
		needs:   AVX2,
		dtype:   tensor.BF16,
		lanes:   8,
		locate:  gridLocateAVX2,
		place:   gridPlaceAVX2,
		sample:  gridSampleAVX2BF16,
		terms:   gridTermsAVX2BF16,
		combine: gridCombineAVX2,
		double:  gridDoubleAVX2BF16,
		bend:    gridBendAVX2,
		turn:    turnTileAVX2BF16,
		turn32:  turnTileAVX2F32,
	},
	{
		needs:   AVX2,
		dtype:   tensor.F16,
		lanes:   8,
		locate:  gridLocateAVX2,
		place:   gridPlaceAVX2,
		sample:  gridSampleAVX2F16,
		terms:   gridTermsAVX2F16,
		combine: gridCombineAVX2,
		double:  gridDoubleAVX2F16,
		bend:    gridBendAVX2,
		turn:    turnTileAVX2F16,
		turn32:  turnTileAVX2F32,
	},
	{needs: AVX2, dtype: tensor.F64},
}

// The kernels of small images.
var framedKernels = []framedKernel{
	{AVX512, gridFramedLocateAVX512, gridFramedPlaceAVX512, gridFramedSampleAVX512, gridFramedSlopeAVX512},
	{AVX2, gridFramedLocateAVX2, gridFramedPlaceAVX2, gridFramedSampleAVX2, gridFramedSlopeAVX2},
}

var gridFramedQuads = []framedQuad{gridFramedQuad2, gridFramedQuad3, gridFramedQuad4}

var gridFramedAdds = []framedAdd{gridFramedAdd1, gridFramedAdd2, gridFramedAdd3, gridFramedAdd4}
