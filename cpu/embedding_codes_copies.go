package cpu

import (
	"unsafe"

	"github.com/isobit-ml/isobit/tensor"
)

// Rows of codes that no kernel takes where they lie, since their parameters are of other types than it reads: codes and
// parameters of some rows are copied together, the latter as kernels want them.

// termTile are columns of the rows at positions from one to another: of one group, or of several from a group's first on.
type termTile struct{ from, to, column, columns int64 }

// inOne reports whether its columns are of one group.
func (t termTile) inOne(group int64) bool { return t.column%group+t.columns <= group }

// width is how many columns its rows have in memory: units, and groups that consist of these.
func (t termTile) width(group int64) int64 {
	if t.inOne(group) || group%groupUnit != 0 {
		return roundUp(t.columns, groupUnit)
	}
	return roundUp(t.columns, group)
}

// gathers reports whether a tile's rows are copied together: codes that begin within a byte are not.
func (t termTile) gathers(c *WeightRows) bool {
	return t.from < t.to && (t.column%2 == 0 || !c.Weight.DType.Packed())
}

// tileColumns returns how many columns a tile takes from one on, of those before end and most at most.
func (b *codeBags) tileColumns(c *WeightRows, column, end, most int64) int64 {
	columns, within := min(end-column, most), column%c.GroupSize
	if c.GroupSize%groupUnit == 0 || b.direct.takesGroups(c, end) {
		if within == 0 {
			return columns
		}
	} else if c.GroupSize < groupUnit { // which nothing takes together
		return columns
	}
	return min(columns, c.GroupSize-within)
}

// tileRows returns how many rows a tile has memory for.
func (b *codeBags) tileRows(m *EmbeddingSums) int64 {
	terms, columns := int64(codeTerms), min(m.Columns, Block)
	if b.direct != nil {
		terms *= 2 // which are bytes
	}
	rows := min(terms/roundUp(columns, groupUnit), TileSize)
	if b.direct.takesGroups(&m.Codes, m.Column+m.Columns) {
		rows = min(rows, TileSize/ceilDiv(columns, m.Codes.GroupSize))
	}
	return rows
}

// gatheredRows are a tile's codes, and its scales and zero points in turn of the groups.
type gatheredRows struct {
	codes         unsafe.Pointer
	rowBytes      int64
	scales, zeros []float32
}

// gatherScratch has their parameters.
type gatherScratch struct {
	scales, zeros [TileSize]float32
	stored        [TileSize]float64 // those that were copied last, in their own type
}

// gatherRows copies a tile.
func gatherRows(s *Scratch, c *WeightRows, positions []int64, t termTile) (g gatheredRows) {
	w, per := &c.Weight, int64(1)
	if w.DType.Packed() {
		per = 2
	}
	g.codes, g.rowBytes = unsafe.Pointer(&s.weights.tile), t.width(c.GroupSize)/per
	copyBytes(g.codes, g.rowBytes, unsafe.Add(w.P, t.column/per), w.RowStride, positions, ceilDiv(t.columns, per))
	group := t.column / c.GroupSize
	groups := ceilDiv(t.columns, min(t.columns, c.GroupSize))
	n := int64(len(positions)) * groups
	g.scales, g.zeros = s.gathered.scales[:n], noZeros[:n]
	gatherParams(s, g.scales, c.Scale, group, groups, positions, areScales, 0, 0)
	if c.Zero.P != nil {
		lo, hi := w.DType.WholeRange()
		g.zeros = s.gathered.zeros[:n]
		gatherParams(s, g.zeros, c.Zero, group, groups, positions, areZeroPoints, float64(lo), float64(hi))
	}
	return g
}

// gatherParams loads parameters of some groups of rows.
func gatherParams(s *Scratch, to []float32, from Rows, group, groups int64, positions []int64, zeroPoints bool, lo, hi float64) {
	size, copies := from.DType.Size(), from.DType == tensor.F32 && !zeroPoints
	stored := Span{P: unsafe.Pointer(&s.gathered.stored), Stride: size, DType: from.DType}
	if copies {
		stored.P = unsafe.Pointer(&to[0])
	}
	if groups == 1 || from.Contiguous() {
		copyBytes(stored.P, groups*size, from.Row(0, group).P, from.RowStride, positions, groups*size)
	} else {
		for i, p := range positions {
			CopyRow(stored.At(int64(i)*groups), from.Row(p, group), groups)
		}
	}
	if !copies {
		loadByKernel(to, stored, zeroPoints, lo, hi)
	}
}

// sumGathered sums a tile by the kernel that sums codes, and reports whether it could.
func (b *codeBags) sumGathered(m, all *EmbeddingSums, t termTile, by *rowSum) bool {
	c := &all.Codes
	if !by.takesGroups(c, all.Column+all.Columns) || !m.Out.Contiguous() || !t.gathers(c) {
		return false
	}
	g := gatherRows(m.Scratch, c, all.Positions[t.from:t.to], t)
	n, groups := t.to-t.from, int64(len(g.scales))/(t.to-t.from)
	m.Codes = WeightRows{Weight: Rows{Span{g.codes, 1, c.Weight.DType}, g.rowBytes}, GroupSize: c.GroupSize, Rows: n}
	m.Codes.Scale = Rows{Span{unsafe.Pointer(&g.scales[0]), 4, tensor.F32}, 4 * groups}
	if c.Zero.P != nil {
		m.Codes.Zero = Rows{Span{unsafe.Pointer(&g.zeros[0]), 4, tensor.F32}, 4 * groups}
	}
	m.Positions, m.Column, m.Columns = counting[:n], 0, t.columns
	if all.Factors.P != nil {
		m.Factors = all.Factors.At(t.from)
	}
	return b.sumCodes(m, by, by.manyBelow(m, groupInCopies))
}
