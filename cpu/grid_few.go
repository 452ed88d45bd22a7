package cpu

import "unsafe"

// The input's gradient of images with few positions for their size: sums lie in the gradient itself, of types
// of 16 bits in memory of those pixels that have some (grid_few_pixels.go). A block has the positions of several
// images, or images have several blocks, of which pixels' contributions are counted: none has a full chunk.

// leastImage is what a small image takes as long as where each is a job by itself, in bytes of its channels.
const leastImage = 2048

// TakesFew reports whether a scatter's Few takes images of so many channels and positions, whose
// gradients lie so. Where there are more for an image's size, what is done for all channels of a position, or in
// a frame, takes less time than this; measured.
func TakesFew[C Compute](g *Sampler, out Image, channels, positions int64) bool {
	size, pixels := int64(unsafe.Sizeof(C(0))), g.Size[0]*g.Size[1]*g.Size[2]
	each := positions * min(channels+3, 64/size) * 3
	if g.Mode == Bilinear {
		each <<= g.Dims - 1
	}
	if positions > ChunkSize && (pixels > mostCounted || channels <= maxQuad && size == 4 && g.takes(g.Size[0])) {
		return false
	}
	if out.DType.Size() == 2 {
		return takesFewPixels(g, out, channels, positions)
	}
	if channels > maxQuad && pixels*size%smallestPage == 0 { // channels that other ways store side by side lie a large power of 2 apart
		each /= 2
	}
	return g.Mode != Bicubic && each <= max(leastImage/channels, pixels*size) &&
		out.DType.Size() == size && out.compact(g.Size, g.Dims) && takesPixels[C](g)
}

// mostCounted is how many pixels there is room to count contributions of.
const mostCounted = int64(unsafe.Sizeof(Scratch{}.columns[0]))

// fewBefore is what blocks of an image before this one did.
type fewBefore struct {
	positions int64
	pixels    int // that have sums
}

// addFew is Few by kernels.
func addFew[C Compute](k *gridKernel, b *GridBlock, positions int64) bool {
	g, done := k.cells(), &b.found.few.positions
	c, images, each := locateFew[C](g, b)
	if *done == 0 {
		clearImages[C](b, int64(images))
	}
	if positions > ChunkSize && !countFew[C](b, c, *done == 0) {
		return false
	}
	*done += int64(each)
	for channel := range b.Channels {
		dy := fewGradients(b, channel)
		g.fewAddOf(b)(c.start(), each, images, (*byte)(b.Input.Channel(channel)), int(b.Joined.Input), (*byte)(dy.P))
	}
	return true
}

// locateFew fills cells with places in an image, and returns how many images and positions of each there are.
func locateFew[C Compute](g *gatherCell, b *GridBlock) (c *gridCells, images, each int) {
	joined := b.Joined
	b.Joined = Joined{}
	c = locatePixels[C](g, b, noSlopes)
	b.Joined = joined
	if joined.Images > 0 {
		return c, joined.Images, joined.Each
	}
	return c, 1, b.N
}

func (g *gatherCell) fewAddOf(b *GridBlock) fewAdd {
	if b.Mode == Nearest {
		return g.addFew[0]
	}
	return g.addFew[b.Dims-1]
}

// countFew counts a block's contributions to pixels, and reports whether none has a full chunk.
func countFew[C Compute](b *GridBlock, c *gridCells, first bool) bool {
	count := unsafe.Slice((*uint8)(unsafe.Pointer(&b.Scratch.columns[0])), b.Size[0]*b.Size[1]*b.Size[2])
	if first {
		clear(count)
	}
	for tap := range b.Taps() {
		for _, p := range placesOfTap[C](c, tap)[:b.N] {
			if p < 0 {
				continue
			}
			if count[p]++; count[p] == 0 {
				return false
			}
		}
	}
	return true
}

// placesOfTap are the places of a tap.
func placesOfTap[C Compute](c *gridCells, tap int) *[cellPitch]int32 {
	return (*[cellPitch]int32)(unsafe.Add(unsafe.Pointer(placesOf[C](c)), tap*cellPitch*4))
}

// clearImages clears those that a block has all positions of: at once where nothing lies between them.
func clearImages[C Compute](b *GridBlock, images int64) {
	pixels, size := b.Size[0]*b.Size[1]*b.Size[2], int64(unsafe.Sizeof(C(0)))
	channels := b.Channels
	if channels == 1 || b.Input.ChannelStride == pixels*size {
		pixels, channels = channels*pixels, 1
	}
	if channels == 1 && b.Joined.Input == pixels*size {
		pixels, images = images*pixels, 1
	}
	for image := range images {
		for channel := range channels {
			clear(unsafe.Slice((*C)(unsafe.Add(b.Input.Channel(channel), image*b.Joined.Input)), pixels))
		}
	}
}

// fewGradients are a channel's upstream gradients, one image's after the other's.
func fewGradients(b *GridBlock, channel int64) Span {
	dy := b.GradOutput.Row(channel, 0)
	if b.apart(&b.GradOutput, b.Joined.GradOutput) || !dy.Contiguous() {
		copied := Span{b.Scratch.block(tapBlocks), dy.DType.Size(), dy.DType}
		b.copyParts(copied, int64(b.Joined.Each)*copied.Stride, dy, b.Joined.GradOutput)
		dy = copied
	}
	return dy
}
