package cpu

// ChunkSize is the number of contributions that a destination sums left to
// right before chunk sums fold pairwise (NUMERICS.md, section 4, "Chunk").
const ChunkSize = 256

// Chunks sums vectors of up to Block elements in Chunk order. Its memory is
// part of a Scratch: the block with number first, and after it one for each
// power of two of chunks.
type Chunks[C Compute] struct {
	scratch *Scratch
	first   int
	from    int // the first element of each block
	width   int
	count   int64 // contributions so far
}

// NewChunks returns an empty sum of vectors of the given width.
func NewChunks[C Compute](s *Scratch, first, width int) Chunks[C] {
	return Chunks[C]{scratch: s, first: first, width: width}
}

// column returns the sum of element i alone, which has had count contributions
// of its own.
func (c *Chunks[C]) column(i int, count int64) Chunks[C] {
	return Chunks[C]{scratch: c.scratch, first: c.first, from: c.from + i, width: 1, count: count}
}

// running returns the running sum, whatever it holds.
func (c *Chunks[C]) running() []C { return c.block(0) }

func (c *Chunks[C]) level(k int) []C { return c.block(1 + k) }

func (c *Chunks[C]) block(number int) []C {
	return BlockOf[C](c.scratch, c.first+number, c.from+c.width)[c.from:]
}

// Next returns the running sum that the next contribution is to be added to.
func (c *Chunks[C]) Next() []C {
	acc := c.running()
	if c.count%ChunkSize == 0 {
		c.pushChunk(acc)
		clear(acc)
	}
	c.count++
	return acc
}

// nextChunk returns the vector that is to be set to the sum of the next n
// contributions: ChunkSize, or fewer at the end.
func (c *Chunks[C]) nextChunk(n int) []C {
	acc := c.running()
	c.pushChunk(acc)
	c.count += int64(n)
	return acc
}

// pushChunk moves the finished chunk in acc into the binary tree of chunk
// sums: level k holds a subtree of 1<<k chunks.
func (c *Chunks[C]) pushChunk(acc []C) {
	done := c.count / ChunkSize
	if done == 0 {
		return
	}
	k := 0
	for n := done - 1; n&1 == 1; n >>= 1 {
		addInto(acc, c.level(k), acc)
		k++
	}
	copy(c.level(k), acc)
}

// Sum returns the finished sum; +0 without contributions.
func (c *Chunks[C]) Sum() []C {
	acc := c.running()
	if c.count == 0 {
		clear(acc)
		return acc
	}
	// The last chunk, full or not, is the odd one out at every level below.
	for k, n := 0, (c.count-1)/ChunkSize; n > 0; k, n = k+1, n>>1 {
		if n&1 == 1 {
			addInto(acc, c.level(k), acc)
		}
	}
	return acc
}

// addInto sets dst to a + b, element by element.
func addInto[C Compute](dst, a, b []C) {
	for i := range dst {
		dst[i] = a[i] + b[i]
	}
}
