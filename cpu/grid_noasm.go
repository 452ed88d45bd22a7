//go:build !amd64

package cpu

// gridKernels are the generated kernels of grid_sample: none here.
var gridKernels []gridKernel
