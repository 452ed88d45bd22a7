package plans

import (
	"sort"

	"github.com/isobit-ml/isobit/cpu"
	"github.com/isobit-ml/isobit/tensor"
)

// rowSums are sums of rows: row r of out is the sum of those rows of terms whose numbers
// are order[start[r]:start[r+1]]. With few named rows, r is the number that named gives a row.
type rowSums struct {
	kernel             func(*cpu.EmbeddingSums)
	terms              cpu.Matrix
	codes              cpu.WeightRows // instead of terms
	out                *tensor.View
	accumulate, byFreq bool
	spread             cpu.RepeatEach // where all columns are alike: copies the sum of the first one over its row; else nil

	start, order []int64
	named        namedRows // rows of out that have terms, where these are few
	factors      cpu.Span  // what each term is multiplied by, in the order of order; or none

	// Of bags of mode max.
	sources []int64      // of each element of order, its position among the indices; backward, in its bag
	ranks   []uint32     // backward, of each element of terms: the position in its bag that it came from
	choice  *tensor.View // a second output, of the positions that were chosen
}

// sumTypes are the types of sums of rows.
func sumTypes(terms, out tensor.DType) cpu.Types {
	return cpu.Types{Compute: out.Compute(), In: cpu.InTypes{terms}, Out: cpu.OutTypes{out}}
}

// A job sums whole rows, which are read fastest. Only if some row has more than hotRow
// terms, jobs take columnTile columns each: so terms are still added in their order.
const (
	columnTile = cpu.Block
	hotRow     = 1024
)

// rowSumsCall is what the jobs of one run share.
type rowSumsCall struct {
	rowSums
	rows, columns int64
	width, tiles  int64      // columns of a job; jobs of a row
	ranges, load  int64      // ranges of rows, a job each; the number of terms and of rows together
	to            cpu.Matrix // out, by rows
	stream        bool
	decoded       tensor.View // see decodedTable
	late          bool        // with mode=max: rows of 16 bits get slots while they are summed
}

// sumRows computes the sums on the call's threads.
func (c *call) sumRows(sums *rowSums) {
	rows, columns := sums.out.Shape[0], sums.out.Shape[1]
	b := need(&c.rowSums)
	b.rowSums = *sums
	if sums.spread != nil {
		columns = 1
	}
	b.rows, b.columns, b.width, b.to = rows, columns, columns, matrixOf(b.out)
	terms := b.start[len(b.start)-1] - b.start[0]
	if terms > hotRow && pickSupport(cpu.FirstOutside, cpu.Types{}).LeapsI64(b.start, hotRow) {
		b.width = columnTile
	}
	b.tiles = ceilDiv(columns, b.width)
	b.stream = b.out.NumElements()*b.out.DType.Size() >= streamFrom
	b.load = terms + rows
	// Few jobs cost little, and eight a worker balance them; a job is about as long
	// as Go's scheduler may wait.
	cost := b.load * columns
	if sums.spread != nil {
		cost += sums.out.NumElements()
	}
	size := max(jobSize, min(4*jobSize, cost/c.parts(cost, 8)))
	b.ranges = min(rows, max(1, ceilDiv(cost, size)))
	c.parallel(b.ranges*b.tiles, cost, sumRange)
}

// firstRow returns the first row of a range. Ranges have about the same number of rows
// and terms together, unless one row has more by itself.
func (b *rowSumsCall) firstRow(number int64) int64 {
	want := b.load / b.ranges * number
	if number == b.ranges {
		want = b.load
	}
	return int64(sort.Search(int(b.rows), func(r int) bool { return b.start[b.named.number(int64(r))]-b.start[0]+int64(r) >= want }))
}

// sumRange is a job: some columns, or all, of a range of rows.
func sumRange(c *call, w *worker, number int64) {
	b, sum := c.rowSums, &w.ownArgs().embedding
	first, last := b.firstRow(number/b.tiles), b.firstRow(number/b.tiles+1)
	if first == last { // a row before has more than its share; first may be where memory ends
		return
	}
	column := number % b.tiles * b.width
	columns := min(b.width, b.columns-column)
	*sum = cpu.EmbeddingSums{Apart: b.to.Strides[0], EmbeddingSum: cpu.EmbeddingSum{
		Terms: b.terms, Codes: b.codes, Positions: b.order, Factors: b.factors, Sources: b.sources, Ranks: b.ranks, Width: b.columns,
		Accumulate: b.accumulate, ByFreq: b.byFreq, Stream: b.stream && b.spread == nil, Scratch: &w.scratch,
	}}
	if b.named.bits != nil {
		b.sumNamed(w, sum, first, last, column, columns)
		return
	}
	b.sumRun(w, sum, first, first, last-first, column, columns)
}

// sumRun sums rows whose numbers follow one another, into those from a row on, or where sum.Named says.
func (b *rowSumsCall) sumRun(w *worker, sum *cpu.EmbeddingSums, row, number, count, column, columns int64) {
	sum.Start, sum.Out, sum.Column, sum.Columns = b.start[number:number+count+1], b.to.Row(row, column), column, columns
	if b.choice != nil {
		sum.Choice = matrixOf(b.choice)
		sum.Choice.Span = sum.Choice.Row(row, 0)
	}
	if b.areApart(columns) {
		b.sumApart(w, sum, count)
		return
	}
	b.kernel(sum)
	if b.spread == nil {
		return
	}
	if width := b.out.Shape[1]; sum.Named == nil && sum.Apart == width*b.to.DType.Size() { // rows follow one another
		b.spread(sum.Out.P, sum.Out.P, sum.Apart, count, width)
	} else {
		for r := range int(count) {
			to := sum.Place(r)
			b.spread(to, to, 0, 1, width)
		}
	}
}

// numberEvenly renumbers terms whose rows have several strides, such as those of a gradient that is expanded along some
// dimensions, so that row n lies n steps after the first; a step is the greatest common divisor of the strides.
func (s *rowSums) numberEvenly() {
	m := s.terms
	if m.Dims < 2 {
		return
	}
	step, steps := int64(0), int64(0)
	for _, stride := range m.Strides[:m.Dims] {
		for a := stride; a != 0; {
			step, a = a, step%a
		}
	}
	step = max(step, -step)
	for d, n := range m.Size[:m.Dims] {
		m.Strides[d] /= step
		steps += (n - 1) * max(m.Strides[d], -m.Strides[d])
	}
	for i, number := range s.order {
		place := int64(0)
		for d := m.Dims - 1; d > 0; d-- {
			next := number / m.Size[d]
			place += (number - next*m.Size[d]) * m.Strides[d]
			number = next
		}
		s.order[i] = place + number*m.Strides[0]
	}
	s.terms.Dims, s.terms.Size[0], s.terms.Strides[0] = 1, steps+1, step
}

// matrixOf describes a tensor by rows: its innermost dimension. One column lies as if there were more, one after the
// other.
func matrixOf(v *tensor.View) (m cpu.Matrix) {
	size := v.DType.Size()
	last := len(v.Shape) - 1
	m.Span = cpu.Span{P: v.Data, Stride: size, DType: v.DType}
	if v.Shape[last] != 1 {
		m.Stride *= v.Stride(last)
	}
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
