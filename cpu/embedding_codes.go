package cpu

import (
	"slices"
	"unsafe"

	"github.com/isobit-ml/isobit/tensor"
)

// Bags of a table that is stored as codes have the bits of bags of what the codes
// stand for. Kernels dequantize on the way where they can. Else the rows that some bags
// name are copied into memory that stays in a near cache, with parameters that kernels
// read, or dequantized into it, and summed there as floats are.

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
	wide       *rowSum              // ... of a chunk of a long bag
	decode     *rowSum              // makes rows of maxima; or nil
}

const (
	codeColumns = 64                          // of a long bag at a time
	codeTerms   = codeColumns * ChunkSize / 2 // elements of short bags at a time: half of a near cache
	codeBagsAt  = Block - 1                   // bags at a time

	// Of weightScratch.parts, behind dequantized rows: the same in their type, and codes unpacked. What fills up a tile's last
	// groups is less than the tile.
	storedAt = 2 * codeColumns * ChunkSize
	codesAt  = storedAt + storedAt/2
)

// counting are the numbers of dequantized rows.
var counting = func() (n [TileSize + 1]int64) {
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
		b := &codeBags{terms: terms, out: t.Out[0], weightRow: weightKernels[at].newRow(typeFor(isa, t.Out[0]), t.In[0])}
		sums := Types{Compute: t.Compute, In: InTypes{terms}, Out: t.Out}
		b.bags, _ = PickUpTo(floats, isa, sums)
		sums.In[0], sums.Out[0] = tensor.F32, tensor.F32
		b.chunk, _ = PickUpTo(RowSums, isa, sums)
		if i := slices.IndexFunc(codeSums, func(s rowSum) bool { return s.needs == isa && s.in == t.In[0] }); i >= 0 {
			direct := codeSums[i]
			direct.out, direct.stores = t.Out[0], b.x
			wide := direct
			wide.wide = true
			direct.narrow, wide.narrow = narrowSum(codeSums, direct), narrowSum(codeSums, wide)
			if sum {
				b.direct, b.wide = &direct, &wide
			} else {
				b.decode = &direct
			}
		}
		return b.run, true
	})
}

func (b *codeBags) run(m *EmbeddingSums) {
	if codes, reads := m.Codes.withReady(); reads {
		all := m.Codes
		m.Codes = codes
		if most := b.direct.manyBelow(m, groupInPlace); b.direct.takes(m, most) && b.sumCodes(m, b.direct, most) {
			return
		}
		m.Codes = all
	}
	b.inFloats(m)
}

// smallestPage is how many bytes a page of memory has at least.
const smallestPage = 1 << 12

// takes reports whether a kernel takes all groups of codes, whose parameters it reads, as fast as copies: many at once of those
// of fewer columns than most.
func (s *rowSum) takes(m *EmbeddingSums, most int64) bool {
	c, columns := &m.Codes, m.Column+m.Columns
	// Of short groups that are taken one by one a row is read many times: copies are read faster.
	return s.reads(m) && (c.GroupSize >= min(2*groupUnit, columns) || s.takesManyGroups(c, columns, most) &&
		(s.needs == AVX512 || c.Rows*c.Weight.RowStride <= nearCodes))
}

// reads reports whether a kernel takes codes where they lie.
func (s *rowSum) reads(m *EmbeddingSums) bool {
	c, columns := &m.Codes, m.Column+m.Columns
	// Of few columns a load begins some bytes before the row. Where rows lie a page apart at most, each of these bytes shares
	// its page with this row or the one before; else nothing may be mapped there.
	near := min(c.GroupSize, columns) >= groupUnit || c.Weight.RowStride <= smallestPage
	return s.takesGroups(c, columns) && near && m.Out.Contiguous()
}

// takesGroups reports whether a kernel, if there is one, sums codes of so many columns group by group.
func (s *rowSum) takesGroups(c *WeightRows, columns int64) bool {
	return s != nil && (c.GroupSize >= columns || c.GroupSize%2 == 0 || !c.Weight.DType.Packed())
}

// sumCodes takes one group of columns after the other, or many groups of fewer columns than most, and reports whether the
// kernel took all rows; else m is as it was.
func (b *codeBags) sumCodes(m *EmbeddingSums, by *rowSum, most int64) bool {
	all := *m
	codes := &all.Codes.Weight
	m.Terms = Matrix{Span: Span{P: codes.P, Stride: 1, DType: tensor.U8}, Dims: 1}
	m.Terms.Size[0], m.Terms.Strides[0] = all.Codes.Rows, codes.RowStride
	many := by.takesManyGroups(&all.Codes, all.Column+all.Columns, most)
	for at := int64(0); at < all.Columns; {
		column, group := all.Column+at, all.Codes.GroupSize
		columns := min(group-column%group, all.Columns-at)
		m.groups = nil
		if many && all.Columns-at >= by.least {
			columns = by.manyColumns(column, all.Columns-at, group)
			m.groups = &m.Scratch.groupsOf
			m.groups.set(column, columns, group, all.Column+all.Columns)
		}
		columns = by.evenColumns(columns)
		m.Column, m.Columns, m.Out = column, columns, all.Out.At(at)
		if !by.sum(m, sumInChunks[float32], b.inFloats) {
			*m = all
			return false
		}
		at += columns
	}
	return true
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

// callOfCodes is call for columns of one group of codes, or of those that are listed.
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
		if c.Zero.DType == tensor.I32 {
			mode |= sumWholeZeros
		}
	} else {
		mode |= sumCentred
	}
	var groups *int32
	if e.rows {
		mode |= sumNegative
	}
	if e.groups != nil {
		groups = &e.groups.of[0]
		mode |= sumGrouped
	}
	return s.codes((*byte)(unsafe.Add(c.Weight.P, column)), int(c.Weight.RowStride), unsafe.SliceData(start), len(start)-1,
		unsafe.SliceData(e.Positions), e.early(s.near(columns)), (*byte)(e.Factors.P), (*byte)(to.first), int(to.apart), int(columns), mode,
		(*byte)(scale.P), int(c.Scale.RowStride), (*byte)(zero), int(zeroRow), groups)
}

// inFloats takes as many bags at a time as memory has room for their rows.
func (b *codeBags) inFloats(m *EmbeddingSums) {
	all := *m
	tile := WeightTile{WeightRows: m.Codes, Scratch: m.Scratch}
	rows := weightRun{weightRow: &b.weightRow, WeightTile: &tile}
	most := b.tileRows(m)
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
			b.largest(m, &all, &rows, at)
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
	out, last := m.Out, all.Column+all.Columns
	for column := all.Column; column < last; {
		t := termTile{from, to, column, b.tileColumns(&all.Codes, column, last, Block)}
		m.Out = out.At(column - all.Column)
		if !b.sumGathered(m, all, t, b.direct) {
			b.dequantize(m, all, rows, t)
			b.bags(m)
		}
		column += t.columns
	}
}

// long takes a bag of many rows, some columns and a chunk of them at a time.
func (b *codeBags) long(m, all *EmbeddingSums, rows *weightRun, at int) {
	begin, end, out := all.Start[at], all.Start[at+1], m.Out
	for column, last := all.Column, all.Column+all.Columns; column < last; {
		width := b.tileColumns(&all.Codes, column, last, min(codeColumns, all.Codes.GroupSize*(TileSize/ChunkSize)))
		chunks := NewChunks[float32](m.Scratch, codeChunks, int(width))
		for from := begin; from < end; from += ChunkSize {
			to := min(from+ChunkSize, end)
			sum := chunks.nextChunk(int(to - from))
			m.Out = Span{P: unsafe.Pointer(unsafe.SliceData(sum)), Stride: 4, DType: tensor.F32}
			m.Start = m.Scratch.Ints(codeStarts, 2)
			m.Start[0], m.Start[1] = 0, to-from
			m.ByFreq, m.Stream = false, false
			if t := (termTile{from, to, column, width}); !b.sumGathered(m, all, t, b.wide) {
				b.dequantize(m, all, rows, t)
				b.chunk(m)
			}
		}
		m.ByFreq, m.Positions = all.ByFreq, all.Positions[begin:end]
		finishSum(&m.EmbeddingSum, b.x, out.At(column-all.Column), chunks.Sum())
		column += width
	}
}

// largest is long for the largest of each column.
func (b *codeBags) largest(m, all *EmbeddingSums, rows *weightRun, at int) {
	begin, end, out := all.Start[at], all.Start[at+1], m.Out
	for column, last := all.Column, all.Column+all.Columns; column < last; {
		width := b.tileColumns(&all.Codes, column, last, codeColumns)
		best, v := BlockOf[float32](m.Scratch, codeChunks, int(width)), BlockOf[float32](m.Scratch, codeChunks+1, int(width))
		m.Out = Span{P: m.Scratch.block(codeChunks + 2), Stride: b.out.Size(), DType: b.out}
		m.Start = m.Scratch.Ints(codeStarts, 2)
		for from := begin; from < end; from += ChunkSize {
			m.Start[0], m.Start[1] = 0, min(ChunkSize, end-from)
			b.dequantize(m, all, rows, termTile{from, from + m.Start[1], column, width})
			b.bags(m)
			Load(v, m.Out)
			for i, v := range v {
				if b := best[i]; from == begin || v > b || v != v && b == b {
					best[i] = v
				}
			}
		}
		Store(out.At(column-all.Column), best)
		column += width
	}
}
