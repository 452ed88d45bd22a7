package cpu

import "unsafe"

// The rows of QuantizedLinear before the definition.
var linearRows = []Row[LinearLayer]{
	{"avx512vnni", AVX512, func(t Types) (LinearLayer, bool) {
		f, _ := byCompute(linearTiles[float32], linearTiles[float64])(t)
		return LinearLayer{func(tile *LinearTile) { f(tile, &vnni) }, packPanels, RowsPacked}, hasVNNI()
	}},
	{"avx2", AVX2, func(t Types) (LinearLayer, bool) {
		run, _ := byCompute(linearAVX2[float32], linearAVX2[float64])(t)
		return LinearLayer{run, packWinograd, winogradPacked}, true
	}},
}

// dotTiles computes columns, a multiple of 4, of groups of some rows of x.
type dotTiles func(x *int8, xStride, groups int, w *int8, wStride, columns, ahead, k int, acc *int32, accStride int, correction *int32)

// scaleRows makes n columns of some rows of y.
type scaleRows func(y *float32, yStride int, acc *int32, accStride, n, rows int, xScale, wScale, bias *float32)

// dotKernel has the tiles of an instruction set.
type dotKernel struct {
	dots    [4]dotTiles // of groups of 1 to 4 rows
	correct func(x *int8, k int) int32
	scale   scaleRows
	step    int64 // what k is a multiple of
	alone   bool  // rows that groups of 4 leave are one by themselves; else the last 4 rows are, some of them once more
}

var (
	vnni = dotKernel{
		dots:    [4]dotTiles{dotVNNIRows1, dotVNNIRows2, dotVNNIRows3, dotVNNIRows4},
		correct: correctionVNNI, scale: scaleSumsAVX512, step: 1,
	}
	avx2 = dotKernel{
		dots:  [4]dotTiles{dotAVX2Rows1, dotAVX2Rows2, dotAVX2Rows3, dotAVX2Rows4},
		scale: scaleSumsAVX2, step: 16, alone: true,
	}
)

const (
	// A strip has as many rows of x as stay in the first cache, beside 4 of weight, while they meet all columns.
	linearStripBytes = 32 << 10
	linearStrip      = 24 // at most

	linearProducts = 1 << 20 // in a call, which cannot be preempted
)

// linearTiles runs a tile in strips of rows.
func linearTiles[C Compute](t *LinearTile, kernel *dotKernel) {
	columns := t.N1 - t.N0
	if columns < 4 || t.K > maxInt32Depth || t.K == 0 {
		quantizedLinearGo[C](t)
		return
	}
	s := newScaledBy[C](t, kernel.scale, columns)
	sums := linearSums{t: t, kernel: kernel, columns: columns, whole: t.K / kernel.step * kernel.step}
	sums.acc = unsafe.Slice((*int32)(unsafe.Pointer(&t.Scratch.ints[0])), LinearPanel*LinearColumns)
	sums.minus = unsafe.Slice((*int32)(unsafe.Pointer(&t.Scratch.ints[linearCorrections])), linearStrip)
	sums.reads = true
	strip := min(max(4, (linearStripBytes/t.K-4)&^3), linearStrip)
	for m := t.M0; m < t.M1; {
		n := min(strip, t.M1-m)
		if m < t.Panels.Rows && columns >= linearPanelColumns {
			n = sums.packed(m)
		} else {
			sums.rows(m, n)
		}
		s.store(m, n, sums.acc)
		sums.reads = false
		m += n
	}
}

// scaledBy is scaled with a kernel for float32.
type scaledBy[C Compute] struct {
	scaled[C]
	kernel scaleRows
	apart  int64 // sums from row to row
	direct bool  // y is written where it lies
}

func newScaledBy[C Compute](t *LinearTile, kernel scaleRows, apart int64) scaledBy[C] {
	return scaledBy[C]{newScaled[C](t), kernel, apart, t.Y.DType.Size() == int64(unsafe.Sizeof(C(0))) && t.Y.Contiguous()}
}

// store writes the outputs of some rows from row m on.
func (s scaledBy[C]) store(m, rows int64, acc []int32) {
	columns := s.N1 - s.N0
	s.sx = BlockOf[C](s.Scratch, 0, int(rows))
	Load(s.sx, s.XScale.At(m))
	if s.direct {
		s.rows((*C)(s.Y.Row(m, s.N0).P), s.Y.RowStride, rows, acc)
		return
	}
	for i := range rows {
		s.rows(unsafe.SliceData(s.y), 0, 1, acc[i*s.apart:])
		Store(s.Y.Row(m+i, s.N0), s.y[:columns])
		s.sx = s.sx[1:]
	}
}

// rows makes y of the sums of some rows.
func (s scaledBy[C]) rows(y *C, yStride, rows int64, acc []int32) {
	columns, whole := int(s.N1-s.N0), 0
	if unsafe.Sizeof(s.sx[0]) == 4 {
		whole = columns &^ 15 // what the kernel takes
	}
	if whole > 0 {
		bias := as32(s.bias)
		if s.Bias.P == nil {
			bias = nil
		}
		s.kernel((*float32)(unsafe.Pointer(y)), int(yStride), unsafe.SliceData(acc), int(4*s.apart), whole, int(rows), as32(s.sx), as32(s.sw), bias)
	}
	if whole == columns {
		return
	}
	for i := range rows {
		to := unsafe.Slice((*C)(unsafe.Add(unsafe.Pointer(y), i*yStride)), columns)
		scaleSums(s.scaled, s.sx[i], to, whole, acc[i*s.apart:][:columns])
	}
}

func as32[C Compute](v []C) *float32 { return (*float32)(unsafe.Pointer(unsafe.SliceData(v))) }

// linearSums computes the integer sums of some rows of x with a tile's columns.
type linearSums struct {
	t       *LinearTile
	kernel  *dotKernel
	columns int64
	whole   int64   // the part of K that kernels take
	reads   bool    // columns for the first time
	acc     []int32 // of the rows
	minus   []int32 // corrections
}

// rows computes the sums of some rows of x: in groups of 4 rows, or as many as there are, by 4 columns. The
// last group, if it is not one by itself, and the last columns overlap those before.
func (s *linearSums) rows(m, rows int64) {
	x := &s.t.X
	if s.kernel.correct != nil {
		for i := range rows {
			s.minus[i] = s.kernel.correct((*int8)(x.Row(m+i, 0).P), int(s.whole))
		}
	}
	if s.whole > 0 {
		s.products(dotCodes{(*int8)(x.Row(m, 0).P), x.RowStride}, dotCodes{(*int8)(s.t.Weight.Row(s.t.N0, 0).P), s.t.Weight.RowStride}, rows, s.whole, s.acc)
	} else {
		clear(s.acc[:rows*s.columns])
	}
	if s.whole < s.t.K {
		s.addRest(m, rows)
	}
}

// dotCodes are rows of codes, a stride of bytes apart.
type dotCodes struct {
	first  *int8
	stride int64
}

func (c dotCodes) row(i int64) *int8 {
	return (*int8)(unsafe.Add(unsafe.Pointer(c.first), i*c.stride))
}

// products makes sums over k codes of some rows of x with the tile's of w.
func (s *linearSums) products(x, w dotCodes, rows, k int64, acc []int32) {
	together, most := min(4, rows), max(4, linearProducts/(rows*k)&^3)
	for i := int64(0); i < rows; {
		if s.kernel.alone {
			together = min(together, rows-i)
		}
		first, count := wholeOrLast(i, rows, together)
		dots := s.kernel.dots[together-1]
		for j := int64(0); j < s.columns; {
			column, columns := wholeOrLast(j, s.columns, 4)
			columns = min(columns, most)
			dots(x.row(first), int(x.stride), int(count/together), w.row(column), int(w.stride), int(columns), s.ahead(4), int(k),
				&acc[first*s.columns+column], int(4*s.columns), &s.minus[first])
			j = column + columns
		}
		i = first + count
	}
}

// addRest adds the sums over the last codes, fewer than kernels take: copies of those, with zeros behind them.
func (s *linearSums) addRest(m, rows int64) {
	step := s.kernel.step
	copies := unsafe.Slice((*int8)(unsafe.Pointer(&s.t.Scratch.ints[linearRests])), (MostLinearColumns+linearStrip)*step)
	copyRest := func(to []int8, from *Rows, first, count int64) dotCodes {
		for i := range count {
			row := to[i*step:][:step]
			clear(row[copy(row, unsafe.Slice((*int8)(from.Row(first+i, s.whole).P), s.t.K-s.whole)):])
		}
		return dotCodes{&to[0], step}
	}
	w := copyRest(copies, &s.t.Weight, s.t.N0, s.columns)
	x := copyRest(copies[MostLinearColumns*step:], &s.t.X, m, rows)
	sums := unsafe.Slice((*int32)(unsafe.Pointer(&s.t.Scratch.ints[linearRestSums])), rows*s.columns)
	s.products(x, w, rows, step, sums)
	for i, sum := range sums {
		s.acc[i] += sum
	}
}

// ahead is how many bytes later than columns so many more begin, where they are asked for in advance.
func (s *linearSums) ahead(columns int64) int {
	if !s.reads {
		return 0
	}
	return int(columns * s.t.Weight.RowStride)
}

// wholeOrLast returns the elements from at on that are whole steps, or else the last step, which
// overlaps those before.
func wholeOrLast(at, size, step int64) (first, count int64) {
	if count = (size - at) / step * step; count > 0 {
		return at, count
	}
	return size - step, step
}
