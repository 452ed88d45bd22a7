package cpu

// The kernels of bicubic that take each axis by itself, of images and volumes.
var (
	axisCellsAVX512F32 = [2]axisCell{
		{axisLocate2AVX512F32, axisCombine2AVX512F32, axisPixels2AVX512F32},
		{axisLocate3AVX512F32, axisCombine3AVX512F32, axisPixels3AVX512F32},
	}
	axisCellsAVX512F64 = [2]axisCell{
		{axisLocate2AVX512F64, axisCombine2AVX512F64, axisPixels2AVX512F64},
		{axisLocate3AVX512F64, axisCombine3AVX512F64, axisPixels3AVX512F64},
	}
	axisCellsAVX2F32 = [2]axisCell{
		{axisLocate2AVX2F32, axisCombine2AVX2F32, axisPixels2AVX2F32},
		{axisLocate3AVX2F32, axisCombine3AVX2F32, axisPixels3AVX2F32},
	}
	axisCellsAVX2F64 = [2]axisCell{
		{axisLocate2AVX2F64, axisCombine2AVX2F64, axisPixels2AVX2F64},
		{axisLocate3AVX2F64, axisCombine3AVX2F64, axisPixels3AVX2F64},
	}
)

var (
	axisTypesAVX512F32  = [2]axisType{{axisSample2AVX512F32, axisTerms2AVX512F32}, {axisSample3AVX512F32, axisTerms3AVX512F32}}
	axisTypesAVX512F64  = [2]axisType{{axisSample2AVX512F64, axisTerms2AVX512F64}, {axisSample3AVX512F64, axisTerms3AVX512F64}}
	axisTypesAVX512BF16 = [2]axisType{{axisSample2AVX512BF16, axisTerms2AVX512BF16}, {axisSample3AVX512BF16, axisTerms3AVX512BF16}}
	axisTypesAVX512F16  = [2]axisType{{axisSample2AVX512F16, axisTerms2AVX512F16}, {axisSample3AVX512F16, axisTerms3AVX512F16}}
	axisTypesAVX2F32    = [2]axisType{{axisSample2AVX2F32, axisTerms2AVX2F32}, {axisSample3AVX2F32, axisTerms3AVX2F32}}
	axisTypesAVX2F64    = [2]axisType{{axisSample2AVX2F64, axisTerms2AVX2F64}, {axisSample3AVX2F64, axisTerms3AVX2F64}}
	axisTypesAVX2BF16   = [2]axisType{{axisSample2AVX2BF16, axisTerms2AVX2BF16}, {axisSample3AVX2BF16, axisTerms3AVX2BF16}}
	axisTypesAVX2F16    = [2]axisType{{axisSample2AVX2F16, axisTerms2AVX2F16}, {axisSample3AVX2F16, axisTerms3AVX2F16}}
)
