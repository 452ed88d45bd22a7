package cpu

import "unsafe"

// Few positions in images of 16 bits, whose sums are of 32: pixels that have contributions are numbered, their sums
// lie one after the other, and are stored in the cleared gradient when all are there.

// fewSums has what images need. Of several in a block, pixels are numbered on.
type fewSums struct {
	numbers [mostFewPixels]uint32 // of a pixel of the image at hand: its number, if that is one of this pixel
	pixels  [mostFewSums]int32    // of a number
	count   [mostFewSums]uint8    // contributions, modulo ChunkSize
	first   [Block + 1]int        // number of each image
	stored  [mostFewSums]uint16   // a channel's sums
	sums    [mostFewChannels]float32
}

const (
	mostFewPixels   = 1 << 15
	mostFewSums     = 1 << 13
	fewestPixels    = 8       // for each sum: with fewer, adding the channels of a position at once takes less time
	mostFewChannels = 1 << 15 // sums of all channels of an image with several blocks
)

// There is room for them.
const _ = uint(unsafe.Sizeof(Scratch{}.columns) - unsafe.Sizeof(fewSums{}))

// takesFewPixels is TakesFew of images of 16 bits.
func takesFewPixels(g *Sampler, out Image, channels, positions int64) bool {
	pixels, sums := g.Size[0]*g.Size[1]*g.Size[2], positions*int64(g.Taps())
	room := sums <= mostFewSums && (positions <= ChunkSize || channels*sums <= mostFewChannels)
	return g.Mode != Bicubic && room && pixels <= mostFewPixels && sums*fewestPixels <= pixels && out.compact(g.Size, g.Dims) && takesPixels[float32](g)
}

// addFewPixels is Few of images of 16 bits.
func addFewPixels(k *gridKernel, b *GridBlock, positions int64) bool {
	g, t, done := k.cells(), typeFor(k.needs, k.dtype), &b.found.few
	m := (*fewSums)(unsafe.Pointer(&b.Scratch.columns))
	c, images, each := locateFew[float32](g, b)
	before, room := done.pixels, int(positions)*b.Taps()
	if done.pixels = m.number(b, c, images, each, before); done.pixels < 0 {
		return false
	}
	done.positions += int64(each)
	many := positions > int64(each)
	for channel := range b.Channels {
		first := 0 // of the channel's sums
		if many {
			first = int(channel) * room
		}
		sums := m.sums[first:][:done.pixels]
		clear(sums[before:])
		dy := BlockOf[float32](b.Scratch, tapBlocks+1, b.N)
		loadRow(t, dy, fewGradients(b, channel))
		g.fewAddOf(b)(c.start(), b.N, 1, (*byte)(unsafe.Pointer(&m.sums[first])), 0, (*byte)(unsafe.Pointer(&dy[0])))
		if done.positions == positions {
			m.store(t, b, channel, images, sums)
		}
	}
	return true
}

// number replaces a block's places by numbers of pixels, which go on from those before, and returns how many there
// are; or -1 if a pixel has a full chunk.
func (m *fewSums) number(b *GridBlock, c *gridCells, images, each, known int) int {
	begin := 0 // of the image
	for image := range images {
		if image > 0 {
			begin = known
		}
		m.first[image] = begin
		for tap := range b.Taps() {
			places := placesOfTap[float32](c, tap)[image*each:][:each]
			for i, p := range places {
				if p < 0 {
					continue
				}
				at := int(m.numbers[p])
				if at < begin || at >= known || m.pixels[at] != p {
					at = known
					known++
					m.numbers[p], m.pixels[at], m.count[at] = uint32(at), p, 0
				}
				if m.count[at]++; m.count[at] == 0 {
					return -1
				}
				places[i] = int32(at)
			}
		}
	}
	m.first[images] = known
	return known
}

// store stores the sums of a channel.
func (m *fewSums) store(t *gatherType, b *GridBlock, channel int64, images int, sums []float32) {
	storeRow(t, Span{unsafe.Pointer(&m.stored), t.dtype.Size(), t.dtype}, sums)
	pixels := b.Size[0] * b.Size[1] * b.Size[2]
	for image := range images {
		plane := unsafe.Slice((*uint16)(unsafe.Add(b.Input.Channel(channel), int64(image)*b.Joined.Input)), pixels)
		clear(plane)
		numbers := m.pixels[m.first[image]:m.first[image+1]]
		for i, v := range m.stored[m.first[image]:][:len(numbers)] {
			plane[numbers[i]] = v
		}
	}
}
