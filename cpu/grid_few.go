package cpu

import "unsafe"

// The input's gradient of images with so few positions that no pixel has a full chunk: nothing is
// counted, and sums lie in the gradient itself. A block has the positions of several images.

// More channels, which go side by side, and more positions gain by vectors.
const (
	fewChannels  = 4
	fewPositions = ChunkSize / 2
)

// TakesFew reports whether a scatter's Few takes images of so many channels and positions, whose
// gradients lie so.
func TakesFew[C Compute](g *Sampler, out Image, channels, positions int64) bool {
	return g.Mode == Bilinear && positions <= fewPositions && channels <= fewChannels &&
		out.DType.Size() == int64(unsafe.Sizeof(C(0))) && out.compact(g.Size, g.Dims) && takesPixels[C](g)
}

// addFew is Few by kernels.
func addFew[C Compute](k *gridKernel, b *GridBlock) {
	joined := b.Joined
	b.Joined = Joined{} // places are those in an image
	c := locatePixels[C](k.cells(), b, noSlopes)
	b.Joined = joined
	images, each, taps := max(1, joined.Images), b.N, 1<<b.Dims
	if joined.Images > 0 {
		each = joined.Each
	}
	for channel := range b.Channels {
		dy := fewGradients[C](b, channel)
		for image := range images {
			pixels := (*C)(unsafe.Add(b.Input.Channel(channel), int64(image)*joined.Input))
			sums, first := unsafe.Slice(pixels, b.Size[0]*b.Size[1]*b.Size[2]), image*each
			clear(sums)
			addPositions(sums, dy[first:][:each], c, first, taps)
		}
	}
}

// addPositions adds what positions from a first one on contribute to the pixels of their taps, 4 or 8.
func addPositions[C Compute](sums, dy []C, c *gridCells, first, taps int) {
	places := (*[8][cellPitch]int32)(unsafe.Pointer(placesOf[C](c)))
	weights := (*[8][cellPitch]C)(unsafe.Pointer(planeOf[C](c, planeWeight)))
	for k, g := range dy {
		i := first + k
		for tap := 0; tap < taps; tap += 4 {
			p, w := (*[4][cellPitch]int32)(places[tap&4:]), (*[4][cellPitch]C)(weights[tap&4:])
			if at := int(p[0][i]); at >= 0 {
				sums[at] += C(g * w[0][i])
			}
			if at := int(p[1][i]); at >= 0 {
				sums[at] += C(g * w[1][i])
			}
			if at := int(p[2][i]); at >= 0 {
				sums[at] += C(g * w[2][i])
			}
			if at := int(p[3][i]); at >= 0 {
				sums[at] += C(g * w[3][i])
			}
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
