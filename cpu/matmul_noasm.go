//go:build !amd64

package cpu

var (
	matmulKernels, matmulTurnedKernels []matmulKernel
	matmulDotRows                      []Row[MatmulRow]
)
