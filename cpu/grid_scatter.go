package cpu

import (
	"cmp"
	"slices"
	"unsafe"
)

// GridScatter accumulates the gradient of some channels of one image. The
// memory lies in the caller's workspace; see NewGridScatter.
type GridScatter[C Compute] struct {
	planes [][]C    // one sum per pixel, per channel
	count  []uint8  // contributions to a pixel, modulo ChunkSize
	chunks []chunk  // finished chunks, in the order they were finished
	sums   []C      // their sums: one per channel
	full   int      // chunks in use
	g      *Sampler //
}

// chunk is one full chunk of contributions to a pixel.
type chunk struct{ pixel, number int64 }

// MaxScatterChannels bounds the channels that one scatter handles.
const MaxScatterChannels = 16

// gridScatterSizes returns the bytes of each part of a scatter's memory.
func gridScatterSizes(pixels, contributions, channels, size int64) [4]int64 {
	chunks := contributions / ChunkSize
	align := func(n int64) int64 { return (n + 63) &^ 63 }
	return [4]int64{
		align(pixels * channels * size), align(chunks * channels * size),
		align(chunks * int64(unsafe.Sizeof(chunk{}))), align(pixels),
	}
}

// GridScatterBytes returns the workspace of one scatter: of an image with the
// given number of pixels, that many contributions and channels, and a compute
// type of the given size.
func GridScatterBytes(pixels, contributions, channels, size int64) (bytes int64) {
	for _, n := range gridScatterSizes(pixels, contributions, channels, size) {
		bytes += n
	}
	return bytes
}

// NewGridScatter lays out an empty scatter in memory of GridScatterBytes.
func NewGridScatter[C Compute](g *Sampler, memory []byte, contributions int64, planes [][]C) GridScatter[C] {
	pixels, channels := g.Size[0]*g.Size[1], int64(len(planes))
	if g.Dims == 3 {
		pixels *= g.Size[2]
	}
	size := int64(unsafe.Sizeof(C(0)))
	sizes := gridScatterSizes(pixels, contributions, channels, size)
	var part [4]unsafe.Pointer
	for i, n := range sizes {
		part[i] = unsafe.Pointer(unsafe.SliceData(memory))
		memory = memory[n:]
	}
	all := unsafe.Slice((*C)(part[0]), pixels*channels)
	clear(all)
	for c := range planes {
		planes[c] = all[int64(c)*pixels:][:pixels]
	}
	s := GridScatter[C]{g: g, planes: planes}
	s.sums = unsafe.Slice((*C)(part[1]), contributions/ChunkSize*channels)
	s.chunks = unsafe.Slice((*chunk)(part[2]), contributions/ChunkSize)
	s.count = unsafe.Slice((*uint8)(part[3]), pixels)
	clear(s.count)
	return s
}

// Add adds g * w to every tap's pixel, for the positions of one block: in the
// order of positions, then taps. GradOutput's rows start at this scatter's
// first channel.
func (s *GridScatter[C]) Add(b *GridBlock) {
	t := NewTaps[C](s.g, b.N, b.Scratch)
	Locate(s.g, b.Coords, &t)
	full := s.countTaps(&t, b.N)
	for c, plane := range s.planes {
		dy := BlockOf[C](b.Scratch, tapBlocks, b.N)
		Load(dy, b.GradOutput.Row(int64(c), 0))
		if full {
			s.addWithChunks(plane, c, dy, &t)
			continue
		}
		for i, g := range dy {
			for k := range t.Count {
				if p := t.Pixel[k][i]; p != Outside {
					plane[p] += C(g * t.Weight[k][i])
				}
			}
		}
	}
	if full {
		s.advance(&t, b.N)
	}
}

// countTaps counts the block's contributions and reports whether some pixel
// completes a chunk; if so the counts stay as they were.
func (s *GridScatter[C]) countTaps(t *Taps[C], n int) (full bool) {
	for k := range t.Count {
		for _, p := range t.Pixel[k][:n] {
			if p != Outside {
				s.count[p]++
				full = full || s.count[p] == 0
			}
		}
	}
	if full {
		for k := range t.Count {
			for _, p := range t.Pixel[k][:n] {
				if p != Outside {
					s.count[p]--
				}
			}
		}
	}
	return full
}

// addWithChunks is Add for one channel of a block in which chunks complete:
// a chunk's sum is put away when it has ChunkSize contributions.
func (s *GridScatter[C]) addWithChunks(plane []C, channel int, dy []C, t *Taps[C]) {
	next := s.full
	s.visit(t, len(dy), func(i, k int, p int64, completes bool) {
		plane[p] += C(dy[i] * t.Weight[k][i])
		if completes {
			s.sums[next*len(s.planes)+channel] = plane[p]
			plane[p] = 0
			next++
		}
	})
	// The counts are needed again for the next channel.
	for k := range t.Count {
		for _, p := range t.Pixel[k] {
			if p != Outside {
				s.count[p]--
			}
		}
	}
}

// advance counts a block's contributions for good and notes its chunks.
func (s *GridScatter[C]) advance(t *Taps[C], n int) {
	s.visit(t, n, func(_, _ int, p int64, completes bool) {
		if completes {
			s.chunks[s.full] = chunk{p, int64(s.full)}
			s.full++
		}
	})
}

// visit calls f for every contribution of a block in order, counting it first.
func (s *GridScatter[C]) visit(t *Taps[C], n int, f func(i, k int, p int64, completes bool)) {
	for i := range n {
		for k := range t.Count {
			if p := t.Pixel[k][i]; p != Outside {
				s.count[p]++
				f(i, k, p, s.count[p] == 0)
			}
		}
	}
}

// Finish folds the chunks of every pixel that has some into its sum.
func (s *GridScatter[C]) Finish(scratch *Scratch) {
	chunks := s.chunks[:s.full]
	slices.SortFunc(chunks, func(a, b chunk) int {
		return cmp.Or(cmp.Compare(a.pixel, b.pixel), cmp.Compare(a.number, b.number))
	})
	for len(chunks) > 0 {
		pixel, n := chunks[0].pixel, 1
		for n < len(chunks) && chunks[n].pixel == pixel {
			n++
		}
		for c, plane := range s.planes {
			tree := TreeOf[C](scratch, 0)
			for _, k := range chunks[:n] {
				tree.Push(s.sums[k.number*int64(len(s.planes))+int64(c)])
			}
			if s.count[pixel] != 0 {
				tree.Push(plane[pixel])
			}
			plane[pixel] = tree.Sum()
		}
		chunks = chunks[n:]
	}
}

// StorePlane writes channel c's sums to an image's gradient.
func (s *GridScatter[C]) StorePlane(c int, out Image) {
	row := s.g.Size[0]
	plane := s.planes[c]
	size := s.g.Size
	if s.g.Dims == 2 {
		size[2] = 1
	}
	for z := range size[2] {
		for y := range size[1] {
			p := unsafe.Add(out.P, z*out.AxisStride[2]+y*out.AxisStride[1])
			Store(Span{p, out.AxisStride[0], out.DType}, plane[:row])
			plane = plane[row:]
		}
	}
}
