//go:build !amd64

package cpu

// normKernels are the generated kernels of rows' norms: none here.
var normKernels []normKernel
