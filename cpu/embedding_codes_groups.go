package cpu

import "github.com/isobit-ml/isobit/tensor"

// Rows of codes in short groups: kernels sum many columns of a row before they go to the next one. With AVX2 each vector
// loads four parameters of the row, with AVX-512 16 are loaded for all columns, of which every column takes one.

const (
	loadedGroups = 4  // by a vector of AVX2
	mostGroups   = 16 // of AVX-512
	leastGroup   = 3  // of so many columns a vector of AVX2 has no more groups than it loads
	leastOf16    = 2  // 16 groups of so many columns are two vectors of AVX-512

	// Of so many columns groups are summed as fast one after the other.
	groupInPlace  = 2 * groupUnit
	groupInCopies = groupUnit

	// With AVX-512 as fast of groupInPlace columns, if bags have some rows, which have few columns and come from a near cache,
	// or whose terms are rounded to f16.
	fewColumns = 128
	nearTable  = 1 << 20
	someRows   = 4

	nearCodes = 1 << 22 // a table of so many bytes is read faster where it lies, a larger one in copies, with AVX2
)

// takesManyGroups reports whether the kernel sums codes of so many columns whatever group they are of: groups of fewer
// columns than most.
func (s *rowSum) takesManyGroups(c *WeightRows, columns, most int64) bool {
	if s == nil {
		return false
	}
	least, group := int64(loadedGroups), int64(leastGroup)
	if s.needs == AVX512 {
		least, group = 2, leastOf16
	}
	return c.GroupSize >= group && c.GroupSize < most &&
		ceilDiv(columns, c.GroupSize) >= least && c.Scale.Contiguous() && (c.Zero.P == nil || c.Zero.Contiguous())
}

// manyBelow returns of how many columns groups are summed as fast one after the other, with AVX2, in bags of some rows, of
// others.
func (s *rowSum) manyBelow(m *EmbeddingSums, others int64) int64 {
	if s == nil {
		return 0
	}
	c, bags := &m.Codes, m.destinations()
	fewRows := m.Start[bags]-m.Start[0] < int64(someRows*bags)
	far := m.Columns > fewColumns || c.Rows*c.Weight.RowStride > nearTable
	switch {
	case s.needs != AVX512 && fewRows:
		return groupInPlace
	case s.needs != AVX512:
		return others
	case fewRows || far && s.out != tensor.F16:
		return 2 * groupInPlace
	}
	return groupInPlace
}

// manyColumns returns how many of the columns from one on, in groups, the kernel takes at a time.
func (s *rowSum) manyColumns(column, columns, group int64) int64 {
	most := int64(Block)
	if s.needs == AVX512 {
		most = min(most, mostGroups*group-column%group)
	}
	return partOf(columns, most, s.least)
}

// columnGroups say of columns which group each is of, counted from the first one's, and the first of the four groups whose
// parameters a vector loads that begins with it: these are within the row.
type columnGroups struct{ of, first [columnNumbers]int32 }

// set sets them for columns from one on, of rows that have some columns.
func (g *columnGroups) set(column, columns, group, all int64) {
	most := int32(ceilDiv(all, group) - column/group - loadedGroups)
	next, of := int64(0), int32(-1)
	for i := column % group; next < columns; i = 0 {
		of++
		for ; i < group && next < columns; i++ {
			g.of[next], g.first[next] = of, min(of, most)
			next++
		}
	}
}
