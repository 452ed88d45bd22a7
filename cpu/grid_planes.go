package cpu

import (
	"unsafe"

	"github.com/isobit-ml/isobit/tensor"
)

// How a block of cells lies in memory: internal/gen/grid_planes.go names planes and parameters, for its
// kernels and for this package (z_grid_planes.go).

// kindOfHalf returns the number of a type of 16 bits, as internal/gen's anyHalf has them.
func kindOfHalf(d tensor.DType) uint32 { return wordOf(d == tensor.BF16) }

func wordOf(b bool) uint32 {
	if b {
		return 1
	}
	return 0
}

// gridPlanes is how many there are of words; the compute type may have two each.
const gridPlanes = 2 * (cubicWindow + cubicTaps*cubicTaps)

type gridCells [gridPlanes][cellPitch]uint32

// The gap between planes is for vectors that go on behind the last position.
const _ = uint(cellPitch - Block - wholeVectors)

func cellsOf(s *Scratch) *gridCells { return (*gridCells)(s.block(cellBlocks)) }

func (c *gridCells) floats(plane int) *[Block]float32 {
	return (*[Block]float32)(unsafe.Pointer(&c[plane]))
}

func (c *gridCells) start() *byte { return (*byte)(unsafe.Pointer(c)) }
