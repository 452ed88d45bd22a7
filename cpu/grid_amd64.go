package cpu

// The kernels of small images.
var framedKernels = []framedKernel{
	{AVX512, gridFramedLocateAVX512, gridFramedSampleAVX512, gridFramedSlopeAVX512},
	{AVX2, gridFramedLocateAVX2, gridFramedSampleAVX2, gridFramedSlopeAVX2},
}

var gridFramedQuads = []framedQuad{gridFramedQuad2, gridFramedQuad3, gridFramedQuad4}

var gridFramedAdds = []framedAdd{gridFramedAdd1, gridFramedAdd2, gridFramedAdd3, gridFramedAdd4}
