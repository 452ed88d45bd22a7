//go:build !amd64

package cpu

// affineKernels are the generated kernels of affine_grid: none here.
var affineKernels []affineKernel
