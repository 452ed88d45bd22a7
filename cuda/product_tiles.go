package cuda

import (
	"slices"

	"github.com/isobit-ml/isobit/tensor"
)

// tileShape is a kernel of matrix products whose blocks of threads compute
// tiles of so many rows and columns, for the types for which it was measured.
type tileShape struct {
	name       string
	rows, cols int64
	threads    int64
	types      []tensor.DType
}

const (
	manyTiles = 128 // about as many as GPUs have multiprocessors
	fewRows   = 16  // of tiles that are used however many there are
)

// tilesOf chooses a shape for products of m rows and n columns, of those in
// ascending order: the largest that has no more than enough rows, and tiles
// for every multiprocessor unless rows are few. ok says whether there is one.
func tilesOf(shapes []tileShape, t tensor.DType, batch, m, n int64) (shape tileShape, tiles int64, ok bool) {
	below := int64(0)
	for _, s := range shapes {
		count := batch * ceilDiv(m, s.rows) * ceilDiv(n, s.cols)
		if slices.Contains(s.types, t) && (m > below || !ok) && (s.rows <= fewRows || count >= manyTiles) {
			shape, tiles, ok = s, count, true
		}
		below = s.rows
	}
	return shape, tiles, ok
}

func (s tileShape) blocks(tiles int64) geometry { return blocks(tiles, mostBlocks).of(s.threads) }
