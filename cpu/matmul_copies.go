package cpu

import (
	"unsafe"

	"github.com/isobit-ml/isobit/tensor"
)

// How Matmul's factors are read: where they lie, or as copies of which the elements
// of a row lie one after the other.

// matmulOperand is how an operand's type is read and written.
type matmulOperand struct {
	*gatherType
	transpose transposeTile
}

func newMatmulOperand(needs ISA, d tensor.DType) matmulOperand {
	return matmulOperand{typeFor(needs, d), matmulTypeFor(needs, d).transpose}
}

// From returns the matrix from a row and a column on.
func (m Rows) From(row, column int64) Rows {
	m.Span = m.Row(row, column)
	return m
}

// copy copies a matrix, so that the elements of a row are of the compute type and
// lie one after the other.
func (r *kernelMatmul[C]) copy(o *matmulOperand, to unsafe.Pointer, toRow int64, from Rows, rows, columns int64) {
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
	case from.Stride == size || from.RowStride != size:
		for i := range rows {
			row(i, 0)
		}
	case from.DType == r.compute && rows > 1 && (rows < squareSide || columns < squareSide):
		r.transpose(to, toRow, from.P, from.Stride, columns, rows)
	default:
		wholeRows, wholeColumns := rows&^(squareSide-1), columns&^(squareSide-1)
		for j := int64(0); j < wholeColumns && wholeRows > 0; j += squareSide {
			o.transpose((*byte)(unsafe.Add(from.P, j*from.Stride)), int(from.Stride), int(squareSide*size),
				(*float32)(unsafe.Add(to, j*r.size)), int(toRow), int(squareSide*toRow), int(wholeRows/squareSide))
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

// zerosBelow clears the rows below Input's copies, as long as so many elements of a size.
func zerosBelow(p *matmulMemory, elements, size int64) {
	for m := p.count; m < p.rows; m++ {
		clear(unsafe.Slice((*byte)(unsafe.Add(p.from, m*p.fromRow)), elements*size))
	}
}

// copyInput copies what Input has along K, unless it is read where it lies.
func (r *kernelMatmul[C]) copyInput(t *MatmulTile, p *matmulMemory, k, depth int64) {
	if p.rows == p.count && near(&t.Input, p.count) && t.Input.Stride == r.size && t.Input.DType == r.compute {
		p.from, p.fromRow = t.Input.Row(p.first, k).P, t.Input.RowStride
		return
	}
	p.from, p.fromRow = unsafe.Add(t.Memory, p.input), p.inputRow
	if all := p.count * depth; t.Input.RowStride == depth*t.Input.Stride && all*r.size <= matmulNear {
		p.fromRow = depth * r.size
		loadRow(r.input.gatherType, unsafe.Slice((*C)(p.from), all), t.Input.Row(p.first, k)) // small matrices have few elements in a row
	} else {
		r.copy(&r.input, p.from, p.inputRow, t.Input.From(p.first, k), p.count, depth)
	}
	zerosBelow(p, depth, r.size)
}

// Transposed returns the matrix whose rows are m's columns.
func (m Rows) Transposed() Rows {
	m.Stride, m.RowStride = m.RowStride, m.Stride
	return m
}

// near reports whether some rows of a matrix lie within so few bytes that they do not
// compete for the same sets of a cache.
func near(m *Rows, rows int64) bool { return m.RowStride > 0 && rows*m.RowStride <= matmulNear }
