package cpu

import (
	"slices"
	"unsafe"

	"github.com/isobit-ml/isobit/tensor"
)

// What stands between BagMax and the generated kernels of bags' largest elements.

// bagMax is a generated BagMax of one type.
type bagMax struct {
	needs ISA
	dtype tensor.DType
	run   func(rows *byte, stride int, start *int64, results int, positions *int64, known int,
		sources *int64, to *byte, apart, columns int, choice *int64, choiceApart int) int
}

// maxRows makes the table of BagMax.
func maxRows(definition func(Types) (func(*EmbeddingSums), bool)) []Row[func(*EmbeddingSums)] {
	return tableOf(definition, func(isa ISA, t Types) (func(*EmbeddingSums), bool) {
		for i := range bagMaxima {
			if b := &bagMaxima[i]; b.needs == isa && b.dtype == t.In[0] {
				slow, _ := definition(t)
				inParts := ForCompute(b.dtype, largestInParts[float32], largestInParts[float64])
				narrow := b
				if b.dtype != tensor.F64 { // of which they are a whole vector
					narrow = &bagMaxima[slices.IndexFunc(bagMaxima, func(n bagMax) bool { return n.needs == AVX2 && n.dtype == b.dtype })]
				}
				return func(m *EmbeddingSums) {
					by := b
					if m.Columns <= narrowColumns {
						by = narrow
					}
					by.find(m, inParts, slow)
				}, true
			}
		}
		return nil, false
	})
}

// longestBag is how many rows a call of a kernel compares for one bag: Go's
// scheduler waits for it.
const longestBag = 1024

// find takes the columns that the kernel does, and leaves the others to the
// definition; inParts takes bags of many rows.
func (b *bagMax) find(m *EmbeddingSums, inParts func(b *bagMax, e *EmbeddingSum), slow func(*EmbeddingSums)) {
	whole := m.Columns
	if !m.Terms.hasEvenRows() || !m.Out.Contiguous() || m.Choice.P != nil && !m.Choice.hasEvenRows() {
		whole = 0
	}
	m.at = m.EmbeddingSum
	m.at.Columns = whole
	for at := 0; at < m.destinations() && whole > 0; {
		short := at
		for short < m.destinations() && m.Start[short+1]-m.Start[short] <= longestBag {
			short++
		}
		if short == at {
			inParts(b, m.one(at))
			at++
			continue
		}
		var choice resultRows
		if m.Choice.P != nil {
			choice = resultRows{m.Choice.Row(int64(at), m.Column).P, m.Choice.Strides[0]}
		}
		b.call(&m.EmbeddingSum, m.Start[at:short+1], resultRows{unsafe.Add(m.Out.P, int64(at)*m.Apart), m.Apart}, choice, 0, whole)
		at = short
	}
	if whole < m.Columns {
		m.Column, m.Columns, m.Out = m.Column+whole, m.Columns-whole, m.Out.At(whole)
		slow(m)
	}
}

// call runs the kernel on columns from at on.
func (b *bagMax) call(e *EmbeddingSum, start []int64, to, choice resultRows, at, columns int64) {
	b.run((*byte)(e.Terms.Row(0, e.Column+at).P), int(e.Terms.Strides[0]), &start[0], len(start)-1, unsafe.SliceData(e.Positions), e.early(nearOf(b.needs, true)),
		unsafe.SliceData(e.Sources), (*byte)(to.first), int(to.apart), int(columns), (*int64)(choice.first), int(choice.apart))
}

// largestInParts compares one bag's rows some at a time, and the parts' largest
// in turn: what is largest of all, or the first NaN, is so in its part.
func largestInParts[C Compute](b *bagMax, e *EmbeddingSum) {
	for at, width := int64(0), 0; at < e.Columns; at += int64(width) {
		width = int(min(Block, e.Columns-at))
		best, v, part := BlockOf[C](e.Scratch, 0, width), BlockOf[C](e.Scratch, 1, width), BlockOf[float64](e.Scratch, 2, width)
		from, partFrom, start := e.Scratch.Ints(0, width), e.Scratch.Ints(1, width), e.Scratch.Ints(2, 2)
		found := Span{unsafe.Pointer(&part[0]), e.Out.Stride, b.dtype}
		for first := 0; first < len(e.Positions); first += longestBag {
			start[0], start[1] = int64(first), int64(min(first+longestBag, len(e.Positions)))
			b.call(e, start, resultRows{first: found.P}, resultRows{first: unsafe.Pointer(&partFrom[0])}, at, int64(width))
			Load(v, found)
			for i, v := range v {
				if b := best[i]; first == 0 || v > b || v != v && b == b {
					best[i], from[i] = v, partFrom[i]
				}
			}
		}
		Store(e.Out.At(at), best)
		if e.Choice.P != nil {
			storeInts(e.Choice.Row(e.bag, e.Column+at), from)
		}
	}
}
