package cpu

import "unsafe"

// The input's gradient of images with so few positions that no pixel has a full chunk: nothing is
// counted, and sums lie in the gradient itself. A block has the positions of several images.

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
	if channels > maxQuad && pixels*size%smallestPage == 0 { // channels that other ways store side by side lie a large power of 2 apart
		each /= 2
	}
	return g.Mode != Bicubic && positions <= ChunkSize && each <= max(leastImage/channels, pixels*size) &&
		out.DType.Size() == size && out.compact(g.Size, g.Dims) && takesPixels[C](g)
}

// addFew is Few by kernels.
func addFew[C Compute](k *gridKernel, b *GridBlock) {
	g, joined := k.cells(), b.Joined
	b.Joined = Joined{} // places are those in an image
	c := locatePixels[C](g, b, noSlopes)
	b.Joined = joined
	images, each := max(1, joined.Images), b.N
	if joined.Images > 0 {
		each = joined.Each
	}
	add := g.addFew[0]
	if b.Mode != Nearest {
		add = g.addFew[b.Dims-1]
	}
	clearImages[C](b, int64(images))
	for channel := range b.Channels {
		dy := fewGradients[C](b, channel)
		add(c.start(), each, images, (*byte)(b.Input.Channel(channel)), int(joined.Input), (*byte)(unsafe.Pointer(&dy[0])))
	}
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
func fewGradients[C Compute](b *GridBlock, channel int64) []C {
	dy := b.GradOutput.Row(channel, 0)
	if b.apart(&b.GradOutput, b.Joined.GradOutput) || !dy.Contiguous() {
		copied := Span{b.Scratch.block(tapBlocks), dy.DType.Size(), dy.DType}
		b.copyParts(copied, int64(b.Joined.Each)*copied.Stride, dy, b.Joined.GradOutput)
		dy = copied
	}
	return unsafe.Slice((*C)(dy.P), b.N)
}
