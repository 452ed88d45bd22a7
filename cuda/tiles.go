package cuda

// tileShape is a kernel of matrix products whose blocks of threads compute
// tiles of so many rows and columns.
type tileShape struct {
	name       string
	rows, cols int64
	threads    uint32
}

const manyTiles = 128 // about as many as GPUs have multiprocessors

// tilesOf chooses a shape for products of m rows and n columns, of those in
// ascending order: the largest that has no more than enough rows, and tiles
// for every multiprocessor unless rows are few.
func tilesOf(shapes []tileShape, batch, m, n int64) (shape tileShape, tiles int64) {
	for i, s := range shapes {
		count := batch * ((m + s.rows - 1) / s.rows) * ((n + s.cols - 1) / s.cols)
		if i == 0 || m > shapes[i-1].rows && (s.rows <= 16 || count >= manyTiles) {
			shape, tiles = s, count
		}
	}
	return shape, tiles
}

func (s tileShape) blocks(tiles int64) geometry {
	g := blocks(tiles, 1<<20)
	g.block[0] = s.threads
	return g
}
