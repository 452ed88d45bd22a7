//go:build !amd64

package cpu

var (
	matmulTypes   []matmulType
	matmulDotRows []Row[MatmulRow]
	matmulBatches []matmulBatchKernel
)
