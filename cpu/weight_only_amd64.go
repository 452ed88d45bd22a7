package cpu

var weightKernels = []weightKernel{
	{AVX512, stripeProductsAVX512},
	{AVX2, stripeProductsAVX2},
}
