//go:build !amd64

package cpu

var (
	matmulKernels, matmulHalfKernels, matmulTurnedKernels []matmulKernel

	matmulDotRows []Row[MatmulRow]
)
