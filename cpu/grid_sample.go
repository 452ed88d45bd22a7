package cpu

import "unsafe"

// Image is one image, or volume, of a batch: channel c of a pixel lies
// ChannelStride*c bytes after channel 0, the pixel at (x, y, z) the sum of
// AxisStride times x, y, z after pixel 0.
type Image struct {
	Span          // element 0 and the storage type; its Stride is not used
	ChannelStride int64
	AxisStride    [3]int64
}

// Channel returns the start of channel c.
func (m Image) Channel(c int64) unsafe.Pointer { return unsafe.Add(m.P, c*m.ChannelStride) }

// compact reports whether a pixel's byte offset is its row-major number times the element size.
func (m Image) compact(size [3]int64, dims int) bool {
	stride := m.DType.Size()
	for axis := range dims {
		if size[axis] != 1 && m.AxisStride[axis] != stride {
			return false
		}
		stride *= size[axis]
	}
	return true
}

// offsets turns row-major pixel numbers into byte offsets.
func (m Image) offsets(dst, pixels []int64, g *Sampler) {
	size, compact := m.DType.Size(), m.compact(g.Size, g.Dims)
	for i, p := range pixels {
		switch {
		case p == outside:
			dst[i] = outside
		case compact:
			dst[i] = p * size
		default:
			dst[i] = m.offset(p, g)
		}
	}
}

// offset returns the byte offset of the pixel with a row-major number.
func (m Image) offset(pixel int64, g *Sampler) (bytes int64) {
	for axis := range g.Dims {
		bytes += pixel % g.Size[axis] * m.AxisStride[axis]
		pixel /= g.Size[axis]
	}
	return bytes
}

// GridBlock is a run of consecutive positions (along the innermost axis) of one
// image of a grid_sample, at most as many as the sampler takes.
type GridBlock struct {
	Sampler
	Input      Image
	Coords     [3]Span // grid coordinates x, y, z of the positions
	N          int     // positions
	Channels   int64
	GradOutput Rows // backward: row c is channel c of the positions
	Output     Rows // forward: likewise; backward: row a is the gradient of coordinate a
	Joined     Joined
	Second     SecondOrder
	Scratch    *Scratch
	found      foundBefore
}

// foundBefore is what the first block of a row of blocks finds out for those that follow.
type foundBefore struct {
	located located  // which parameters the cells hold
	known   bool     // takes and steps are set
	takes   bool     // kernels can read the input
	steps   [3]int64 // elements from a pixel to the next along x, y, z
	few     fewBefore
}

// located says for which kernels cells hold parameters; its zero value: for none.
type located struct {
	by     uint8
	slopes bool
}

const (
	locatedPairs = 1 + iota
	locatedFrame
	locatedInput
	locatedPixels
)

// isLocated reports whether the cells hold these parameters already, and notes that they will.
func (b *GridBlock) isLocated(by uint8, slopes bool) bool {
	was := b.found.located
	b.found.located = located{by, slopes}
	return was == b.found.located
}

// Begin begins a row of blocks, which differ in their positions alone.
func (b *GridBlock) Begin(s *Sampler, channels int64, scratch *Scratch) {
	b.Sampler, b.Channels, b.Scratch = *s, channels, scratch
	b.found = foundBefore{}
}

// GridSample samples all channels at the positions of one block: the sum of
// v * w over the taps, in order, from +0; with Nearest a copy; with Bicubic the
// rows of taps first, then planes.
var GridSample = gridRows(byCompute(gridSampleGo[float32], gridSampleGo[float64]),
	func(k *gridKernel, definition func(*GridBlock)) func(*GridBlock) {
		return func(b *GridBlock) { k.sampleBlock(b, definition) }
	})

func gridSampleGo[C Compute](b *GridBlock) {
	if b.Joined.Images > 0 {
		b.eachImage(gridSampleGo[C])
		return
	}
	t := newTaps[C](&b.Sampler, b.N, b.Scratch)
	locate(&b.Sampler, b.Coords, &t)
	for i := range t.Count {
		b.Input.offsets(t.Pixel[i], t.Pixel[i], &b.Sampler)
	}
	y := BlockOf[C](b.Scratch, tapBlocks+1, b.N)
	for c := range b.Channels {
		sampleChannel(b, &t, c, y)
		Store(b.Output.Row(c, 0), y)
	}
}

// sampleChannel samples a channel; the taps' pixels are offsets.
func sampleChannel[C Compute](b *GridBlock, t *taps[C], c int64, y []C) {
	v, plane := BlockOf[C](b.Scratch, tapBlocks, b.N), b.Input.Channel(c)
	switch b.Mode {
	case Nearest:
		gather(y, b.Input.DType, plane, t.Pixel[0])
	case Bicubic:
		cubicSums(b, t, c, [][3]int{{}}, [][]C{y})
	default:
		clear(y)
		for i := range t.Count {
			gather(v, b.Input.DType, plane, t.Pixel[i])
			for j, w := range t.Weight[i] {
				y[j] += C(v[j] * w) // a tap outside adds +0: the same as no term
			}
		}
	}
}
