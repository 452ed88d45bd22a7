package plans

import (
	"github.com/isobit-ml/isobit/cpu"
	"github.com/isobit-ml/isobit/tensor"
)

// Elements of rows with gaps between them: of so few those that lie apart take less time than many short rows; of less than
// so many it is the walk from row to row that takes long.
const (
	clearApart = 4
	clearRows  = 128
)

// clearOutput clears an output on the call's threads, in the order in which it lies.
func (c *call) clearOutput(out *tensor.View) {
	l, b, size := &need(&c.mapping).all, need(&c.rowSums), out.DType.Size()
	l.dims, l.packed, l.start[0], l.repeated = len(out.Shape), -1, out.Data, [kernelOperands]bool{}
	for d, n := range out.Shape {
		l.size[d], l.stride[0][d], l.nibbles[d] = n, out.Stride(d)*size, 0
	}
	l.coalesce(1)
	l.asStored(0, 1)
	b.columns = 1
	switch inner := l.dims - 1; {
	case inner == 0:
	case l.size[inner] <= clearApart && l.size[inner] < l.size[inner-1]:
		l.swap(inner-1, inner, 1)
	case l.size[inner] < clearRows:
		b.columns, l.dims = l.size[inner], inner
	}
	n := l.count()
	b.out, b.rows, b.stream = out, n, n*b.columns*size >= streamFrom
	c.parallel(ceilDiv(n, rowsPerJob(b.columns)), n*b.columns, clearPart)
}

// clearPart is a job: it clears some of the elements, or of the rows of several.
func clearPart(c *call, w *worker, number int64) {
	l, b, cur, perJob := &c.all, c.rowSums, &w.cursors[ofElements], rowsPerJob(c.rowSums.columns)
	l.walk(cur, number*perJob, min((number+1)*perJob, b.rows), 1, func(n int64) {
		part := l.span(cur, 0, b.out.DType)
		if b.columns == 1 {
			cpu.ClearRow(part, n, b.stream)
			return
		}
		rows := cpu.Matrix{Span: part, Dims: 1}
		rows.Stride, rows.Strides[0] = l.stride[0][l.dims], part.Stride
		cpu.ClearRows(&rows, 0, n, 0, b.columns, b.stream)
	})
}
