package cpu

import "github.com/isobit-ml/isobit/tensor"

// Rows of x are packed once, those of weight by each tile, some depth of codes at a time. Groups are cut into pieces of equal
// size, a multiple of what a kernel takes in a step, and made up to whole pieces by codes that count for nothing.

const (
	groupDepth = 512 // codes
	groupPiece = 128 // the most codes of a piece, whose sums 16 bits hold
	groupLeast = 4   // of how many codes groups are for the number of those in a chunk
	groupPart  = 32  // codes that pieces are a multiple of, where they can be
)

// groupCut is how codes along K are cut.
type groupCut struct {
	k, group     int64 // codes of a row, and of a group
	groups       int64
	size, pieces int64 // codes of a piece, and pieces of a group
	most         int64 // groups in a chunk; 0: a chunk has a part of one,
	part         int64 // so many pieces
	chunks       int64
}

// newGroupCut cuts codes into chunks of a depth, at least of a piece.
func newGroupCut(k, group, step, depth int64) groupCut {
	c := groupCut{k: k, group: group, groups: ceilDiv(k, group)}
	c.size = groupPieceSize(group, step)
	c.pieces = ceilDiv(group, c.size)
	if c.most = min(depth/max(groupLeast, c.size*c.pieces), c.groups); c.most > 0 {
		c.part = c.pieces
		c.chunks = ceilDiv(c.groups, c.most)
	} else {
		c.part = depth / c.size
		c.chunks = c.groups * ceilDiv(c.pieces, c.part)
	}
	return c
}

// groupPieceSize returns one of which groups are a multiple, if there is a good one.
func groupPieceSize(group, step int64) int64 {
	for size := int64(groupPiece); size > 0; size -= groupPart {
		if group%size == 0 {
			return size
		}
	}
	return roundUp(ceilDiv(group, ceilDiv(group, groupPiece)), step)
}

// whole reports whether codes of several groups follow one another as they are.
func (c *groupCut) whole() bool { return c.groups == 1 || c.group == c.size*c.pieces }

// mostPieces is how many pieces a chunk has at most.
func (c *groupCut) mostPieces() int64 { return max(1, c.most) * c.part }

// groupChunk is what is multiplied at a time: some groups, or pieces of one.
type groupChunk struct {
	number        int64
	group, groups int64
	piece, pieces int64 // of each group
	begins, ends  bool  // its groups
}

// chunk returns the one with a number.
func (c *groupCut) chunk(number int64) groupChunk {
	if c.most > 0 {
		first := number * c.most
		return groupChunk{number: number, group: first, groups: min(c.most, c.groups-first), pieces: c.pieces, begins: true, ends: true}
	}
	parts := ceilDiv(c.pieces, c.part)
	piece := number % parts * c.part
	count := min(c.part, c.pieces-piece)
	return groupChunk{number: number, group: number / parts, groups: 1, piece: piece, pieces: count, begins: piece == 0, ends: piece+count == c.pieces}
}

// codes returns the position of a chunk's group, and how many codes of it are in the chunk. Of none the position is any.
func (c *groupCut) codes(chunk *groupChunk, group int64) (k, count int64) {
	k = group*c.group + chunk.piece*c.size
	count = max(0, min(chunk.pieces*c.size, c.group-chunk.piece*c.size, c.k-k))
	return c.within(k), count
}

// within keeps a position, from which no code may be read, in a row: pointers beyond what they are of are none.
func (c *groupCut) within(k int64) int64 { return min(k, c.k-1) }

// codeRange returns the most that a code can differ from a zero point of a type, or from 0 where there is none.
func codeRange(codes, zero tensor.DType) int64 {
	lo, hi := codes.WholeRange()
	if zero != tensor.None {
		return int64(hi - lo)
	}
	return int64(max(hi, -lo))
}

// fitsInt32 reports whether the sums of all groups do.
func (t *GroupLinearTile) fitsInt32() bool {
	const most = 1<<31 - 1
	products := codeRange(t.X.DType, t.XZero.DType) * codeRange(t.Weight.DType, t.Zero.DType)
	return t.GroupSize <= most/products
}
