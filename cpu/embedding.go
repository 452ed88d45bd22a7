package cpu

import (
	"unsafe"

	"github.com/isobit-ml/isobit/tensor"
)

// Rows is a matrix: element (r, c) lies RowStride*r + Stride*c bytes after P.
type Rows struct {
	Span
	RowStride int64
}

// Row returns the columns of row r from column c on.
func (m Rows) Row(r, c int64) Span {
	s := m.Span
	s.P = unsafe.Add(m.P, r*m.RowStride+c*m.Stride)
	return s
}

// RowCopies are rows to be copied: row First+i of To becomes row Indices[i] of From.
type RowCopies struct {
	To, From Matrix
	First    int64
	Indices  []int64
	Columns  int64
	Early    int  // how many rows ahead rows of From are prefetched
	Stream   bool // store around the caches; see StoreFence
}

// Embedding copies rows of weight.
var Embedding = withDefinition(copyRows, always(copyRowsGo))

func copyRowsGo(r *RowCopies) {
	for i, row := range r.Indices {
		CopyRow(r.To.Row(r.First+int64(i), 0), r.From.Row(row, 0), r.Columns)
	}
}

// CopyRow copies n elements of the same type as they are.
func CopyRow(dst, src Span, n int64) {
	size := dst.DType.Size()
	if dst.Contiguous() && src.Contiguous() {
		copy(unsafe.Slice((*byte)(dst.P), n*size), unsafe.Slice((*byte)(src.P), n*size))
		return
	}
	strided, _ := pickStridedCopy(Types{In: InTypes{dst.DType}})
	strided(dst.P, dst.Stride, src.P, src.Stride, n)
}

// zeros are what ZeroRow copies: an element of any type.
var zeros uint64

// ZeroRow clears n elements.
func ZeroRow(dst Span, n int64) {
	if dst.Contiguous() {
		clear(unsafe.Slice((*byte)(dst.P), n*dst.DType.Size()))
		return
	}
	CopyRow(dst, Span{P: unsafe.Pointer(&zeros), DType: dst.DType}, n)
}

// EmbeddingSums are tiles of destination rows that follow one another: sums of
// the same columns of several rows. In a backward pass those are rows of
// grad_output and the destinations those of grad_weight, in bags rows of weight
// and those of y.
type EmbeddingSums struct {
	EmbeddingSum              // the first destination, with the lists (Positions, Factors, Sources) of all
	Start        []int64      // where in the lists each destination begins, and where the last ends
	Apart        int64        // bytes from destination to destination
	Named        []int64      // how many of these after Out each destination lies; nil: they follow one another
	at           EmbeddingSum // one's result
}

// EmbeddingSum is one destination row of an EmbeddingSums.
type EmbeddingSum struct {
	Terms Matrix
	Codes WeightRows // instead of Terms, in bags of codes: what these stand for, rounded to Out's type
	Width int64      // elements of a row of Terms

	Positions []int64 // rows of Terms, in order
	Factors   Span    // what each row is multiplied by, one after the other in the type of Terms; without P: nothing

	Out        Span  // the destination, from its first column of interest
	Column     int64 // the first column of interest
	Columns    int64
	Accumulate bool
	ByFreq     bool // divide the sum by the number of contributions
	Stream     bool // store around the caches; see StoreFence

	// Of bags of mode max.
	Sources []int64  // of each row, the position among the indices that named it; backward, its rank in the bag
	Choice  Matrix   // an output, of each element the position that it came from, from the first destination on
	Ranks   []uint32 // backward: of each element of Terms, the rank in its bag of the row that it came from
	bag     int64    // row of Choice

	groups *columnGroups // of codes whose columns have parameters of several groups; else nil
	rows   bool          // of codes: sums are of one row each, and have its -0

	Scratch *Scratch
}

// Matrix is a tensor whose rows are picked by their row-major number among the
// dimensions before the last; Size are their extents, Strides their distances in
// bytes, outermost first.
type Matrix struct {
	Span
	Dims    int
	Size    [tensor.MaxRank]int64
	Strides [tensor.MaxRank]int64
}

// Row returns the span of a row's elements from a column on.
func (m *Matrix) Row(number, column int64) Span {
	offset := column * m.Stride
	for d := m.Dims - 1; d > 0; d-- {
		offset += number % m.Size[d] * m.Strides[d]
		number /= m.Size[d]
	}
	if m.Dims > 0 {
		offset += number * m.Strides[0]
	}
	s := m.Span
	s.P = unsafe.Add(m.P, offset)
	return s
}

// rowCount returns the number of rows.
func (m *Matrix) rowCount() int64 {
	count := int64(1)
	for _, n := range m.Size[:m.Dims] {
		count *= n
	}
	return count
}

// hasEvenRows reports whether elements of a row lie one after the other, and rows a
// stride apart.
func (m *Matrix) hasEvenRows() bool { return m.Contiguous() && m.Dims == 1 }

// RowSums sums rows in Chunk order, into (or onto) a row: those that a bag names,
// or those of grad_output that one index picked.
var RowSums = embeddingRows(byCompute(each(rowSumsGo[float32]), each(rowSumsGo[float64])))

// destinations returns how many there are.
func (m *EmbeddingSums) destinations() int { return len(m.Start) - 1 }

// one returns the sum of a destination, once m.at has what all have in common.
// It is m's own, so that running does not allocate.
func (m *EmbeddingSums) one(number int) *EmbeddingSum {
	from, to, e := m.Start[number], m.Start[number+1], &m.at
	e.Positions = m.Positions[from:to]
	if m.Factors.P != nil && from < to {
		e.Factors = m.Factors.At(from)
	}
	if m.Sources != nil {
		e.Sources = m.Sources[from:to]
	}
	e.Out.P, e.bag = m.Place(number), int64(number)
	return e
}

// Place is where a destination lies.
func (m *EmbeddingSums) Place(number int) unsafe.Pointer {
	at := int64(number)
	if m.Named != nil {
		at = m.Named[number]
	}
	return unsafe.Add(m.Out.P, at*m.Apart)
}

// each makes a kernel for many destinations of one for one.
func each(one func(*EmbeddingSum)) func(*EmbeddingSums) {
	return func(m *EmbeddingSums) {
		m.at = m.EmbeddingSum
		for number := range m.destinations() {
			one(m.one(number))
		}
	}
}

func rowSumsGo[C Compute](e *EmbeddingSum) {
	for at := int64(0); at < e.Columns; at += Block {
		width := int(min(Block, e.Columns-at))
		term := BlockOf[C](e.Scratch, 0, width)
		chunks := NewChunks[C](e.Scratch, 2, width)
		for i, p := range e.Positions {
			if i%touchRows == 0 {
				e.touchAhead(i, at, int64(width))
			}
			acc := chunks.Next()
			loadTerm(e, term, p, e.Column+at)
			if e.Factors.P != nil {
				factor := BlockOf[C](e.Scratch, 1, 1)
				Load(factor, e.Factors.At(int64(i)))
				multiply(term, factor[0])
			}
			addInto(acc, acc, term)
		}
		finishSum(e, &gatherType{}, e.Out.At(at), chunks.Sum())
	}
}

// loadTerm loads elements of a row of terms, or makes them of codes, as dequantize does.
func loadTerm[C Compute](e *EmbeddingSum, term []C, row, column int64) {
	if e.Codes.Weight.P == nil {
		Load(term, e.Terms.Row(row, column))
		return
	}
	loadWeights(&e.Codes, e.Scratch, term, row, column)
	roundTo(e.Out.DType, e.Scratch, term)
}

// Rows that lie anywhere are touched before they are read, touchRows of them, so
// that their cache misses overlap: up to touchBytes of each, since the rest the
// processor prefetches by itself. Smaller tables than touchFrom bytes stay in caches.
const (
	touchRows  = 16
	touchBytes = 1024
	touchFrom  = 4 << 20
)

// touchAhead prefetches the first lines of the next rows, of width columns from column on.
func (e *EmbeddingSum) touchAhead(k int, column, width int64) {
	if !e.Terms.Contiguous() || width == 0 || e.Terms.rowCount()*width*e.Terms.Stride < touchFrom {
		return
	}
	for _, p := range e.Positions[k:min(k+touchRows, len(e.Positions))] {
		row := e.Terms.Row(p, e.Column+column)
		prefetch(row.P, min(width*row.Stride, touchBytes), e.Scratch)
	}
}

func multiply[C Compute](x []C, factor C) {
	for i := range x {
		x[i] *= factor
	}
}

// finishSum stores a finished sum of some columns, which kernels of a type may round.
func finishSum[C Compute](e *EmbeddingSum, t *gatherType, out Span, sum []C) {
	if e.ByFreq && len(e.Positions) > 0 {
		for i := range sum {
			sum[i] /= C(len(e.Positions))
		}
	}
	if e.Accumulate {
		there := BlockOf[C](e.Scratch, 0, len(sum))
		Load(there, out)
		addInto(sum, there, sum)
	}
	storeRow(t, out, sum)
}
