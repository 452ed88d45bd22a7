package cpu

import (
	"math"
	"slices"
	"unsafe"

	"github.com/isobit-ml/isobit/tensor"
)

// What stands between RowSums and the generated sums of rows.

// rowSum is a generated sum of rows of a type, into those of the same type or, of f32, of 16 bits.
type rowSum struct {
	needs   ISA
	in, out tensor.DType
	least   int64   // the fewest columns that chosen takes; the others take any
	halves  bool    // more columns than least are an even number
	wide    bool    // results are of the type that sums are computed in
	narrow  *rowSum // sums few columns
	stores  *gatherType
	run     func(rows *byte, stride int, start *int64, results int, positions *int64, known int,
		factors, to *byte, apart, columns, mode int) int
	chosen func(rows *byte, stride int, start *int64, results int, positions *int64, known int,
		sources *int64, ranks *uint32, ranksApart int, to *byte, apart, columns, mode int) int
	codes func(rows *byte, stride int, start *int64, results int, positions *int64, known int, // instead of run
		factors, to *byte, apart, columns, mode int, scale *byte, scaleRow int, zero *byte, zeroRow int, groups *int32) int
}

// narrower returns the bit for a type that is not the rows', 0 for another.
func narrower(d tensor.DType) int {
	switch d {
	case tensor.BF16:
		return sumBF16
	case tensor.F16:
		return sumF16
	}
	return 0
}

// embeddingRows makes the table: a row for each instruction set that has sums.
func embeddingRows(definition func(Types) (func(*EmbeddingSums), bool)) []Row[func(*EmbeddingSums)] {
	return tableOf(definition, func(isa ISA, t Types) (func(*EmbeddingSums), bool) {
		for _, s := range rowSums {
			if s.needs == isa && s.in == t.In[0] && (s.out == t.Out[0] || s.in == tensor.F32 && narrower(t.Out[0]) != 0) {
				s.out, s.stores = t.Out[0], typeFor(isa, t.Out[0])
				if s.in.Size() == 4 { // of 16 bits half a vector is loaded either way
					s.narrow = narrowSum(rowSums, s)
				}
				slow, _ := definition(t)
				inChunks := ForCompute(s.in, sumInChunks[float32], sumInChunks[float64])
				return func(m *EmbeddingSums) { s.sum(m, inChunks, slow) }, true
			}
		}
		return nil, false
	})
}

// LeastOfMax is the table of the fewest columns that BagMaxBackward's kernels take: fewer, or any without kernels, are left
// to its definition.
var LeastOfMax = tableOf(always(int64(math.MaxInt64)), func(isa ISA, t Types) (least int64, ok bool) {
	i := slices.IndexFunc(rowSums, func(s rowSum) bool { return s.needs == isa && s.in == t.In[0] && s.chosen != nil })
	if i < 0 {
		return 0, false
	}
	return rowSums[i].least, true
})

// sum sums the columns that the kernel takes, and leaves the others to the
// definition; inChunks takes the destinations of which the kernel has a part.
// It reports whether the kernel took all terms, which only those of codes may fail to be.
func (s *rowSum) sum(m *EmbeddingSums, inChunks func(s *rowSum, e *EmbeddingSum) bool, slow func(*EmbeddingSums)) (all bool) {
	if s.narrow != nil && m.Columns <= narrowColumns && len(m.Ranks) == 0 {
		s = s.narrow
	}
	whole := m.Columns
	if len(m.Ranks) > 0 && whole < s.least || !m.Terms.Contiguous() || m.Terms.Dims > 1 || !m.Out.Contiguous() {
		whole = 0
	}
	if whole < m.Columns {
		all := m.EmbeddingSum
		m.Column, m.Columns, m.Out = all.Column+whole, all.Columns-whole, all.Out.At(whole)
		slow(m)
		m.EmbeddingSum = all
	}
	if whole == 0 {
		return true
	}
	mode := s.mode(m, whole)
	// Empty destinations that the kernel does not store around the caches are cleared.
	clears, end := !m.Accumulate && m.Stream && mode&sumStream == 0, len(m.Start)
	m.at = m.EmbeddingSum
	m.at.Columns = whole
	for at := 0; at < m.destinations(); {
		n, to := m.Start[at+1]-m.Start[at], m.Place(at)
		if clears || m.Named != nil {
			end = at + 2
		}
		switch {
		case clears && n == 0:
			clearRow(unsafe.Slice((*byte)(to), whole*m.Out.Stride), m.Stream)
			at++
		case n <= ChunkSize:
			done := s.call(&m.EmbeddingSum, m.Start[at:end], resultRows{to, m.Apart}, 0, whole, mode)
			if done == 0 {
				return false
			}
			at += done
		default:
			if !inChunks(s, m.one(at)) {
				return false
			}
			at++
		}
	}
	return true
}

// narrowColumns are half a vector of AVX-512: a whole one, of which a mask takes some, more often reaches into another line.
const narrowColumns = 8

// narrowSum returns the sum of AVX2 that is in the place of one of AVX-512 where columns are few.
func narrowSum(of []rowSum, s rowSum) *rowSum {
	at := slices.IndexFunc(of, func(o rowSum) bool { return o.needs == AVX2 && o.in == s.in && o.needs < s.needs })
	if at < 0 {
		return nil
	}
	narrow := of[at]
	narrow.out, narrow.wide, narrow.stores = s.out, s.wide, s.stores
	return &narrow
}

// mode returns the bits for sums of so many columns.
func (s *rowSum) mode(m *EmbeddingSums, columns int64) (mode int) {
	if s.in != s.out {
		mode = narrower(s.out)
	}
	if s.wide {
		mode |= sumWide
	}
	if m.Accumulate {
		mode |= sumAccumulate
	}
	if m.ByFreq {
		mode |= sumDivide
	}
	if places := int64(uintptr(m.Out.P)) | columns*m.Out.Stride | m.Apart; m.Stream && places%streamAlignment == 0 {
		mode |= sumStream
	}
	return mode
}

// nearBytes is how large a matrix may be whose rows come as fast from the caches
// as they are added: asking for them early costs more than it saves.
const nearBytes = 1 << 17

// slowNearBytes is nearBytes for kernels of AVX2 that take longer for each line.
const slowNearBytes = 1 << 15

// slowColumns is how many columns make sums so that widen what they add.
const slowColumns = 64

// nearOf returns how large a matrix is near for a kernel.
func nearOf(needs ISA, slow bool) int64 {
	if needs == AVX2 && slow {
		return slowNearBytes
	}
	return nearBytes
}

// near returns how large a matrix is near for sums of so many columns.
func (s *rowSum) near(columns int64) int64 {
	return nearOf(s.needs, columns >= slowColumns && s.in.Size() < tensor.F32.Size())
}

// early returns how many of the positions, from the first on, are of rows that a
// kernel may ask for early.
func (e *EmbeddingSum) early(near int64) int {
	if e.Terms.Dims == 0 || e.Terms.Size[0]*e.Terms.Strides[0] <= near {
		return 0
	}
	return len(e.Positions)
}

// resultRows are rows of results: where the first lies, and bytes from one to the next.
type resultRows struct {
	first unsafe.Pointer
	apart int64
}

// call runs the kernel on columns from at on.
func (s *rowSum) call(e *EmbeddingSum, start []int64, to resultRows, at, columns int64, mode int) int {
	stride := int64(0)
	if e.Terms.Dims > 0 {
		stride = e.Terms.Strides[0]
	}
	if s.codes != nil {
		return s.callOfCodes(e, start, to, e.Column+at, columns, mode)
	}
	from := (*byte)(unsafe.Add(e.Terms.P, (e.Column+at)*e.Terms.Stride))
	if len(e.Ranks) > 0 {
		return s.chosen(from, int(stride), unsafe.SliceData(start), len(start)-1, unsafe.SliceData(e.Positions), e.early(s.near(columns)),
			unsafe.SliceData(e.Sources), &e.Ranks[e.Column+at], 4*int(e.Width), (*byte)(to.first), int(to.apart), int(columns), mode)
	}
	return s.run(from, int(stride), unsafe.SliceData(start), len(start)-1, unsafe.SliceData(e.Positions), e.early(s.near(columns)),
		(*byte)(e.Factors.P), (*byte)(to.first), int(to.apart), int(columns), mode)
}

// sumInChunks sums one destination that the kernel does not store: its chunks
// are the kernel's results. With mode=max, columns have chunks of their own: where
// each has one, the kernel sums it.
func sumInChunks[C Compute](s *rowSum, e *EmbeddingSum) (all bool) {
	if len(e.Ranks) > 0 {
		if !isOneChunk[C](s, e) {
			bagMaxBackwardGo[C](e)
			return true
		}
		all, mode := e.Scratch.Ints(0, 2), sumLong
		if e.Accumulate {
			mode |= sumAccumulate
		}
		all[0], all[1] = 0, int64(len(e.Positions))
		return s.call(e, all, resultRows{first: e.Out.P}, 0, e.Columns, mode) == 1
	}
	mode := sumWide
	if s.codes != nil {
		mode |= narrower(s.out) // which its terms are rounded to
	}
	for at, width := int64(0), int64(0); at < e.Columns; at += width {
		width = blockColumns(e.Columns-at, s.least)
		chunks := NewChunks[C](e.Scratch, 2, int(width))
		for i := 0; i < len(e.Positions); i += ChunkSize {
			m := min(ChunkSize, len(e.Positions)-i)
			acc, chunk := chunks.nextChunk(m), e.Scratch.Ints(0, 2)
			chunk[0], chunk[1] = int64(i), int64(i+m)
			if s.call(e, chunk, resultRows{first: unsafe.Pointer(unsafe.SliceData(acc))}, at, width, mode) == 0 {
				return false
			}
		}
		finishSum(e, s.stores, e.Out.At(at), chunks.Sum())
	}
	return true
}

// blockColumns returns how many of some columns a block takes, so that the last one has the fewest at least.
func blockColumns(columns, least int64) int64 { return partOf(columns, Block, least) }

// partOf is the same of parts of most columns.
func partOf(columns, most, least int64) int64 {
	if columns > most && columns < most+least {
		return columns - least
	}
	return min(most, columns)
}

// isOneChunk reports whether no column was taken from more rows than a chunk has. The
// kernel counts: it sums rows of ones.
func isOneChunk[C Compute](s *rowSum, e *EmbeddingSum) bool {
	terms, all := e.Terms, e.Scratch.Ints(0, 2)
	defer func() { e.Terms = terms }()
	all[0], all[1] = 0, int64(len(e.Positions))
	for at, width := int64(0), int64(0); at < e.Columns; at += width {
		width = blockColumns(e.Columns-at, s.least)
		ones, counts := BlockOf[C](e.Scratch, 0, int(width)), BlockOf[C](e.Scratch, 2, int(width))
		for i := range ones {
			ones[i] = 1
		}
		e.Terms = Matrix{Span: Span{P: unsafe.Pointer(&e.Scratch.blocks[1]), Stride: s.in.Size(), DType: s.in}}
		Store(e.Terms.Span, ones)
		e.Terms.Stride = 0 // whichever columns are at hand
		s.call(e, all, resultRows{first: unsafe.Pointer(unsafe.SliceData(counts))}, at, width, sumLong|sumWide)
		if slices.Max(counts) > ChunkSize {
			return false
		}
	}
	return true
}

// ClearRows clears some columns of rows that follow one another.
func ClearRows(m *Matrix, first, rows, column, columns int64, stream bool) {
	if rows == 0 {
		return
	}
	to, bytes := m.Row(first, column), columns*m.DType.Size()
	if m.Dims == 1 && m.Contiguous() && m.Strides[0] == bytes {
		clearRow(unsafe.Slice((*byte)(to.P), rows*bytes), stream)
		return
	}
	for row := range rows {
		ZeroRow(m.Row(first+row, column), columns)
	}
}

// ClearRow clears n elements, around the caches if it should.
func ClearRow(row Span, n int64, stream bool) {
	if row.Contiguous() {
		clearRow(unsafe.Slice((*byte)(row.P), n*row.DType.Size()), stream)
		return
	}
	ZeroRow(row, n)
}

// clearRow stores an empty sum.
func clearRow(row []byte, stream bool) {
	if stream && len(row) >= 2*streamAlignment {
		head := int(-uintptr(unsafe.Pointer(&row[0])) % streamAlignment)
		whole := (len(row) - head) / streamAlignment * streamAlignment
		clear(row[:head])
		storeZeros(&row[head], whole)
		row = row[head+whole:]
	}
	clear(row)
}
