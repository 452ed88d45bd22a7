package cpu

import (
	"cmp"
	"slices"
	"unsafe"

	"github.com/isobit-ml/isobit/tensor"
)

// GridScatter accumulates the gradient of a band of some channels of one
// image. The memory lies in the caller's workspace; see NewGridScatter.
type GridScatter[C Compute] struct {
	g        *Sampler
	band     GridBand
	pixels   unsafe.Pointer // sums of the band's pixels: those of a pixel's channels lie side by side
	channels int
	pitch    int            // elements from one pixel's, or one chunk's, sums to the next one's
	count    []uint8        // contributions to a pixel, modulo ChunkSize
	chunks   []chunk        // finished chunks, in the order they were finished
	sums     []C            // their sums: one per channel
	full     int            // chunks in use
	apart    unsafe.Pointer // memory for the planes of channels in a frame
	frame    framedSums     // where sums and counts lie, unless its start is nil
	most     int64          // the most contributions that there can be
	tiles    []uint64       // memory for touched
	touched  []uint64       // where there are few contributions: a bit for each tile of pixels whose sums have begun
	inPlace  bool           // sums lie where the gradient is stored
}

// GridBand is a run of an image's pixels, in row-major order.
type GridBand struct{ First, Pixels int64 }

// chunk is one full chunk of contributions to a pixel of the band.
type chunk struct{ pixel, number int64 }

// MaxScatterChannels bounds the channels that one scatter handles.
const MaxScatterChannels = 16

// scatterSizes are the bytes of each part of a scatter's memory, by the names of its fields.
type scatterSizes struct{ pixels, sums, chunks, count, apart, tiles int64 }

// scatterSizesOf leaves room for a frame around the band, however its sums lie.
func scatterSizesOf(g *Sampler, rows, contributions, channels, size int64) scatterSizes {
	width, pitch := g.Size[0], scatterPitch(channels)
	chunks, plane := contributions/ChunkSize, frameRows(width, 0, rows).plane
	align := func(n int64) int64 { return (n + 63) &^ 63 }
	apart := int64(0)
	if f := (framedSums{gridFrame: frameRows(width, 0, rows), channels: int(channels)}); g.Mode == Bilinear && g.Dims == 2 && size == 4 && f.planes() {
		apart = f.floats() * size
	}
	return scatterSizes{
		pixels: align(plane * pitch * size), sums: align(chunks * pitch * size), chunks: align(chunks * int64(unsafe.Sizeof(chunk{}))),
		count: align(plane), apart: align(apart), tiles: align(tilesOf(rows*width) * 8),
	}
}

// scatterPitch returns how many sums a pixel has room for: those of its channels,
// of several rounded up to whole vectors, as kernels take them.
func scatterPitch(channels int64) int64 {
	if channels == 1 {
		return 1
	}
	return (channels + 3) &^ 3
}

// GridScatterBytes returns the workspace of one scatter: of a band with the
// given number of rows, that many contributions and channels, and a compute
// type of the given size.
func GridScatterBytes(g *Sampler, rows, contributions, channels, size int64) int64 {
	n := scatterSizesOf(g, rows, contributions, channels, size)
	return n.pixels + n.sums + n.chunks + n.count + n.apart + n.tiles
}

// NewGridScatter lays out a scatter in memory of GridScatterBytes.
func NewGridScatter[C Compute](g *Sampler, band GridBand, memory []byte, contributions int64, channels int) GridScatter[C] {
	rows, width, pitch := band.Pixels/g.Size[0], g.Size[0], scatterPitch(int64(channels))
	n := scatterSizesOf(g, rows, contributions, int64(channels), int64(unsafe.Sizeof(C(0))))
	take := func(bytes int64) unsafe.Pointer {
		start := unsafe.Pointer(unsafe.SliceData(memory))
		memory = memory[bytes:]
		return start
	}
	s := GridScatter[C]{g: g, band: band, channels: channels, pitch: int(pitch), most: contributions}
	s.pixels = take(n.pixels)
	s.sums = unsafe.Slice((*C)(take(n.sums)), contributions/ChunkSize*pitch)
	s.chunks = unsafe.Slice((*chunk)(take(n.chunks)), contributions/ChunkSize)
	s.count = unsafe.Slice((*uint8)(take(n.count)), frameRows(width, 0, rows).plane)
	s.apart = take(n.apart)
	s.tiles = unsafe.Slice((*uint64)(take(n.tiles)), tilesOf(band.Pixels))
	return s
}

// start begins with sums of +0.
func (s *GridScatter[C]) start(_ Image) {
	clear(unsafe.Slice((*C)(s.pixels), s.band.Pixels*int64(s.pitch)))
	clear(s.count)
}

// sum returns the sum of a channel at a pixel.
func (s *GridScatter[C]) sum(channel int, pixel int64) *C {
	return (*C)(unsafe.Add(s.pixels, (pixel*int64(s.pitch)+int64(channel))*int64(unsafe.Sizeof(C(0)))))
}

// GridScatterKernel are the functions of a scatter of the upstream gradient g.
//   - Start begins with sums of +0; out is the image's gradient, as Store gets it.
//   - Add adds g * w to the pixel of every tap with weight w, for the positions of one
//     block: in the order of positions, then taps. GradOutput's rows start at the
//     scatter's first channel.
//   - Store writes the finished sums to the image's gradient. A band has whole rows.
//   - Few, unless nil, takes the place of all these if TakesFew: it computes the
//     gradients, at b.Input, of images all of whose positions are in the block, or
//     of one that has so many positions, block after block. It reports whether the
//     gradients hold, which those of a pixel with a full chunk do not.
//   - Both, unless nil, takes the place of Add if TakesBoth: it also computes the
//     gradient of the grid, at b.Output.
type GridScatterKernel[C Compute] struct {
	Start func(s *GridScatter[C], out Image)
	Add   func(s *GridScatter[C], b *GridBlock)
	Store func(s *GridScatter[C], out Image, scratch *Scratch)
	Few   func(b *GridBlock, positions int64) bool
	Both  func(s *GridScatter[C], b *GridBlock)
}

// TakesBoth reports whether the gradients of images in a type are made faster together: where each tap
// is read by itself.
func TakesBoth(g *Sampler, dtype tensor.DType) bool {
	return g.Mode == Bilinear && (g.Dims == 3 || dtype == tensor.F64)
}

// The rows of scatters, by compute type.
var (
	GridScatter32 = gridRows(always(scatterGo[float32]()), scatterByKernel)
	GridScatter64 = gridRows(always(scatterGo[float64]()), scatterByGather)
)

func scatterGo[C Compute]() GridScatterKernel[C] {
	return GridScatterKernel[C]{(*GridScatter[C]).start, (*GridScatter[C]).add, (*GridScatter[C]).store, nil, nil}
}

func (s *GridScatter[C]) add(b *GridBlock) {
	t := newTaps[C](s.g, b.N, b.Scratch)
	locate(s.g, b.Coords, &t)
	s.addTaps(b, &t)
}

// addTaps adds the products of a block's upstream gradients and its taps' weights.
func (s *GridScatter[C]) addTaps(b *GridBlock, t *taps[C]) {
	s.keepBand(t)
	full := s.countTaps(t, b.N)
	for c := range s.channels {
		dy := BlockOf[C](b.Scratch, tapBlocks, b.N)
		Load(dy, b.GradOutput.Row(int64(c), 0))
		if full {
			s.addWithChunks(c, dy, t)
			continue
		}
		for i, g := range dy {
			for k := range t.Count {
				if p := t.Pixel[k][i]; p != outside {
					*s.sum(c, p) += C(g * t.Weight[k][i])
				}
			}
		}
	}
	if full {
		s.advance(t, b.N)
	}
}

// keepBand leaves out the taps beside the band, and numbers those in it.
func (s *GridScatter[C]) keepBand(t *taps[C]) {
	for k := range t.Count {
		for i, p := range t.Pixel[k] {
			if p -= s.band.First; p < 0 || p >= s.band.Pixels {
				p = outside
			}
			t.Pixel[k][i] = p
		}
	}
}

// countTaps counts the block's contributions and reports whether some pixel
// completes a chunk; if so the counts stay as they were.
func (s *GridScatter[C]) countTaps(t *taps[C], n int) (full bool) {
	for k := range t.Count {
		for _, p := range t.Pixel[k][:n] {
			if p != outside {
				s.count[p]++
				full = full || s.count[p] == 0
			}
		}
	}
	if full {
		for k := range t.Count {
			for _, p := range t.Pixel[k][:n] {
				if p != outside {
					s.count[p]--
				}
			}
		}
	}
	return full
}

// addWithChunks is Add for one channel of a block in which chunks complete:
// a chunk's sum is put away when it has ChunkSize contributions.
func (s *GridScatter[C]) addWithChunks(channel int, dy []C, t *taps[C]) {
	next := s.full
	s.visit(t, len(dy), func(i, k int, p int64, completes bool) {
		sum := s.sum(channel, p)
		*sum += C(dy[i] * t.Weight[k][i])
		if completes {
			s.sums[next*s.pitch+channel] = *sum
			*sum = 0
			next++
		}
	})
	// The counts are needed again for the next channel.
	for k := range t.Count {
		for _, p := range t.Pixel[k] {
			if p != outside {
				s.count[p]--
			}
		}
	}
}

// advance counts a block's contributions for good and notes its chunks.
func (s *GridScatter[C]) advance(t *taps[C], n int) {
	s.visit(t, n, func(_, _ int, p int64, completes bool) {
		if completes {
			s.chunks[s.full] = chunk{p, int64(s.full)}
			s.full++
		}
	})
}

// visit calls f for every contribution of a block in order, counting it first.
func (s *GridScatter[C]) visit(t *taps[C], n int, f func(i, k int, p int64, completes bool)) {
	for i := range n {
		for k := range t.Count {
			if p := t.Pixel[k][i]; p != outside {
				s.count[p]++
				f(i, k, p, s.count[p] == 0)
			}
		}
	}
}

// Finish folds the chunks of every pixel that has some into its sum: after the
// last Add, before Store.
func (s *GridScatter[C]) Finish(scratch *Scratch) {
	chunks := s.chunks[:s.full]
	slices.SortFunc(chunks, func(a, b chunk) int {
		if a.pixel != b.pixel {
			return cmp.Compare(a.pixel, b.pixel)
		}
		return cmp.Compare(a.number, b.number)
	})
	for len(chunks) > 0 {
		pixel, n := chunks[0].pixel, 1
		for n < len(chunks) && chunks[n].pixel == pixel {
			n++
		}
		for c := range s.channels {
			sum, tree := s.sumAt(c, pixel), TreeOf[C](scratch, 0)
			for _, k := range chunks[:n] {
				tree.Push(s.sums[k.number*int64(s.pitch)+int64(c)])
			}
			if s.count[pixel] != 0 {
				tree.Push(*sum)
			}
			*sum = tree.Sum()
		}
		chunks = chunks[n:]
	}
}

func (s *GridScatter[C]) store(out Image, scratch *Scratch) {
	for c := range s.channels {
		for at := int64(0); at < s.band.Pixels; {
			pixel := s.band.First + at
			x, row := pixel%s.g.Size[0], pixel/s.g.Size[0]
			y, z := row%s.g.Size[1], row/s.g.Size[1]
			run := BlockOf[C](scratch, 0, int(min(Block, s.g.Size[0]-x)))
			for i := range run {
				run[i] = *s.sum(c, at+int64(i))
			}
			p := unsafe.Add(out.Channel(int64(c)), x*out.AxisStride[0]+y*out.AxisStride[1]+z*out.AxisStride[2])
			Store(Span{p, out.AxisStride[0], out.DType}, run)
			at += int64(len(run))
		}
	}
}
