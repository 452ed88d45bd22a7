package kernel

import (
	"math"
	"unsafe"
)

// Gradients of convolutions' weights, of f32: a chain for each over the output's positions. Those of
// several channels are computed side by side, so that elements of a position are, too, in a frame of zeros.

// across is an image in such a frame.
type across[T Float] struct {
	*Conv
	line, positions int // of a line, and of all
}

func acrossOf[T Float](d *Conv) across[T] {
	line := d.W + 2*d.Pad[1]
	return across[T]{d, line, (d.H + 2*d.Pad[0]) * line}
}

// fits reports whether there is assembly for images of so many channels, and the frame is not much
// larger than they are.
func (a *across[T]) fits(channels int) bool {
	return hasAVX2() && isFloat32[T]() && a.hasElements() && a.positions <= 8*max(a.H*a.W, a.OH*a.OW) && a.positions*channels <= math.MaxInt32
}

// fill copies planes to the first lanes.
func (a *across[T]) fill(frame []T, lanes int, x []T, planes int) {
	for y := range a.H {
		at := (y+a.Pad[0])*a.line + a.Pad[1]
		sideBySide(frame[at*lanes:], lanes, x[y*a.W:], a.H*a.W, planes, a.W)
	}
}

// sideBySide copies rows, which begin a step apart, so that elements of a column lie side by side,
// those of the next one so many lanes on.
func sideBySide[T Float](to []T, lanes int, from []T, step, rows, columns int) {
	transposes[4][1](unsafe.Pointer(&to[0]), 4*int64(lanes), unsafe.Pointer(&from[0]), 4*int64(step), int64(rows), int64(columns))
}

// channelLanes is how many channels of a depthwise convolution are taken at a time.
const channelLanes = 8

func depthwiseWeights[T Float](d *Conv) bool {
	image := acrossOf[T](d)
	return d.C == d.Groups && d.O == d.Groups && image.fits(1)
}

// gradDepthwise computes those of depthwise convolutions, the sums of 8 images each.
func gradDepthwise[T Float](t Threads, d *Conv, scratch Scratch[T], sums, g, x []T) {
	_, _, k, p := d.sizes()
	image := acrossOf[T](d)
	blocks := (d.C + channelLanes - 1) / channelLanes
	t.For(d.parts()*blocks, images*channelLanes*k*p/16, 1, func(lo, hi int) {
		chains, doneChains := scratch((k + weightTapCount) * channelLanes)
		defer doneChains()
		up, doneUp := scratch(p * channelLanes)
		defer doneUp()
		frame, doneFrame := scratch(image.positions * channelLanes)
		defer doneFrame()
		clear(frame)
		for i := lo; i < hi; i++ {
			part, first := i/blocks, i%blocks*channelLanes
			channels := min(channelLanes, d.C-first)
			clear(chains)
			for n := part * images; n < min((part+1)*images, d.N); n++ {
				plane := n*d.C + first
				sideBySide(up, channelLanes, g[plane*p:], p, channels, p)
				image.fill(frame, channelLanes, x[plane*d.H*d.W:], channels)
				for tap := 0; tap < k; tap += weightTapCount {
					image.weightTaps(chains[tap*channelLanes:], tap, frame, up)
				}
			}
			for c := range channels {
				sum := sums[(part*d.C+first+c)*k:][:k]
				for tap := range sum {
					sum[tap] = chains[tap*channelLanes+c]
				}
			}
		}
	})
}

// weightTaps continues the chains of elements of the kernel from first on. Beyond the last one there
// is that once more.
func (a *across[T]) weightTaps(chains []T, first int, frame, up []T) {
	var at [weightTapCount]int // in bytes
	for i := range at {
		tap := min(first+i, a.KH*a.KW-1)
		at[i] = 4 * channelLanes * (tap/a.KW*a.Dilation[0]*a.line + tap%a.KW*a.Dilation[1])
	}
	right, down := a.Stride[1]*channelLanes, a.Stride[0]*a.line*channelLanes
	step := max(1, runLength/a.OW)
	for y := 0; y < a.OH; y += step {
		fastWeightTaps(chains, frame[y*down:], up[y*a.OW*channelLanes:], &at, a.OW, min(step, a.OH-y), right, down-a.OW*right)
	}
}

// denseWeights says of convolutions of several channels whether vectors of a row of the kernel, and
// of channels, are full enough; rows of many channels meet in a cache.
func denseWeights[T Float](d *Conv) bool {
	cg, _, _, _ := d.sizes()
	image := acrossOf[T](d)
	return d.Dilation[1] == 1 && cg > 1 && cg <= 64 && 5*inPanels(d.KW*cg) <= 8*d.KW*cg && image.fits(cg)
}

// convolveSteps is how many positions of an image are taken at a time.
const convolveSteps = 512

// gradDense computes those of such convolutions.
func gradDense[T Float](t Threads, d *Conv, scratch Scratch[T], sums, g, x []T) {
	cg, og, k, p := d.sizes()
	image := acrossOf[T](d)
	memory, done := scratch(p)
	defer done()
	at := slice[int32](memory)[:0]
	for y := range d.OH {
		for x := range d.OW {
			at = append(at, int32((y*d.Stride[0]*image.line+x*d.Stride[1])*cg))
		}
	}
	row, panel := inPanels(d.KW*cg), fastPanel()
	t.For(d.parts()*d.Groups, images*d.imageCost()/d.Groups, 1, func(lo, hi int) {
		chains, doneChains := scratch(d.KH * og * row) // [kernel row, output channel, kernel column and channel]
		defer doneChains()
		frame, doneFrame := scratch(image.positions*cg + convolvePanel)
		defer doneFrame()
		clear(frame)
		for i := lo; i < hi; i++ {
			part, group := i/d.Groups, i%d.Groups
			with := convolveAs(0)
			for n := part * images; n < min((part+1)*images, d.N); n++ {
				planes := n*d.Groups + group
				image.fill(frame, cg, x[planes*cg*d.H*d.W:], cg)
				for from := 0; from < p; from += convolveSteps {
					up, at := g[planes*og*p+from:], at[from:min(from+convolveSteps, p)]
					for kh := range d.KH {
						for j := 0; j < row; j += panel {
							fastConvolve(panel, RowMajor(up, p), og, frame[kh*d.Dilation[0]*image.line*cg+j:], at, RowMajor(chains[kh*og*row+j:], row), with)
						}
					}
					with = moreOf
				}
			}
			for o := range og {
				sum := sums[(part*d.O+group*og+o)*k:][:k]
				for kh := range d.KH {
					chain := chains[(kh*og+o)*row:][:d.KW*cg]
					for j, v := range chain {
						sum[(j%cg*d.KH+kh)*d.KW+j/cg] = v
					}
				}
			}
		}
	})
}
