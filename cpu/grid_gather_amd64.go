package cpu

import "github.com/isobit-ml/isobit/tensor"

// The kernels of gathers.
var gatherTypes = []gatherType{
	{AVX512, tensor.F32, gatherSampleAVX512F32, gatherCopy32AVX512, [2]gridTerms{gatherTerms2AVX512F32, gatherTerms3AVX512F32}, cubicTypesAVX512F32, nil, nil},
	{AVX512, tensor.F64, gatherSampleAVX512F64, gatherCopy64AVX512, [2]gridTerms{gatherTerms2AVX512F64, gatherTerms3AVX512F64}, cubicTypesAVX512F64, nil, nil},
	{AVX512, tensor.BF16, gatherSampleAVX512BF16, gatherCopy16AVX512, [2]gridTerms{gatherTerms2AVX512BF16, gatherTerms3AVX512BF16}, cubicTypesAVX512BF16, widenRowAVX512BF16, narrowRowAVX512BF16},
	{AVX512, tensor.F16, gatherSampleAVX512F16, gatherCopy16AVX512, [2]gridTerms{gatherTerms2AVX512F16, gatherTerms3AVX512F16}, cubicTypesAVX512F16, widenRowAVX512F16, narrowRowAVX512F16},
	{AVX2, tensor.F32, gatherSampleAVX2F32, gatherCopy32AVX2, [2]gridTerms{gatherTerms2AVX2F32, gatherTerms3AVX2F32}, cubicTypesAVX2F32, nil, nil},
	{AVX2, tensor.F64, gatherSampleAVX2F64, gatherCopy64AVX2, [2]gridTerms{gatherTerms2AVX2F64, gatherTerms3AVX2F64}, cubicTypesAVX2F64, nil, nil},
	{AVX2, tensor.BF16, gatherSampleAVX2BF16, gatherCopy16AVX2, [2]gridTerms{gatherTerms2AVX2BF16, gatherTerms3AVX2BF16}, cubicTypesAVX2BF16, widenRowAVX2BF16, narrowRowAVX2BF16},
	{AVX2, tensor.F16, gatherSampleAVX2F16, gatherCopy16AVX2, [2]gridTerms{gatherTerms2AVX2F16, gatherTerms3AVX2F16}, cubicTypesAVX2F16, widenRowAVX2F16, narrowRowAVX2F16},
}

var (
	gridNearestAdds32 = [maxQuad]nearestAdd{gridNearestAdd1F32, gridNearestAdd2F32, gridNearestAdd3F32, gridNearestAdd4F32}
	gridNearestAdds64 = [maxQuad]nearestAdd{gridNearestAdd1F64, gridNearestAdd2F64, gridNearestAdd3F64, gridNearestAdd4F64}
)

// Those of a compute type.
var gatherCells = []gatherCell{
	{
		needs: AVX512, compute: tensor.F32, lanes: 16,
		split:   [2]gridSplit{gatherSplit2AVX512F32, gatherSplit3AVX512F32},
		join:    gatherJoinAVX512F32,
		locate:  [2]cellKernel{gatherLocate2AVX512F32, gatherLocate3AVX512F32},
		nearest: [2]cellKernel{gatherNearest2AVX512F32, gatherNearest3AVX512F32},
		combine: [2]cellKernel{gatherCombine2AVX512F32, gatherCombine3AVX512F32},
		cubic:   cubicCellsAVX512F32,
		band:    gatherBandAVX512,
		add:     [5]tapAdd{gridTapAdd1F32, gridTapAdd4F32, gridTapAdd8F32, gridTapAdd12F32, gridTapAdd16AVX512F32},
		few:     gridNearestAdds32,
	},
	{
		needs: AVX512, compute: tensor.F64, lanes: 8,
		split:   [2]gridSplit{gatherSplit2AVX512F64, gatherSplit3AVX512F64},
		join:    gatherJoinAVX512F64,
		locate:  [2]cellKernel{gatherLocate2AVX512F64, gatherLocate3AVX512F64},
		nearest: [2]cellKernel{gatherNearest2AVX512F64, gatherNearest3AVX512F64},
		combine: [2]cellKernel{gatherCombine2AVX512F64, gatherCombine3AVX512F64},
		cubic:   cubicCellsAVX512F64,
		band:    gatherBandAVX512,
		add:     [5]tapAdd{gridTapAdd1F64, gridTapAdd4F64, gridTapAdd8F64, gridTapAdd12F64, gridTapAdd16AVX512F64},
		few:     gridNearestAdds64,
	},
	{
		needs: AVX2, compute: tensor.F32, lanes: 8,
		split:   [2]gridSplit{gatherSplit2AVX2F32, gatherSplit3AVX2F32},
		join:    gatherJoinAVX2F32,
		locate:  [2]cellKernel{gatherLocate2AVX2F32, gatherLocate3AVX2F32},
		nearest: [2]cellKernel{gatherNearest2AVX2F32, gatherNearest3AVX2F32},
		combine: [2]cellKernel{gatherCombine2AVX2F32, gatherCombine3AVX2F32},
		cubic:   cubicCellsAVX2F32,
		band:    gatherBandAVX2,
		add:     [5]tapAdd{gridTapAdd1F32, gridTapAdd4F32, gridTapAdd8F32, gridTapAdd12F32, gridTapAdd16AVX2F32},
		few:     gridNearestAdds32,
	},
	{
		needs: AVX2, compute: tensor.F64, lanes: 4,
		split:   [2]gridSplit{gatherSplit2AVX2F64, gatherSplit3AVX2F64},
		join:    gatherJoinAVX2F64,
		locate:  [2]cellKernel{gatherLocate2AVX2F64, gatherLocate3AVX2F64},
		nearest: [2]cellKernel{gatherNearest2AVX2F64, gatherNearest3AVX2F64},
		combine: [2]cellKernel{gatherCombine2AVX2F64, gatherCombine3AVX2F64},
		cubic:   cubicCellsAVX2F64,
		band:    gatherBandAVX2,
		add:     [5]tapAdd{gridTapAdd1F64, gridTapAdd4F64, gridTapAdd8F64, gridTapAdd12F64, gridTapAdd16AVX2F64},
		few:     gridNearestAdds64,
	},
}
