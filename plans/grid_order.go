package plans

import (
	"github.com/isobit-ml/isobit/cpu"
	"github.com/isobit-ml/isobit/tensor"
)

// The order that an output's positions are taken in. Kernels take blocks of
// them, runs along x. Where a grid rotates the image, a row of positions reads
// pixels of many rows, and the next row of positions the same ones: blocks that
// lie below each other share pages and cache lines.

// gridOrder cuts the rows of an output into blocks, and those into tiles.
type gridOrder struct {
	span       int64 // positions in a block; the last of a row may be shorter
	wide, tall int64 // blocks in a tile, along x and across rows
	images     int64 // images in a block; if several, all positions of each
}

const (
	tallTile = 32  // blocks in a tile below each other
	wideTile = 8   // blocks in a tile side by side
	longRow  = 384 // positions in a row that is cut into columns of tiles
	// nearImage: smaller images, in bytes, stay in a cache nearer than the one that the grid
	// comes from, and are read in the grid's order even where it rotates them.
	nearImage = 3 << 20
)

// order chooses an order for ops in which every position has a result of its own. Positions are
// contiguous over the given number of dimensions.
func (s *sampler) order(dims, threads int) {
	s.images = 1
	if s.out[0] < longRow || s.imageBytes <= nearImage {
		s.joinRows(dims)
	}
	perRow := ceilDiv(s.out[0], s.Most())
	s.span = max(1, ceilDiv(s.out[0], max(1, perRow)))
	if whole := roundUp(s.span, 16); s.out[0]-whole*(perRow-1) > whole/2 {
		s.span = whole // positions begin alike among cache lines
	}
	// Every thread gets some tiles.
	most := max(1, s.blocks()/int64(4*threads))
	s.wide, s.tall = 1, min(tallTile, most)
	if s.rowsPerImage() == 1 {
		s.wide, s.tall = min(wideTile, most), 1
	}
}

// scanOrder takes positions row by row, the order in which contributions are summed.
func (s *sampler) scanOrder(dims int) {
	s.joinRows(dims)
	s.span, s.wide, s.tall, s.images = s.Most(), 1, 1, 1
}

// joinRows makes all positions of an image or of a plane of a volume one row, and those of a volume
// whose planes are shorter than a block, where they lie one after the other.
func (s *sampler) joinRows(dims int) {
	if dims > 1 {
		s.out[0], s.out[1] = s.out[0]*s.out[1], 1
	}
	if dims > 2 && s.out[0] < s.Most() {
		s.out[0], s.out[2] = s.out[0]*s.out[2], 1
	}
}

// blocksPerRow and rowsPerImage count the blocks along x and across.
func (s *sampler) blocksPerRow() int64 { return ceilDiv(s.out[0], s.span) }
func (s *sampler) rowsPerImage() int64 { return s.out[1] * s.out[2] }

func (s *sampler) tilesPerRow() int64 { return ceilDiv(s.blocksPerRow(), s.wide) }
func (s *sampler) tilesPerImage() int64 {
	return s.tilesPerRow() * ceilDiv(s.rowsPerImage(), s.tall)
}

// blocks and tiles count those of all images.
func (s *sampler) blocks() int64 { return s.blocksPerRow() * s.rowsPerImage() * s.batch }
func (s *sampler) tiles() int64  { return s.tilesPerImage() * ceilDiv(s.batch, s.images) }

// eachBlock calls f for the blocks of the tile with a number. Each row of them
// begins with a block that begin completes.
func (s *sampler) eachBlock(w *worker, number int64, grid *tensor.View, begin, f func(b *gridBlock)) {
	image, tile := number/s.tilesPerImage()*s.images, number%s.tilesPerImage()
	column, row := tile%s.tilesPerRow()*s.wide, tile/s.tilesPerRow()*s.tall
	last := min(column+s.wide, s.blocksPerRow())
	for y := row; y < min(row+s.tall, s.rowsPerImage()); y++ {
		s.eachOfRow(w, blockRow{image, y, column, last}, grid, begin, f)
	}
}

// blockRow is a row's blocks from a first column to before a last one.
type blockRow struct{ image, row, first, last int64 }

// wholeRow has all blocks of a row.
func (s *sampler) wholeRow(image, row int64) blockRow {
	return blockRow{image, row, 0, s.blocksPerRow()}
}

// eachOfRow is eachBlock for some blocks of a row.
func (s *sampler) eachOfRow(w *worker, r blockRow, grid *tensor.View, begin, f func(b *gridBlock)) {
	b := &w.ownArgs().grid
	for column := r.first; column < r.last; column++ {
		if column == r.first {
			s.block(b, w, r, grid)
			begin(b)
		} else {
			s.advance(b, column)
		}
		f(b)
	}
}

// gridBlock is a block of positions and its place in the output.
type gridBlock struct {
	cpu.GridBlock
	image int64
	at    [3]int64 // x, y, z of the first position
}

// block prepares the first block of a row of positions in the grid.
func (s *sampler) block(b *gridBlock, w *worker, r blockRow, grid *tensor.View) {
	b.GradOutput, b.Output = cpu.Rows{}, cpu.Rows{} // nothing that advance would move
	b.image = r.image
	b.at = [3]int64{r.first * s.span, r.row % s.out[1], r.row / s.out[1]}
	b.N = int(min(s.span, s.out[0]-b.at[0]))
	b.Begin(&s.Sampler, s.channels, &w.scratch)
	if b.Joined = (cpu.Joined{}); s.images > 1 {
		b.Joined.Images, b.Joined.Each = int(min(s.images, s.batch-r.image)), b.N
		b.N *= b.Joined.Images
	}
	coords := s.gridRows(grid, b)
	for axis := range s.Dims {
		b.Coords[axis] = coords.Row(int64(axis), 0)
	}
}

// advance moves a block on to the next column.
func (s *sampler) advance(b *gridBlock, column int64) {
	for axis := range s.Dims {
		b.Coords[axis] = b.Coords[axis].At(s.span)
		b.Second.Coords[axis] = b.Second.Coords[axis].At(s.span)
	}
	for _, rows := range []*cpu.Rows{&b.GradOutput, &b.Output, &b.Second.Output} {
		rows.Span = rows.At(s.span)
	}
	b.N = int(min(s.span, s.out[0]-column*s.span))
}
