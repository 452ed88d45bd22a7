package cpu

// The kernels of bicubic that take each axis by itself, of images and volumes.
var (
	cubicCellsAVX512F32 = [2]cubicCell{
		{gridCubicLocate2AVX512F32, gridCubicCombine2AVX512F32, gridCubicPlace2AVX512F32, gridCubicPixels2AVX512F32},
		{gridCubicLocate3AVX512F32, gridCubicCombine3AVX512F32, gridCubicPlace3AVX512F32, gridCubicPixels3AVX512F32},
	}
	cubicCellsAVX512F64 = [2]cubicCell{
		{gridCubicLocate2AVX512F64, gridCubicCombine2AVX512F64, gridCubicPlace2AVX512F64, gridCubicPixels2AVX512F64},
		{gridCubicLocate3AVX512F64, gridCubicCombine3AVX512F64, gridCubicPlace3AVX512F64, gridCubicPixels3AVX512F64},
	}
	cubicCellsAVX2F32 = [2]cubicCell{
		{gridCubicLocate2AVX2F32, gridCubicCombine2AVX2F32, gridCubicPlace2AVX2F32, gridCubicPixels2AVX2F32},
		{gridCubicLocate3AVX2F32, gridCubicCombine3AVX2F32, gridCubicPlace3AVX2F32, gridCubicPixels3AVX2F32},
	}
	cubicCellsAVX2F64 = [2]cubicCell{
		{gridCubicLocate2AVX2F64, gridCubicCombine2AVX2F64, gridCubicPlace2AVX2F64, gridCubicPixels2AVX2F64},
		{gridCubicLocate3AVX2F64, gridCubicCombine3AVX2F64, gridCubicPlace3AVX2F64, gridCubicPixels3AVX2F64},
	}
)

var (
	cubicTypesAVX512F32  = [2]cubicType{{gridCubicSample2AVX512F32, gridCubicTerms2AVX512F32}, {gridCubicSample3AVX512F32, gridCubicTerms3AVX512F32}}
	cubicTypesAVX512F64  = [2]cubicType{{gridCubicSample2AVX512F64, gridCubicTerms2AVX512F64}, {gridCubicSample3AVX512F64, gridCubicTerms3AVX512F64}}
	cubicTypesAVX512BF16 = [2]cubicType{{gridCubicSample2AVX512BF16, gridCubicTerms2AVX512BF16}, {gridCubicSample3AVX512BF16, gridCubicTerms3AVX512BF16}}
	cubicTypesAVX512F16  = [2]cubicType{{gridCubicSample2AVX512F16, gridCubicTerms2AVX512F16}, {gridCubicSample3AVX512F16, gridCubicTerms3AVX512F16}}
	cubicTypesAVX2F32    = [2]cubicType{{gridCubicSample2AVX2F32, gridCubicTerms2AVX2F32}, {gridCubicSample3AVX2F32, gridCubicTerms3AVX2F32}}
	cubicTypesAVX2F64    = [2]cubicType{{gridCubicSample2AVX2F64, gridCubicTerms2AVX2F64}, {gridCubicSample3AVX2F64, gridCubicTerms3AVX2F64}}
	cubicTypesAVX2BF16   = [2]cubicType{{gridCubicSample2AVX2BF16, gridCubicTerms2AVX2BF16}, {gridCubicSample3AVX2BF16, gridCubicTerms3AVX2BF16}}
	cubicTypesAVX2F16    = [2]cubicType{{gridCubicSample2AVX2F16, gridCubicTerms2AVX2F16}, {gridCubicSample3AVX2F16, gridCubicTerms3AVX2F16}}
)
