package cpu

import "unsafe"

// Few rows of Input meet columns of Other that lie one after the other where they lie:
// kernels transpose them in registers, a square at a time.

const (
	matmulAlong = 2048 // elements of columns that are read before the next columns are

	// Rows of Input that columns are transposed for, if not matmulFew:
	matmulFewFar  = 16  // with pairs, where columns come from memory or have at least
	matmulFewLong = 512 // elements;
	matmulFewNear = 8   // with other pairs, or without AVX-512
)

// matmulTransposedRun is matmulRun for columns of b, as long as so many squares, that
// asks for the columns from ahead on.
type matmulTransposedRun func(a *byte, aRow, rows int, b *byte, bColumn, squares int, bias, y *byte, yRow, more int, ahead *byte)

// matmulTransposed are kernels that take columns of b which lie one after the other:
// a square of them at a time, or some.
type matmulTransposed[Run any] struct {
	columns      int64 // of a square
	wideColumns  int64 // of several,
	wideRows     int64 // rows of Input that those are for,
	farRows      int64 // and are for though Other comes from memory
	few          int64 // rows that one is for, without pairs
	square, wide Run
}

func newMatmulTransposed[Run any](needs ISA, columns int64, square, wide Run) matmulTransposed[Run] {
	u := matmulTransposed[Run]{columns, 2 * columns, 4, 0, matmulFew, square, wide}
	if needs < AVX512 {
		u.wideColumns, u.few = 16, matmulFewNear
	}
	if u.wideColumns > 2*columns {
		u.wideRows = 2 // there are registers for
	}
	return u
}

// next returns the kernel for the next of the columns that are left. Several squares
// are for few rows: more keep the processor busy with one, and columns that come
// from memory come faster where there are fewer.
func (u *matmulTransposed[Run]) next(t *MatmulTile, left int64) (run Run, columns int64) {
	if t.M <= u.wideRows && (t.M <= u.farRows || !t.Far) && left >= u.wideColumns {
		return u.wide, u.wideColumns
	}
	return u.square, u.columns
}

// few returns how many rows of Input are worth transposing Other's columns for each eight
// of them (with AVX2: four). Copies of pairs are made once, from memory more slowly.
func (r *kernelMatmul[C]) few(t *MatmulTile) int64 {
	switch {
	case r.dots == nil:
		return r.there.transposed.few
	case t.Far || t.K >= matmulFewLong:
		return matmulFewFar
	}
	return matmulFewNear
}

// transposedSums computes the chains of so many columns, so deep.
func (r *kernelMatmul[C]) transposedSums(t *MatmulTile, p *matmulMemory, columns, depth int64) {
	for k := int64(0); k < depth && columns > 0; k += matmulAlong {
		steps := min(matmulAlong, depth-k)
		r.copyInput(t, p, k, steps)
		for n := int64(0); n < columns; {
			run, wide := r.there.transposed.next(t, columns-n)
			bias, y, yRow, begun := r.result(t, p, n, k, k+steps)
			run((*byte)(p.from), int(p.fromRow), int(p.rows), (*byte)(t.Other.Row(k, n).P), int(t.Other.Stride), int(steps/r.there.transposed.columns),
				bias, y, yRow, begun, t.ahead(n+wide, columns, k, steps, depth))
			n += wide
		}
	}
}

// transposedRest computes the chains of the columns from one on, which are fewer than a square has, and
// returns how deep. They are copied to where a square's are; what is beside them is 0, since other
// numbers might take their time.
func (r *kernelMatmul[C]) transposedRest(t *MatmulTile, p *matmulMemory, first int64) (depth int64) {
	side, size := r.there.transposed.columns, t.Other.DType.Size()
	most := min(p.depth, t.K) / side * side
	if most == 0 || first == t.N {
		return 0
	}
	copies, column := unsafe.Add(t.Memory, p.copies), most*size
	clear(unsafe.Slice((*byte)(unsafe.Add(copies, (t.N-first)*column)), (side-(t.N-first))*column))
	for depth = 0; depth+side <= t.K; depth += most {
		most = min(most, (t.K-depth)/side*side)
		for i := range t.N - first {
			CopyRow(Span{unsafe.Add(copies, i*column), size, t.Other.DType}, t.Other.Transposed().Row(first+i, depth), most)
		}
		r.copyInput(t, p, depth, most)
		bias, y, yRow, begun := r.result(t, p, first, depth, depth+most)
		r.there.transposed.square((*byte)(p.from), int(p.fromRow), int(p.rows), (*byte)(copies), int(column), int(most/side), bias, y, yRow, begun, nil)
	}
	return depth
}

// ahead is where the columns of Other come that follow on steps along K, down to
// depth, n being the next of them.
func (t *MatmulTile) ahead(n, columns, k, steps, depth int64) *byte {
	if n == columns {
		n, k = 0, k+steps
	}
	if !t.Far || k == depth {
		return nil
	}
	return (*byte)(t.Other.Row(k, n).P)
}
