package cpu

import (
	"unsafe"

	"github.com/isobit-ml/isobit/tensor"
)

// How a block of cells lies in memory.

// The planes of a block of cells, as internal/gen/grid.go names them: of the
// compute type up to planePair, then words of 32 bits. Truth values are 0 and -1.
const (
	planeParams = 0
	planeCoord  = 1 // x, y, z
	planeWeight = planeCoord + 3
	planeS      = planeWeight + 8
	planeT      = planeS + 3
	planeK      = planeT + 3
	planeLive   = planeK + 3
	planeSums   = planeLive + 1
	planeGrad   = planeSums + 12
	planePair   = planeGrad + 3
	// Behind the integers of gathers come the planes of bicubic alone, in f64, too:
	// weights, controls, offsets, windows (internal/gen/grid_cubic.go).
	planeCubic = planePair + 10
	gridPlanes = 2 * (planeCubic + 3*2*cubicTaps + cubicTaps + 3*cubicTaps + cubicTaps*cubicTaps)
)

// The words of the plane of parameters, as internal/gen/grid.go names them. First
// numbers of the compute type, three each: of x, y and z.
const (
	paramScale = 3 * iota
	paramShift
	paramFactor
	paramK
	paramSize
	paramLast
	paramPair
	paramFold
	paramSpan
	paramLow
	paramHigh
	paramBeyond
)

// Behind them integers.
const (
	paramPitch = 96 + iota
	paramPlane
	paramMode
	paramFirst
	paramPixels
	paramOrigin
	paramStep
	paramEnd    = paramStep + 8
	paramWindow = paramEnd + 3
	paramSlopes = paramWindow + 1
	paramHalf   = paramSlopes + 1
)

// kindOfHalf returns the number of a type of 16 bits, as internal/gen's anyHalf has them.
func kindOfHalf(d tensor.DType) uint32 { return wordOf(d == tensor.BF16) }

func wordOf(b bool) uint32 {
	if b {
		return 1
	}
	return 0
}

type gridCells [gridPlanes][cellPitch]uint32

// cellPitch is the distance of planes. It is no large power of 2: elements that
// far apart compete for the same lines of a cache.
const cellPitch = Block + 16

func cellsOf(s *Scratch) *gridCells { return (*gridCells)(s.block(cellBlocks)) }

func (c *gridCells) floats(plane int) *[Block]float32 {
	return (*[Block]float32)(unsafe.Pointer(&c[plane]))
}

func (c *gridCells) start() *byte { return (*byte)(unsafe.Pointer(c)) }
