package cpu

import "github.com/isobit-ml/isobit/tensor"

// Rows of codes in short groups: a kernel of AVX2 sums all columns of a row before it goes to the next one. Each vector
// loads four parameters of the row, of which every column takes one.

const (
	loadedGroups = 4 // by a vector
	leastGroup   = 3 // of so many columns a vector has no more groups than it loads

	// Of so many columns groups are summed as fast one after the other.
	groupInPlace  = 2 * groupUnit
	groupInCopies = groupUnit

	nearCodes = 1 << 22 // a table of so many bytes is read faster where it lies, a larger one in copies
)

// takesManyGroups reports whether the kernel sums codes of so many columns whatever group they are of: groups of fewer
// columns than most.
func (s *rowSum) takesManyGroups(c *WeightRows, columns, most int64) bool {
	return s != nil && s.needs == AVX2 && s.out == tensor.F32 && c.GroupSize >= leastGroup && c.GroupSize < most &&
		ceilDiv(columns, c.GroupSize) >= loadedGroups && c.Scale.Contiguous() && (c.Zero.P == nil || c.Zero.Contiguous())
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
