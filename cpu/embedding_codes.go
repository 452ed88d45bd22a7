package cpu

import (
	"slices"
	"unsafe"

	"github.com/isobit-ml/isobit/tensor"
)

// Bags of a table that is stored as codes have the bits of bags of what the codes
// stand for. Kernels dequantize on the way where they can. Else the rows that some bags
// name are dequantized into memory that stays in a near cache, and summed there as
// floats are.

// CodeBags sums rows of codes, CodeBagMax takes the largest of each column.
var (
	CodeBags   = codeRows(RowSums, tensor.DType.Compute, byCompute(each(rowSumsGo[float32]), each(rowSumsGo[float64])))
	CodeBagMax = codeRows(BagMax, itself, byCompute(each(bagMaxGo[float32]), each(bagMaxGo[float64])))
)

func itself(d tensor.DType) tensor.DType { return d }

// roundTo rounds elements to a storage type.
func roundTo[C Compute](d tensor.DType, s *Scratch, v []C) {
	if d.Size() != int64(unsafe.Sizeof(C(0))) {
		stored := Span{P: unsafe.Pointer(&s.blocks[weightBlocks]), Stride: d.Size(), DType: d}
		Store(stored, v)
		Load(v, stored)
	}
}

// codeBags is a row for some types.
type codeBags struct {
	weightRow
	terms, out tensor.DType         // of dequantized rows, of results
	bags       func(*EmbeddingSums) // of dequantized rows
	chunk      func(*EmbeddingSums) // sums a chunk of a long bag
	direct     *rowSum              // sums codes; or nil
	slow       func(*EmbeddingSums)
}

const (
	codeColumns = 64                          // of a long bag at a time
	codeTerms   = codeColumns * ChunkSize / 2 // elements of short bags at a time: half of a near cache
	codeBagsAt  = Block - 1                   // bags at a time
)

// counting are the numbers of dequantized rows.
var counting = func() (n [TileSize]int64) {
	for i := range n {
		n[i] = int64(i)
	}
	return n
}()

// codeRows makes a table: a row for each instruction set that dequantizes and has sums
// of floats, whose terms are of the type that termsOf makes of the results'.
func codeRows(floats []Row[func(*EmbeddingSums)], termsOf func(tensor.DType) tensor.DType, definition func(Types) (func(*EmbeddingSums), bool)) []Row[func(*EmbeddingSums)] {
	sum := termsOf(tensor.BF16) == tensor.F32
	return tableOf(definition, func(isa ISA, t Types) (func(*EmbeddingSums), bool) {
		at := slices.IndexFunc(weightKernels, func(k weightKernel) bool { return k.needs == isa })
		terms := termsOf(t.Out[0])
		if at < 0 || t.Compute != tensor.F32 {
			return nil, false
		}
		b := &codeBags{terms: terms, out: t.Out[0], weightRow: weightRow{weightKernel: &weightKernels[at], x: typeFor(isa, t.Out[0])}}
		b.setCodes(t.In[0])
		sums := Types{Compute: t.Compute, In: InTypes{terms}, Out: t.Out}
		b.bags, _ = PickUpTo(floats, isa, sums)
		sums.In[0], sums.Out[0] = tensor.F32, tensor.F32
		b.chunk, _ = PickUpTo(RowSums, isa, sums)
		b.slow, _ = definition(t)
		if i := slices.IndexFunc(codeSums, func(s rowSum) bool { return s.needs == isa && s.in == t.In[0] }); sum && i >= 0 {
			direct := codeSums[i]
			direct.out = t.Out[0]
			b.direct = &direct
		}
		return b.run, true
	})
}

func (b *codeBags) run(m *EmbeddingSums) {
	if b.takes(m) {
		b.sumCodes(m)
	} else {
		b.inFloats(m)
	}
}

// smallestPage is how many bytes a page of memory has at least.
const smallestPage = 1 << 12

// takes reports whether a kernel takes all groups of codes.
func (b *codeBags) takes(m *EmbeddingSums) bool {
	c := &m.Codes
	zeros := c.Zero.P == nil || c.Zero.DType == tensor.I32
	// Of few columns a load begins some bytes before the row. Where rows lie a page apart at most, each of these bytes shares
	// its page with this row or the one before; else nothing may be mapped there.
	near := m.Column+m.Columns >= groupUnit || c.Weight.RowStride <= smallestPage
	return b.direct != nil && c.Scale.DType == tensor.F32 && zeros && near && m.Out.Contiguous() &&
		(c.GroupSize >= m.Column+m.Columns || c.GroupSize%groupUnit == 0)
}

// sumCodes takes one group of columns after the other.
func (b *codeBags) sumCodes(m *EmbeddingSums) {
	all := *m
	codes := &all.Codes.Weight
	m.Terms = Matrix{Span: Span{P: codes.P, Stride: 1, DType: tensor.U8}, Dims: 1}
	m.Terms.Size[0], m.Terms.Strides[0] = all.Codes.Rows, codes.RowStride
	for at := int64(0); at < all.Columns; {
		column, group := all.Column+at, all.Codes.GroupSize
		columns := b.direct.evenColumns(min(group-column%group, all.Columns-at))
		m.Column, m.Columns, m.Out = column, columns, all.Out.At(at)
		b.direct.sum(m, sumInChunks[float32], b.inFloats)
		at += columns
	}
}

// evenColumns returns how many of some columns the kernel takes at a time: of an odd number of halves of bytes the last
// one is taken by itself, unless they are few.
func (s *rowSum) evenColumns(columns int64) int64 {
	if s.halves && columns > s.least {
		return columns &^ 1
	}
	return columns
}

// noZero is the zero point of codes that have none.
var noZero int32

// callOfCodes is call for columns of one group of codes.
func (s *rowSum) callOfCodes(e *EmbeddingSum, start []int64, to resultRows, column, columns int64, mode int) int {
	c := &e.Codes
	group := column / c.GroupSize
	if c.Weight.DType.Packed() {
		column /= 2
	}
	scale := c.Scale.Row(0, group)
	zero, zeroRow := unsafe.Pointer(&noZero), int64(0)
	if c.Zero.P != nil {
		zero, zeroRow = c.Zero.Row(0, group).P, c.Zero.RowStride
	} else {
		mode |= sumCentred
	}
	return s.codes((*byte)(unsafe.Add(c.Weight.P, column)), int(c.Weight.RowStride), unsafe.SliceData(start), len(start)-1,
		unsafe.SliceData(e.Positions), e.early(), (*byte)(e.Factors.P), (*byte)(to.first), int(to.apart), int(columns), mode,
		(*byte)(scale.P), int(c.Scale.RowStride), (*byte)(zero), int(zeroRow))
}

// inFloats takes as many bags at a time as memory has room for their rows.
func (b *codeBags) inFloats(m *EmbeddingSums) {
	all := *m
	tile := WeightTile{WeightRows: m.Codes, Scratch: m.Scratch}
	rows := weightRun{weightRow: &b.weightRow, WeightTile: &tile}
	most := min(codeTerms/roundUp(min(m.Columns, Block), groupUnit), TileSize)
	for at := 0; at < all.destinations(); {
		end := at + 1
		for end < all.destinations() && end-at < codeBagsAt && all.Start[end+1]-all.Start[at] <= most {
			end++
		}
		m.Out.P = unsafe.Add(all.Out.P, int64(at)*all.Apart)
		switch n := all.Start[end] - all.Start[at]; {
		case n <= most:
			b.short(m, &all, &rows, at, end)
		case m.Sources != nil:
			m.Start = all.Start[at : end+1]
			b.slow(m)
		default:
			b.long(m, &all, &rows, at)
		}
		*m = all
		at = end
	}
}

// short takes some bags of few rows.
func (b *codeBags) short(m, all *EmbeddingSums, rows *weightRun, at, end int) {
	from, to := all.Start[at], all.Start[end]
	m.Start = m.Scratch.Ints(codeStarts, end-at+1)
	for i := range m.Start {
		m.Start[i] = all.Start[at+i] - from
	}
	out := m.Out
	for column := int64(0); column < all.Columns; column += Block {
		m.Out = out.At(column)
		b.dequantize(m, all, rows, termTile{from, to, column, min(Block, all.Columns-column)})
		b.bags(m)
	}
}

// long takes a bag of many rows, some columns and a chunk of them at a time.
func (b *codeBags) long(m, all *EmbeddingSums, rows *weightRun, at int) {
	begin, end, out := all.Start[at], all.Start[at+1], m.Out
	for column := int64(0); column < all.Columns; column += codeColumns {
		width := min(codeColumns, all.Columns-column)
		chunks := NewChunks[float32](m.Scratch, codeChunks, int(width))
		for from := begin; from < end; from += ChunkSize {
			to := min(from+ChunkSize, end)
			sum := chunks.nextChunk(int(to - from))
			m.Out = Span{P: unsafe.Pointer(unsafe.SliceData(sum)), Stride: 4, DType: tensor.F32}
			m.Start = m.Scratch.Ints(codeStarts, 2)
			m.Start[0], m.Start[1] = 0, to-from
			m.ByFreq, m.Stream = false, false
			b.dequantize(m, all, rows, termTile{from, to, column, width})
			b.chunk(m)
		}
		m.ByFreq, m.Positions = all.ByFreq, all.Positions[begin:end]
		finishSum(&m.EmbeddingSum, out.At(column), chunks.Sum())
	}
}
