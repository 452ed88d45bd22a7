package cpu

import "github.com/isobit-ml/isobit/tensor"

var weightKernels = []weightKernel{
	{
		needs: AVX512, lanes: 16, together: 2, few: weightFewRows, masks: true, near: 1024, depth: 2048, sliced: true,
		shared: map[tensor.DType]weightCodes{
			tensor.S8: {weightStripesAVX512S8, packWeightsAVX512S8}, tensor.U8: {weightStripesAVX512U8, packWeightsAVX512U8},
			tensor.S4: {weightStripesAVX512Packed, packWeightsAVX512Packed}, tensor.U4: {weightStripesAVX512Packed, packWeightsAVX512Packed},
		},
		grouped: map[tensor.DType]weightCodes{
			tensor.S8: {weightGroupsAVX512S8, packGroupsAVX512S8}, tensor.U8: {weightGroupsAVX512U8, packGroupsAVX512U8},
			tensor.S4: {weightGroupsAVX512Packed, packGroupsAVX512Packed}, tensor.U4: {weightGroupsAVX512Packed, packGroupsAVX512Packed},
		},
		dequantize: map[tensor.DType]dequantizeGroups{tensor.S8: dequantizeGroupsAVX512S8, tensor.U8: dequantizeGroupsAVX512U8},
		tiles:      weightTilesAVX512, pack: packStripesAVX512, fold: foldTilesAVX512,
	},
	{
		needs: AVX2, lanes: 8, together: 1, few: 1, near: 1536, depth: weightLeastDepth,
		shared: map[tensor.DType]weightCodes{
			tensor.S8: {weightStripesAVX2S8, packWeightsAVX2S8}, tensor.U8: {weightStripesAVX2U8, packWeightsAVX2U8},
			tensor.S4: {weightStripesAVX2S4, nil}, tensor.U4: {weightStripesAVX2U4, nil},
		},
		grouped: map[tensor.DType]weightCodes{
			tensor.S8: {weightGroupsAVX2S8, packGroupsAVX2S8}, tensor.U8: {weightGroupsAVX2U8, packGroupsAVX2U8},
			tensor.S4: {weightGroupsAVX2S4, nil}, tensor.U4: {weightGroupsAVX2U4, nil},
		},
		dequantize: map[tensor.DType]dequantizeGroups{tensor.S8: dequantizeGroupsAVX2S8, tensor.U8: dequantizeGroupsAVX2U8},
		tiles:      weightTilesAVX2, pack: packStripesAVX2, fold: foldTilesAVX2,
		doubled: &doubleKernel{
			map[tensor.DType]doubleGroups{tensor.S8: dequantizeGroupsAVX2S8F64, tensor.U8: dequantizeGroupsAVX2U8F64}, weightDoublesAVX2,
		},
	},
}
