package cpu

import "github.com/isobit-ml/isobit/tensor"

var affineKernels = []affineKernel{
	{
		AVX512, tensor.F32,
		[2]affineGridKernel{affineGrid2AVX512F32, affineGrid3AVX512F32},
		[2]affineSumsKernel{affineSums2AVX512F32, affineSums3AVX512F32},
		[2]affineSpreadKernel{affineSpread2AVX512F32, affineSpread3AVX512F32},
	},
	{
		AVX512, tensor.F64,
		[2]affineGridKernel{affineGrid2AVX512F64, affineGrid3AVX512F64},
		[2]affineSumsKernel{affineSums2AVX512F64, affineSums3AVX512F64},
		[2]affineSpreadKernel{affineSpread2AVX512F64, affineSpread3AVX512F64},
	},
	{
		AVX512, tensor.BF16,
		[2]affineGridKernel{affineGrid2AVX512BF16, affineGrid3AVX512BF16},
		[2]affineSumsKernel{affineSums2AVX512BF16, affineSums3AVX512BF16},
		[2]affineSpreadKernel{},
	},
	{
		AVX512, tensor.F16,
		[2]affineGridKernel{affineGrid2AVX512F16, affineGrid3AVX512F16},
		[2]affineSumsKernel{affineSums2AVX512F16, affineSums3AVX512F16},
		[2]affineSpreadKernel{},
	},
	{
		AVX2, tensor.F32,
		[2]affineGridKernel{affineGrid2AVX2F32, affineGrid3AVX2F32},
		[2]affineSumsKernel{affineSums2AVX2F32, affineSums3AVX2F32},
		[2]affineSpreadKernel{affineSpread2AVX2F32, affineSpread3AVX2F32},
	},
	{
		AVX2, tensor.F64,
		[2]affineGridKernel{affineGrid2AVX2F64, affineGrid3AVX2F64},
		[2]affineSumsKernel{affineSums2AVX2F64, affineSums3AVX2F64},
		[2]affineSpreadKernel{affineSpread2AVX2F64, affineSpread3AVX2F64},
	},
	{
		AVX2, tensor.BF16,
		[2]affineGridKernel{affineGrid2AVX2BF16, affineGrid3AVX2BF16},
		[2]affineSumsKernel{affineSums2AVX2BF16, affineSums3AVX2BF16},
		[2]affineSpreadKernel{},
	},
	{
		AVX2, tensor.F16,
		[2]affineGridKernel{affineGrid2AVX2F16, affineGrid3AVX2F16},
		[2]affineSumsKernel{affineSums2AVX2F16, affineSums3AVX2F16},
		[2]affineSpreadKernel{},
	},
}
