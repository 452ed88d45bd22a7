package main

// How a block of cells of grid_sample lies in memory, which kernels and the Go that calls them both know:
// package cpu has a copy of this file.

// cellPitch is the distance of planes, in words. It is no large power of 2: elements that far apart
// compete for the same lines of a cache.
const cellPitch = 256 + 16

// cubicTaps is the number of bicubic's taps along an axis.
const cubicTaps = 4

// The planes. Those up to planePair are of the compute type, and every kernel's; of the others, words of 32
// bits, each has its own. Truth values are 0 and -1.
const (
	planeParams = 0
	planeCoord  = 1               // x, y, z
	planeWeight = planeCoord + 3  // of each tap
	planeS      = planeWeight + 8 // x, y, z
	planeT      = planeS + 3
	planeK      = planeT + 3
	planeLive   = planeK + 3     // gathers: 1 where a tap is inside, else 0
	planeSums   = planeLive + 1  // by axis, then by difference
	planeGrad   = planeSums + 12 // x, y, z

	planePair   = planeGrad + 3   // element of the input that the pair of the top row begins at
	planeInside = planePair + 1   // of each tap
	planeSwap   = planeInside + 4 // taps that lie elsewhere in the pairs; see taps
	planeEdge   = planeSwap + 4   // one word for each vector: some tap is outside
)

// The words of the plane of parameters. Numbers of the compute type come first,
// those of an axis beside each other.
const (
	paramScale = 3 * iota // the coordinate is ((g + 1) * scale - shift) * factor
	paramShift
	paramFactor
	paramK
	paramSize
	paramLast // size - 1
	paramPair // size - 2: the last pair
	paramFold // reflection: low and span
	paramSpan
	paramLow // of images with a frame: the first and the last cell
	paramHigh
	paramBeyond // bicubic: the pixel of coordinates that are infinite
)

// Then 32-bit integers.
const (
	paramPitch = 96 + iota // elements from one row to the next
	paramPlane             // and from one plane of a volume to the next
	paramMode
	paramFirst  // the band's first pixel
	paramPixels // its number of pixels
	paramOrigin // of images with a frame: the place of cell (-1, -1)

	paramStep = paramOrigin + 1 // gathers: elements from a cell's first tap to each of the eight
	paramEnd  = paramStep + 8   // and the last pixel along x, y, z

	paramWindow = paramEnd + 3    // bicubic: the last place that a window may have, or -1
	paramSlopes = paramWindow + 1 // whether slopes and distances, or bicubic weights' derivatives, are asked for
	paramHalf   = paramSlopes + 1 // of images of 16 bits: see anyHalf
)

// Of kernels that read each tap by itself, from planePair on.
const (
	planePlace   = 0 // of each tap
	planeOutside = 8 // one for each vector: which positions have a tap outside
	planeClamped = 9 // a tap's places, 0 for those outside
)

// Of bicubic, behind those, of the compute type.
const (
	cubicWeight  = planePair + planeClamped + 1 // of each axis: of its taps, then their derivatives
	cubicControl = cubicWeight + 3*2*cubicTaps  // which of a window's elements are taps, by windows
	cubicOffset  = cubicControl + cubicTaps     // of each axis and tap: elements from the channel's first
	cubicWindow  = cubicOffset + 3*cubicTaps    // the window's place, of each row of taps
)
