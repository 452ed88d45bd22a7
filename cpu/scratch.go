package cpu

import "unsafe"

// The numbers of a scratch's blocks that several functions of an op know. A run is of one op, so each
// counts from 0; what one function alone uses, with the numbers below these, stands there.

// Of ops over grouped elements: an operand each (forBlocks), then the codes of lessZero. Extremes
// of groups are folded behind the two results.
const (
	lessZeroBlock = MaxInputs + MaxOutputs
	groupBlock    = 3
)

// Of grid_sample's definition. What lies in parts of blocks (see part) takes no more for the 64 taps of a
// volume than for 16, nor for three axes than for two.
const (
	tapWeights  = 0 // their pixels are in the integer blocks, of which there are as many
	pixelBlocks = maxTaps * (Block / 4) / Block
	axisBlocks  = tapWeights + pixelBlocks // taps' Fraction, Complement and Derivative
	cubicBlocks = axisBlocks + 3*3
	tapBlocks   = cubicBlocks + 2*2*cubicTaps // the result, the upstream gradient, then pixels of 8 taps
	sumBlocks   = tapBlocks + 10              // of channelSums

	cubicSumBlocks = tapBlocks + 2 // in place of pixels: those of a tap, sums of rows, of planes

	secondBlocks = sumBlocks + 12*(levels+1) // the coordinates' tangents
	shiftBlocks  = secondBlocks + 3          // q
	slopeBlocks  = shiftBlocks + 3           // by the grid
	resultBlock  = slopeBlocks + 3
	onesBlock    = resultBlock + 1
	slopeBlock   = onesBlock + 1
	bendBlocks   = slopeBlock + 1
)

// Of grid_sample's kernels: from 0 on pixels and weights of bicubic taps, from tapBlocks on a row of upstream
// gradients for each of 16 channels.
const (
	cubicPitch    = Block/cubicTaps + cellPitch - Block
	cubicProducts = (maxTaps*cubicPitch*4 + blockBytes - 1) / blockBytes // weights, behind pixels

	cellBlocks       = 60                                                            // behind those rows
	termBlocks       = cellBlocks + (gridPlanes*cellPitch*4+blockBytes-1)/blockBytes // of a group of channels
	transposedBlocks = termBlocks + 6                                                // upstream gradients of 16 channels
)

// Of affine_grid's kernels, behind pieces.
const (
	affineBuffer  = 8
	affinePattern = affineBuffer + 3*affineChunk/Block
	affineLanes   = affinePattern + 1
)

// Of codes' weights: parameters of kernels, then what the definition makes a row's weights of.
const (
	scaleBlocks  = 10
	zeroBlocks   = scaleBlocks + mostScales*4/blockBytes + 1
	codeChunks   = 40 // of a long bag of codes
	weightBlocks = 100
)

// Of the integer blocks. Definitions that list rows or positions have the first ones, but of those that
// prefetch none has the second.
const (
	codeStarts        = 2                                            // where bags of codes begin
	unreadInts        = 1                                            // what prefetch has read, where there is no assembly
	linearCorrections = LinearPanel * LinearColumns * 4 / blockBytes // of quantized_linear, behind a tile's sums of 32 bits
	linearRestSums    = linearCorrections + 1                        // of what kernels leave of K
	linearRests       = 2*linearCorrections + 1                      // copies of that
)

const (
	blockBytes    = Block * 8
	scratchBlocks = transposedBlocks + squareSide // which are the most
)

// There is room for all of them: a negative number would not compile.
const (
	_ = uint(codeChunks - (2*zeroBlocks - scaleBlocks)) // zero points end before them
	_ = uint(int(unsafe.Sizeof(Scratch{}.weights.tile)) - storedAt)
	_ = uint(sumBlocks - cubicSumBlocks - 4 - (mostCubic+3)/4)
	_ = uint(tapBlocks - cubicProducts - (maxTaps*cubicPitch*8+blockBytes-1)/blockBytes)
	_ = uint(cellBlocks - tapBlocks - squareSide) // a row for each channel of a square
	_ = uint(scratchBlocks - bendBlocks - 2*cubicTaps)
)

// Scratch is a worker's private memory, so that running never allocates. Where one begins at a multiple of a cache line,
// so does all that kernels read and write vectors of: no vector lies across two lines.
type Scratch struct {
	blocks  [scratchBlocks][Block]float64
	ints    [2 * pixelBlocks][Block]int64
	lanes   [weightTreeRows][Lanes + laneSlack]float64
	tree32  [weightTreeRows]Tree[float32]
	tree64  [weightTreeRows]Tree[float64]
	Tile    ParamTile
	columns [2][Lanes*MaxColumns + columnSlack]float64 // accumulators of groups side by side, or of an image's pixels
	// Of generated kernels.
	params [2][paramBlock]float64
	zeros  [paramBlock]float64 // an absent data input
	unused [paramBlock]float64 // an absent output

	runs     runParams                       // of many runs
	quick    quickMemory                     // quick_columns.go
	_        [8]float64                      // zeros, which kernels that step back add to zeros
	groups   [MaxGroupRuns][2][Lanes]float64 // the lanes of many groups
	weights  weightScratch
	gathered gatherScratch
	doubles  doubleScratch
	groupsOf columnGroups
	part     struct { // assembly_tail.go
		memory [5][partSize * 8]byte
		call   kernelCall
	}
	operands32 operands[float32]
	operands64 operands[float64]
	short      GridBlock // grid_short.go
	group      groupRun  // quantized_linear_groups_amd64.go
}

// BlockOf returns the first n elements of the scratch block with a number.
func BlockOf[C Compute](s *Scratch, number, n int) []C {
	return unsafe.Slice((*C)(s.block(number)), n)
}

// block returns where the block with a number begins.
func (s *Scratch) block(number int) unsafe.Pointer { return unsafe.Pointer(&s.blocks[number]) }

// Ints returns the first n elements of the integer block with a number.
func (s *Scratch) Ints(number, n int) []int64 { return s.ints[number][:n] }

// ofCompute returns the one of two pointers that belongs to C.
func ofCompute[C Compute, F any](f32, f64 any) *F {
	if unsafe.Sizeof(C(0)) == 8 {
		return f64.(*F)
	}
	return f32.(*F)
}

// absent is where an absent data operand lies: zeros, or room.
func (s *Scratch) absent(number int) unsafe.Pointer {
	if number < MaxInputs {
		return unsafe.Pointer(&s.zeros)
	}
	return unsafe.Pointer(&s.unused)
}
