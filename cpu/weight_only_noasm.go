//go:build !amd64

package cpu

var weightKernels []weightKernel
