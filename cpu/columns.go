package cpu

import (
	"slices"
	"unsafe"
)

// MaxColumns is how many groups side by side a Scratch has accumulators for.
const MaxColumns = 512

// Columns are the accumulators of a striped kernel for groups side by side:
// rows of one for each group, Lanes at most, for both sums.
type Columns[C Compute] struct {
	Sums  [2][]C // the second may be nil
	width int    // between rows
}

// columnSlack is how far a kernel may write zeros past the last row.
const columnSlack = 64

// ColumnsOf returns rows of accumulators for n groups, or for n elements of
// short ones: Lanes*MaxColumns of them at most.
func ColumnsOf[C Compute](s *Scratch, rows, n int) (c Columns[C]) {
	c.width = n
	for i := range c.Sums {
		c.Sums[i] = unsafe.Slice((*C)(unsafe.Pointer(&s.columns[i])), rows*n)
	}
	return c
}

// Clear sets the first rows to +0.
func (c Columns[C]) Clear(rows int) {
	for i := range c.Sums {
		clear(c.Sums[i][:rows*c.width])
	}
}

// Row returns a row as a kernel's Sums.
func (c Columns[C]) Row(number int) (sums [2]Span) {
	for i := range sums {
		sums[i] = Span{P: unsafe.Pointer(&c.Sums[i][number*c.width]), Stride: int64(unsafe.Sizeof(C(0)))}
	}
	return sums
}

// ColumnFold sums the rows of accumulators by halves into the first: what foldLanes does,
// for all groups at once. Only the given number of rows are in use; the others, which
// count as +0, are not read.
type ColumnFold[C Compute] func(c Columns[C], rows int)

// ColumnFoldRows is the table of the ways to do so.
func ColumnFoldRows[C Compute]() []Row[ColumnFold[C]] {
	own := slices.Concat(ownRows[ColumnFold[C]](columnFoldRows), ownRows[ColumnFold[C]](columnFoldRows64))
	return withDefinition(own, always(foldBy[C](nil)))
}

// foldBy makes a fold of a kernel that adds accumulators to as many others, whole cache lines of them; it may be nil.
func foldBy[C Compute](add func(to, from *C, n int)) ColumnFold[C] {
	return func(c Columns[C], rows int) {
		for _, sums := range c.Sums {
			if sums == nil {
				continue
			}
			for h := Lanes / 2; h > 0; h /= 2 {
				n := min(h, rows-h) * c.width
				if n <= 0 {
					continue
				}
				to, from, whole := sums[:n], sums[h*c.width:][:n], 0
				if add != nil && n >= 64/int(unsafe.Sizeof(C(0))) {
					whole = n &^ (64/int(unsafe.Sizeof(C(0))) - 1)
					add(&to[0], &from[0], whole)
				}
				for i := whole; i < n; i++ {
					to[i] += from[i]
				}
			}
		}
	}
}

// FoldMinMax makes extremes of the first row: a NaN counts for both.
func (c Columns[C]) FoldMinMax() {
	for i, hi := range c.Sums[1][:c.width] {
		if hi != hi {
			c.Sums[0][i] = hi
		}
	}
}

// ColumnExtremes updates to[0] and to[1], the smallest and the largest elements so far of columns
// side by side, by some rows; x is the first column. A NaN is kept in the largest, as FoldMinMax expects.
type ColumnExtremes[C Compute] func(rows int, x Span, to [2][]C)

// ColumnExtremeRows is the table of kernels that do so. It has no definition, which is that of
// MinMax for each row.
func ColumnExtremeRows[C Compute]() []Row[ColumnExtremes[C]] {
	return slices.Concat(ownRows[ColumnExtremes[C]](columnExtremeRows), ownRows[ColumnExtremes[C]](columnExtremeRows64))
}

// LeastColumns is how many columns ColumnExtremes takes at least.
const LeastColumns = 8

// columnKernel is a kernel of ColumnExtremes. It asks for what is some bytes ahead.
type columnKernel[C Compute] func(x *byte, step, rows, n, ahead int, lo, hi *C)

// columnExtremes makes calls of a kernel for rows that the first cache holds.
func columnExtremes[C Compute](kernel columnKernel[C]) ColumnExtremes[C] {
	const bytes = 1 << 14
	return func(rows int, x Span, to [2][]C) {
		n, step := len(to[0]), int(x.Stride)
		most := max(8, bytes/(n*int(x.DType.Size())))
		for row := 0; row < rows; row += most {
			kernel((*byte)(x.At(int64(row)).P), step, min(most, rows-row), n, most*step, &to[0][0], &to[1][0])
		}
	}
}
