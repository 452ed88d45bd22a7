//go:build !amd64

package cpu

var matmulDotRows []Row[MatmulRow]
