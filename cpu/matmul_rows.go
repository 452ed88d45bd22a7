package cpu

import (
	"unsafe"

	"github.com/isobit-ml/isobit/tensor"
)

// What stands between Matmul and its kernels, which read rows of Input that lie
// one after the other, and panels of some columns of Other, row after row. So
// both are copied, some depth along K at a time; sums lie apart from y, which
// may have another type.

// matmulKernel multiplies so many rows of a with a panel of b: y has a row for
// each, whose chains begin with what is there if there are more.
type matmulKernel struct {
	needs   ISA
	compute tensor.DType
	columns int64 // of a panel
	run     func(a *byte, aRow, rows int, b *byte, bRow, steps int, y *byte, yRow, more int)
}

const (
	matmulRowsOfTile = 144
	matmulTileBytes  = 1 << 10 // of a row of sums, and of a row of copies
	matmulFew        = 24      // rows of Input for which Other is read where it lies
	matmulAlong      = 4       // rows of Input for which it is not worth a copy for many columns
	// matmulSlack keeps rows of copies from meeting in a cache.
	matmulSlack = 64
)

func pickMatmul(isa ISA, t Types) (r MatmulRow, ok bool) {
	for i := range matmulKernels {
		switch k := &matmulKernels[i]; {
		case k.needs != isa || k.compute != t.Compute:
		case t.Compute == tensor.F64:
			return newMatmulRow[float64](k, t), true
		default:
			return newMatmulRow[float32](k, t), true
		}
	}
	return r, false
}

// matmulRow is a row for some types.
type matmulRow[C Compute] struct {
	*matmulKernel
	input, other, y matmulOperand
	transpose       Transpose
	size, depth     int64 // of an element; along K, of what is copied at a time
}

// matmulOperand is how an operand's type is read and written.
type matmulOperand struct {
	*gatherType
	turn turnTile // nil: there is none
}

func newMatmulOperand(needs ISA, d tensor.DType) matmulOperand {
	o := matmulOperand{gatherType: typeFor(needs, d)}
	if k := gridKernelFor(needs, d); k != nil {
		o.turn = k.turn
	}
	return o
}

func newMatmulRow[C Compute](k *matmulKernel, t Types) MatmulRow {
	r := &matmulRow[C]{matmulKernel: k, size: k.compute.Size()}
	r.input, r.other, r.y = newMatmulOperand(k.needs, t.In[0]), newMatmulOperand(k.needs, t.In[1]), newMatmulOperand(k.needs, t.Out[0])
	r.transpose, _ = PickUpTo(Transposes, k.needs, Types{In: [4]tensor.DType{k.compute}})
	r.depth = matmulTileBytes / r.size
	return MatmulRow{r.tile, matmulRowsOfTile, matmulTileBytes / r.size, func(m, n, k int64) int64 {
		return r.plan(m, n, k).bytes
	}}
}

// matmulMemory is how a tile's memory is divided.
type matmulMemory struct {
	sums, input, panels int64 // where parts begin, in bytes
	sumsRow, inputRow   int64 // from row to row
	bytes               int64
}

func (r *matmulRow[C]) plan(m, n, k int64) (p matmulMemory) {
	depth, columns := min(k, r.depth), roundUp(n, r.columns)
	p.sumsRow, p.inputRow = columns*r.size, roundUp(depth*r.size, matmulSlack)+matmulSlack
	p.input = m * p.sumsRow
	p.panels = p.input + m*p.inputRow
	p.bytes = p.panels + max(matmulSlack, depth*columns*r.size)
	return p
}

// tile is Run.
func (r *matmulRow[C]) tile(t *MatmulTile) {
	p := r.plan(t.M, t.N, t.K)
	at := func(part int64) unsafe.Pointer { return unsafe.Add(t.Memory, part) }
	if t.More {
		for m := range t.M {
			loadRow(r.y.gatherType, unsafe.Slice((*C)(at(p.sums+m*p.sumsRow)), t.N), t.Y.Row(m, 0))
		}
	}
	// Along columns of Other that lie one after the other, memory is read on and on.
	along := t.N
	if t.M <= matmulAlong && t.Other.RowStride == t.Other.DType.Size() {
		along = r.columns
	}
	for n := int64(0); n < t.N; n += along {
		r.sums(t, p, n, min(n+along, t.N))
	}
	r.store(t, at(p.sums), p.sumsRow)
}

// sums computes the chains of columns [begin, end).
func (r *matmulRow[C]) sums(t *MatmulTile, p matmulMemory, begin, end int64) {
	at := func(part int64) unsafe.Pointer { return unsafe.Add(t.Memory, part) }
	for k := int64(0); k == 0 || k < t.K; k += r.depth {
		depth := min(r.depth, t.K-k)
		more := 0
		if t.More || k > 0 {
			more = 1
		}
		r.copy(&r.input, at(p.input), p.inputRow, t.Input.From(0, k), t.M, depth)
		for n := begin; n < end; n += r.columns {
			panel, row := at(p.panels+n*depth*r.size), r.columns*r.size
			width := min(r.columns, t.N-n)
			if depth > 0 && width == r.columns && t.M <= matmulFew && t.Other.Stride == r.size && t.Other.DType == r.compute {
				panel, row = t.Other.Row(k, n).P, t.Other.RowStride
			} else {
				if width < r.columns {
					clear(unsafe.Slice((*C)(panel), depth*r.columns))
				}
				r.copy(&r.other, panel, row, t.Other.From(k, n), depth, width)
			}
			r.run((*byte)(at(p.input)), int(p.inputRow), int(t.M), (*byte)(panel), int(row), int(depth),
				(*byte)(at(p.sums+n*r.size)), int(p.sumsRow), more)
		}
	}
}

// From returns the matrix from a row and a column on.
func (m Rows) From(row, column int64) Rows {
	m.Span = m.Row(row, column)
	return m
}

// copy copies a matrix, so that the elements of a row are of the compute type and
// lie one after the other.
func (r *matmulRow[C]) copy(o *matmulOperand, to unsafe.Pointer, toRow int64, from Rows, rows, columns int64) {
	size := from.DType.Size()
	row := func(i, first int64) {
		loadRow(o.gatherType, unsafe.Slice((*C)(unsafe.Add(to, i*toRow+first*r.size)), columns-first), from.Row(i, first))
	}
	switch {
	case columns == 0:
	case from.Stride == size && from.DType == r.compute:
		for i := range rows {
			copy(unsafe.Slice((*C)(unsafe.Add(to, i*toRow)), columns), unsafe.Slice((*C)(unsafe.Add(from.P, i*from.RowStride)), columns))
		}
	case from.Stride == size || from.RowStride != size || o.turn == nil && from.DType != r.compute:
		for i := range rows {
			row(i, 0)
		}
	case o.turn == nil:
		r.transpose(to, toRow, from.P, from.Stride, columns, rows)
	default:
		wholeRows, wholeColumns := rows&^(tile-1), columns&^(tile-1)
		for j := int64(0); j < wholeColumns && wholeRows > 0; j += tile {
			o.turn((*byte)(unsafe.Add(from.P, j*from.Stride)), int(from.Stride), int(tile*size),
				(*float32)(unsafe.Add(to, j*r.size)), int(toRow), int(tile*toRow), int(wholeRows/tile))
		}
		for i := range rows {
			if first := wholeColumns; i >= wholeRows {
				row(i, 0)
			} else if first < columns {
				row(i, first)
			}
		}
	}
}

// store adds the bias to the sums and stores them.
func (r *matmulRow[C]) store(t *MatmulTile, sums unsafe.Pointer, row int64) {
	bias := BlockOf[C](t.Scratch, 0, int(t.N))
	Load(bias, t.Bias)
	for m := range t.M {
		y := unsafe.Slice((*C)(unsafe.Add(sums, m*row)), t.N)
		if t.Bias.P != nil {
			for n, b := range bias {
				y[n] += b
			}
		}
		storeRow(r.y.gatherType, t.Y.Row(m, 0), y)
	}
}
