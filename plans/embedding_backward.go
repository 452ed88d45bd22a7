package plans

import (
	"sort"
	"unsafe"

	"github.com/isobit-ml/isobit/cpu"
	"github.com/isobit-ml/isobit/tensor"
)

// embeddingBackward sums, for every row of weight, the rows of grad_output
// whose index named it, in Chunk order.
//
// Workspace: the first position of each row in a list, and the list of
// positions ordered by row, both of 64-bit numbers.
var embeddingBackward = op{
	name: "embedding_backward", category: Embedding,
	args: []arg{
		{name: "grad_output", shaped: true, allow: floats},
		{name: "indices", shaped: true, allow: indices},
		{name: "grad_weight", out: true, shaped: true, allow: floats},
	},
	attrs: []attr{
		{name: "padding_idx", def: int64(-1)},
		{name: "accumulate", kind: boolAttr, def: false},
		{name: "scale_grad_by_freq", kind: boolAttr, def: false},
	},
	infer: func(p *Problem) error {
		dy, index, dw := p.Shape("grad_output"), p.Shape("indices"), p.Shape("grad_weight")
		if len(dw) != 2 {
			return p.errorf("grad_weight", "has shape %s; want [V, D]", tensor.ShapeString(dw))
		}
		if want := append(index[:len(index):len(index)], dw[1]); tensor.ShapeString(dy) != tensor.ShapeString(want) {
			return p.errorf("grad_output", "has shape %s; want %s", tensor.ShapeString(dy), tensor.ShapeString(want))
		}
		if pad := p.int("padding_idx"); pad < -1 {
			return p.errorf("padding_idx", "is %d; want a row, or -1 for none", pad)
		}
		return sameTypeAs("grad_weight", "grad_output")(p)
	},
	build: func(pl *plan) error {
		p := &pl.problem
		compute := cpu.ComputeType(p.DType("grad_output"))
		kernel, err := selectRow(pl, cpu.EmbeddingBackward, cpu.Types{Compute: compute, In: [4]tensor.DType{p.DType("grad_output")}})
		if err != nil {
			return err
		}
		vocabulary, positions := p.Shape("grad_weight")[0], tensor.NumElements(p.Shape("indices"))
		pl.workspace = (vocabulary + 1 + positions) * 8
		e := embeddingSum{
			kernel: kernel, padding: p.int("padding_idx"),
			accumulate: p.bool("accumulate"), byFreq: p.bool("scale_grad_by_freq"),
		}
		pl.run = e.run
		return nil
	},
	rows: namesOf(cpu.EmbeddingBackward),
}

type embeddingSum struct {
	kernel             func(*cpu.EmbeddingSum)
	padding            int64
	accumulate, byFreq bool
}

// Jobs handle whole rows, which memory likes best. Only if a row has more than
// hotRow contributions, rows are cut along their columns, which keeps their order.
const (
	columnTile = cpu.Block
	hotRow     = 1024
)

func (e *embeddingSum) run(c *call) error {
	start, order := c.sortByRow(e.padding)
	dy, dw := &c.args[0], &c.args[2]
	rows, columns := dw.Shape[0], dw.Shape[1]
	if rows == 0 || columns == 0 {
		return nil
	}
	b := &c.embedding
	b.embeddingSum, b.start, b.order = e, start, order
	b.rows, b.columns, b.width = rows, columns, columns
	for row := range rows {
		if start[row+1]-start[row] > hotRow {
			b.width = columnTile
			break
		}
	}
	b.tiles = ceilDiv(columns, b.width)
	b.gradOutput = matrixOf(dy)
	b.stream = dw.NumElements()*dw.DType.Size() >= streamFrom
	b.load = int64(len(order)) + rows
	b.ranges = min(rows, max(1, b.load*columns/jobSize))
	c.parallel(b.ranges*b.tiles, b.load*columns, sumRows)
	return nil
}

// embeddingCall is what the jobs of one run share.
type embeddingCall struct {
	*embeddingSum
	start, order  []int64
	gradOutput    cpu.Matrix
	rows, columns int64
	width, tiles  int64 // columns of a job; jobs of a row
	ranges, load  int64 // of rows; contributions and rows together
	stream        bool
}

// firstRow returns the first row of a range: all have about the same number
// of rows and contributions together, unless one row has more by itself.
func (b *embeddingCall) firstRow(number int64) int64 {
	want := b.load / b.ranges * number
	if number == b.ranges {
		want = b.load
	}
	return int64(sort.Search(int(b.rows), func(r int) bool { return b.start[r]+int64(r) >= want }))
}

func sumRows(c *call, w *worker, number int64) {
	b, sum := &c.embedding, &w.embedding
	first, last := b.firstRow(number/b.tiles), b.firstRow(number/b.tiles+1)
	column := number % b.tiles * b.width
	*sum = cpu.EmbeddingSum{
		GradOutput: b.gradOutput, Column: column, Columns: min(b.width, b.columns-column),
		Accumulate: b.accumulate, ByFreq: b.byFreq, Stream: b.stream, Scratch: &w.scratch,
	}
	for row := first; row < last; row++ {
		sum.Positions = b.order[b.start[row]:b.start[row+1]]
		sum.Out = rowAt(&c.args[2], row).At(column)
		b.kernel(sum)
	}
}

// matrixOf describes a tensor by rows: its innermost dimension.
func matrixOf(v *tensor.View) (m cpu.Matrix) {
	size := v.DType.Size()
	last := len(v.Shape) - 1
	m.Span = cpu.Span{P: v.Data, Stride: v.Stride(last) * size, DType: v.DType}
	for d := range last {
		m.Size[m.Dims], m.Strides[m.Dims] = v.Shape[d], v.Stride(d)*size
		if m.Dims > 0 && m.Strides[m.Dims-1] == m.Strides[m.Dims]*m.Size[m.Dims] {
			m.Dims--
			m.Size[m.Dims], m.Strides[m.Dims] = m.Size[m.Dims]*v.Shape[d], v.Stride(d)*size
		}
		m.Dims++
	}
	return m
}

// sortByRow lists the positions of indices by the row they name, ascending
// within a row: those of row r are order[start[r]:start[r+1]]. Indices that
// name no row, or the padding row, are left out.
func (c *call) sortByRow(padding int64) (start, order []int64) {
	index, rows := &c.args[1], c.args[2].Shape[0]
	n := index.NumElements()
	memory := unsafe.Slice((*int64)(unsafe.Pointer(unsafe.SliceData(c.workspace))), rows+1+n)
	start, order = memory[:rows+1], memory[rows+1:]
	clear(start)
	kept := func(r int64) bool { return r >= 0 && r < rows && r != padding }
	for i := range n {
		if r := indexAt(index, i); kept(r) {
			start[r+1]++
		}
	}
	for r := range rows {
		start[r+1] += start[r]
	}
	order = order[:start[rows]:start[rows]]
	for i := range n {
		if r := indexAt(index, i); kept(r) {
			order[start[r]] = i
			start[r]++
		}
	}
	// Every start moved to its end, which is the next row's start.
	copy(start[1:], start[:rows])
	start[0] = 0
	return start, order
}
