//go:build !amd64

package cpu

// The generated kernels of grid_sample: none here.
var (
	gridKernels []gridKernel

	framedKernels   []framedKernel
	gridFramedAdds  []framedAdd
	gridFramedQuads []framedQuad

	gatherTypes []gatherType
	gatherCells []gatherCell
)

func gridFramedCount(*byte, int, *uint8) int { panic("no kernels") }

func gridFramedTurn(*float32, int, *float32, int, int) { panic("no kernels") }
