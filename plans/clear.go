package plans

import (
	"github.com/isobit-ml/isobit/cpu"
	"github.com/isobit-ml/isobit/tensor"
)

// clearOutput clears an output on the call's threads, in the order in which it lies.
func (c *call) clearOutput(out *tensor.View) {
	l, size := &c.all, out.DType.Size()
	l.dims, l.packed, l.start[0], l.repeated = len(out.Shape), -1, out.Data, [kernelOperands]bool{}
	for d, n := range out.Shape {
		l.size[d], l.stride[0][d], l.nibbles[d] = n, out.Stride(d)*size, 0
	}
	l.coalesce(1)
	l.asStored(0, 1)
	if inner := l.dims - 1; inner > 0 && l.size[inner] < shortRow && l.size[inner] < l.size[inner-1] {
		l.swap(inner-1, inner, 1) // elements that lie apart take less time than many short rows
	}
	n := l.count()
	c.rowSums.out, c.rowSums.stream = out, n*size >= streamFrom
	c.parallel(ceilDiv(n, jobSize), n, clearPart)
}

// clearPart is a job: it clears some of the elements.
func clearPart(c *call, w *worker, number int64) {
	l, cur, dtype := &c.all, &w.cursors[ofElements], c.rowSums.out.DType
	begin := number * jobSize
	l.walk(cur, begin, min(begin+jobSize, l.count()), 1, func(n int64) {
		cpu.ClearRow(l.span(cur, 0, dtype), n, c.rowSums.stream)
	})
}
