package cpu

var weightKernels = []weightKernel{
	{AVX512, stripeProductsAVX512, dequantizeGroupsAVX512S8, dequantizeGroupsAVX512U8},
	{AVX2, stripeProductsAVX2, dequantizeGroupsAVX2S8, dequantizeGroupsAVX2U8},
}
