package plans

import (
	"unsafe"

	"github.com/isobit-ml/isobit/cpu"
)

// Sums whose elements lie apart, such as those of a transposed output: kernels store elements that follow one another, so
// that some rows are summed in the worker's memory, and copied from there.

// areApart reports whether rows of so many columns lie so, and one at least has room.
func (b *rowSumsCall) areApart(columns int64) bool {
	size := b.to.DType.Size()
	return b.to.Stride != size && b.spread == nil && columns*size <= copiedSize
}

// sumApart sums count such rows, of which sum has the first.
func (b *rowSumsCall) sumApart(w *worker, sum *cpu.EmbeddingSums, count int64) {
	start, named, out, apart, choice := sum.Start, sum.Named, sum.Out, sum.Apart, sum.Choice.Span
	size, most := out.DType.Size(), max(1, copySize/sum.Columns)
	sum.Out = cpu.Span{P: w.copied.of(0), Stride: size, DType: out.DType}
	sum.Apart, sum.Named, sum.Stream = sum.Columns*size, nil, false
	for done := int64(0); done < count; {
		rows, place := min(most, count-done), done
		if named != nil {
			rows, place = 1, named[done]
		}
		l := layout{dims: 2, packed: -1}
		l.start[0], l.size = unsafe.Add(out.P, place*apart), [maxDims]int64{rows, sum.Columns}
		l.stride[0] = [maxDims]int64{apart, out.Stride}
		sum.Start = start[done : done+rows+1]
		if b.choice != nil {
			sum.Choice.P = unsafe.Add(choice.P, done*sum.Choice.Strides[0])
		}
		if b.accumulate {
			b.copyApart(w, &l, copyInputs)
		}
		b.kernel(sum)
		b.copyApart(w, &l, copyOutput)
		done += rows
	}
}

// copyApart copies such rows to the worker's memory, or back.
func (b *rowSumsCall) copyApart(w *worker, l *layout, back bool) {
	cur := &w.cursors[ofCopies]
	cur.shift[0] = 0
	copierOf(b.to.DType, back).piece(l, cur, 0, l.count(), w.copied.of(0))
}
