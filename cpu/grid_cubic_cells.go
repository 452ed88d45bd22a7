package cpu

import (
	"math"
	"math/bits"
	"unsafe"

	"github.com/isobit-ml/isobit/tensor"
)

// What stands between bicubic grid_sample of images and its generated kernels
// (grid_axes.go has what takes volumes, f64 and images of other sizes). They take
// four neighbours of each row of taps at once, a window that is always inside
// the image. Where taps are others than a window's elements in order, cells say
// which.

// The planes of a block of cells, as internal/gen/grid_cubic.go names them.
const (
	cubicPlace   = planeImages
	cubicSelect  = cubicPlace + cubicTaps
	cubicControl = cubicSelect + cubicTaps
	cubicColumns = cubicControl + cubicTaps
	cubicRowsIn  = cubicColumns + cubicTaps
	cubicLive    = cubicRowsIn + cubicTaps
	cubicWeight  = cubicLive + 2
	cubicPixel   = cubicWeight + 4*cubicTaps
	cubicProduct = cubicPixel + cubicTaps*cubicTaps
)

// cubicKernel is a set of generated kernels for one type of images.
type cubicKernel struct {
	needs   ISA
	dtype   tensor.DType
	locate  func(cells *byte, n int)
	place   func(cells *byte, n int) // without what only the grid's gradient needs
	pixels  func(cells *byte, n int)
	combine func(cells *byte, n int)
	sample  func(cells *byte, n int, input, y *byte)
	terms   gridTerms
}

// cubic returns the kernels of the same instruction set and type.
func (k *gridKernel) cubic() *cubicKernel {
	for i := range cubicKernels {
		if cubicKernels[i].needs == k.needs && cubicKernels[i].dtype == k.dtype {
			return &cubicKernels[i]
		}
	}
	panic("no bicubic kernels")
}

// takesCubic is takes: of images, a row of which holds a window.
func (g *Sampler) takesCubic(pitch int64) bool {
	return g.Dims == 2 && g.Size[0] >= cubicTaps && max(g.Size[0], g.Size[1]) < 1<<24 && pitch >= 0 && max(pitch, g.Size[0])*g.Size[1] < 1<<30
}

func (k *gridKernel) takesCubic(b *GridBlock) bool {
	size := b.Input.DType.Size()
	return k.sample != nil && b.N >= k.lanes && b.Input.AxisStride[0] == size && b.Sampler.takesCubic(b.Input.AxisStride[1]/size)
}

// sampleCubic is sampleBlock with Bicubic; it reports whether it was possible.
func (k *gridKernel) sampleCubic(b *GridBlock) bool {
	if !k.takesCubic(b) || !b.Output.Contiguous() {
		return false
	}
	cubic, pitch := k.cubic(), b.Input.AxisStride[1]/b.Input.DType.Size()
	c := k.locateBlock(b, cubic.place, pitch, true)
	if !k.correct(c, b, pitch) {
		return false
	}
	for channel := range b.Channels {
		cubic.sample(c.start(), b.N, (*byte)(b.Input.Channel(channel)), (*byte)(b.Output.Row(channel, 0).P))
	}
	return true
}

// gradientCubic is gradientBlock with Bicubic.
func (k *gridKernel) gradientCubic(b *GridBlock) bool {
	if !k.takesCubic(b) || !b.GradOutput.Contiguous() {
		return false
	}
	cubic, pitch := k.cubic(), b.Input.AxisStride[1]/b.Input.DType.Size()
	c := k.locateBlock(b, cubic.locate, pitch, true)
	if !k.correct(c, b, pitch) {
		return false
	}
	for axis := range 2 {
		clear(c[planeSums+axis][:])
	}
	for first := int64(0); first < b.Channels; first += groupSize {
		cubic.terms(c.start(), b.N, (*byte)(b.Input.Channel(first)), int(b.Input.ChannelStride),
			(*byte)(b.GradOutput.Row(first, 0).P), int(b.GradOutput.RowStride), int(min(groupSize, b.Channels-first)),
			(*byte)(unsafe.Pointer(&b.Scratch.blocks[termBlocks])))
	}
	cubic.combine(c.start(), b.N)
	k.alignLast(c, b)
	k.storeGradients(c, b)
	return true
}

// addCubic is the scatter's Add with Bicubic.
func (k *gridKernel) addCubic(s *GridScatter[float32], b *GridBlock) bool {
	if !s.g.takesCubic(s.g.Size[0]) {
		return false
	}
	cubic := k.cubic()
	c := k.locateBlock(b, cubic.place, s.g.Size[0], false)
	if !k.correct(c, b, s.g.Size[0]) {
		return false
	}
	c[planeParams][paramFirst], c[planeParams][paramPixels] = uint32(s.band.First), uint32(s.band.Pixels)
	cubic.pixels(c.start(), b.N)
	pixels, weights := (*byte)(unsafe.Pointer(&c[cubicPixel])), (*byte)(unsafe.Pointer(&c[cubicProduct]))
	addTaps(k, cellsFor(k.needs, tensor.F32), s, b, pixels, weights, cubicTaps*cubicTaps, cellPitch)
	return true
}

// correct puts the taps that kernels have left to it into the cells. It
// reports whether the kernels can take them: the taps of a row lie in a window
// but where numbers are so large that neighbours are more than 1 apart.
func (k *gridKernel) correct(c *gridCells, b *GridBlock, pitch int64) bool {
	for v := 0; v < b.N; v += k.lanes {
		if c[planeEdge][v] == 0 {
			continue
		}
		for left := c[planeEdge][v+1]; left != 0; left &= left - 1 {
			if !c.correct(v+bits.TrailingZeros32(left), &b.Sampler, pitch) {
				return false
			}
		}
	}
	return true
}

// mostWhole is a number up to which every half is a float32.
const mostWhole = 1 << 22

// wholePlaces are cubicPlaces from a first place on that is smaller.
func (g *Sampler) wholePlaces(first int64, axis int) (at [cubicTaps]int64) {
	size := g.Size[axis]
	for i := range at {
		p := first + int64(i)
		switch {
		case uint64(p) < uint64(size):
		case g.Padding == Zeros:
			p = Outside
		case g.Padding == Border:
			p = min(max(p, 0), size-1)
		default:
			p = mirrored(p, size, g.AlignCorners)
		}
		at[i] = p
	}
	return at
}

// mirrored is the rule of reflection for whole numbers: the pixels lie there and
// back again, the first and the last one once with align_corners, else twice.
func mirrored(p, size int64, alignCorners bool) int64 {
	if alignCorners {
		if size == 1 {
			return 0
		}
		p = max(p, -p) % (2 * (size - 1))
		return min(p, 2*(size-1)-p)
	}
	p = max(p, -1-p) % (2 * size)
	return min(p, 2*size-1-p)
}

// correct does so for position i.
func (c *gridCells) correct(i int, g *Sampler, pitch int64) bool {
	const all, none = 1<<32 - 1, 0
	var at [2][cubicTaps]int64
	for axis := range at {
		x := c.floats(planeCoord + axis)[i]
		if x > -mostWhole && x < mostWhole {
			at[axis] = g.wholePlaces(int64(math.Floor(float64(x)))-1, axis)
			continue
		}
		places, t, finite := cubicPlaces(x, g, axis)
		if at[axis] = places; !finite {
			c[cubicLive+axis][i] = none
			weights, slopes := cubicWeights(t), cubicSlopes(t)
			for tap := range weights {
				plane := cubicWeight + 2*cubicTaps*axis + tap
				c.floats(plane)[i], c.floats(plane + cubicTaps)[i] = weights[tap], slopes[tap]
			}
		}
	}
	first, columns, rows := g.Size[0]-cubicTaps, uint32(none), uint32(none)
	for _, x := range at[0] {
		if x != Outside {
			first = min(first, x)
		}
	}
	for tap := range cubicTaps {
		element, inside := int64(0), uint32(none)
		if x := at[0][tap]; x != Outside {
			element, inside = x-first, all
		}
		if element >= cubicTaps {
			return false
		}
		c[cubicSelect+tap][i], c[cubicColumns+tap][i] = uint32(element), inside
		c[cubicControl+i%cubicTaps][i-i%cubicTaps+tap] = uint32(element)
		columns |= inside
		place, inside := first, uint32(none)
		if y := at[1][tap]; y != Outside {
			place, inside = y*pitch+first, all
		}
		c[cubicPlace+tap][i], c[cubicRowsIn+tap][i] = uint32(place), inside
		rows |= inside
	}
	for axis := range at {
		c[cubicLive+axis][i] &= columns & rows
	}
	return true
}
