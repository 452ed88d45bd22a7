package cpu

import (
	"unsafe"

	"github.com/isobit-ml/isobit/tensor"
)

// What stands between Matmul and its kernels, which read rows of Input that lie
// one after the other, and panels of some columns of Other, row after row. So
// both are copied, some depth along K at a time. Sums lie in y, or apart from it where
// it has another type, or no room for a whole panel.

const (
	matmulAtOnce    = 144     // rows of Input that are copied at a time
	matmulTurns     = 4       // a tile has up to so many times matmulAtOnce rows, which meet one copy of Other
	matmulUnit      = 12      // rows that kernels take at a time
	matmulTileBytes = 1 << 10 // of a row of sums, and of a column of copies
	matmulFew       = 24      // for no more rows of Input, Other is read where it lies,
	matmulShallow   = 16      // so many of its rows at a time
	matmulFewest    = 8       // for no more rows of Input, tiles are wider,
	matmulWide      = 4       // so many times
	matmulFour      = 4       // zeros make rows up to a multiple of it: see withZeros
	matmulLong      = 64      // elements along K: longer chains are worth sums apart from y for that
	matmulNear      = 1 << 15 // bytes of a matrix that is read where it lies
	matmulMeet      = 1 << 12 // bytes: rows of y that are a multiple of it apart meet in a cache
	// matmulSlack keeps rows of copies from meeting in a cache: they are an odd number of it apart.
	matmulSlack = 64
)

func pickMatmul(isa ISA, t Types) (r MatmulRow, ok bool) {
	if matmulTypeFor(isa, t.Compute) == nil {
		return r, false
	}
	return ForCompute(t.Compute, newKernelMatmul[float32], newKernelMatmul[float64])(isa, nil, t), true
}

// kernelMatmul computes tiles of some types by kernels.
type kernelMatmul[C Compute] struct {
	copied, there *matmulType // kernels for copies of Other, and for where it lies
	dots          *matmulDots // for bf16, or nil

	input, other, y matmulOperand
	transpose       Transpose
	compute         tensor.DType
	size            int64 // of an element
}

func newKernelMatmul[C Compute](isa ISA, dots *matmulDots, t Types) MatmulRow {
	r := &kernelMatmul[C]{
		copied: matmulTypeFor(isa, t.Compute), there: matmulTypeFor(isa, t.In[1]), dots: dots,
		compute: t.Compute, size: t.Compute.Size(),
	}
	r.input, r.other, r.y = newMatmulOperand(isa, t.In[0]), newMatmulOperand(isa, t.In[1]), newMatmulOperand(isa, t.Out[0])
	r.transpose, _ = PickUpTo(Transposes, isa, Types{In: InTypes{t.Compute}})
	return MatmulRow{r.tile, r.largest, func(m, n, k int64) int64 {
		narrow := r.plan(min(n, r.there.transposed.columns), m, k) // as the last tile may be, or have few rows
		return max(r.plan(m, n, k).bytes, r.plan(min(m, matmulFew), n, k).bytes, narrow.bytes)
	}, r.takesBatch, r.batch}
}

// narrow reports whether y has so few columns that it is computed as its transpose: lanes are its rows.
func (r *kernelMatmul[C]) narrow(m, n int64) bool { return n <= r.there.transposed.columns && m >= 2*n }

// largest is Largest.
func (r *kernelMatmul[C]) largest(m, n int64) (rows, columns, unit int64) {
	if r.narrow(m, n) {
		return r.width(n), n, r.copied.whole.columns
	}
	if rows = r.atOnce(); r.dots == nil {
		rows *= matmulTurns
	}
	return rows, r.width(min(m, rows)), matmulUnit
}

// atOnce returns how many rows of Input are copied at a time at most.
func (r *kernelMatmul[C]) atOnce() int64 {
	if r.dots != nil {
		return matmulPairRows
	}
	return matmulAtOnce
}

// width returns the columns of tiles of so many rows.
func (r *kernelMatmul[C]) width(m int64) int64 {
	if m <= matmulFewest {
		return matmulWide * matmulTileBytes / r.size
	}
	return matmulTileBytes / r.size
}

// matmulMemory is how a tile's memory is divided, sums first, and which parts of y and of
// Input are used where they lie.
type matmulMemory struct {
	bias, input, copies          int64 // where parts begin, in bytes
	sumsRow, inputRow, copiesRow int64 // from row to row
	bytes                        int64
	depth                        int64          // along K, of copies of Other
	inY                          int64          // columns whose sums lie in y
	first, count                 int64          // rows of Input that are being multiplied
	rows                         int64          // count, and rows of zeros below them
	from                         unsafe.Pointer // the rows of Input, or copies, that kernels read
	fromRow                      int64
}

func (r *kernelMatmul[C]) plan(m, n, k int64) (p matmulMemory) {
	p.depth = min(k, matmulTileBytes/r.size)
	along := p.depth
	if m <= matmulFew {
		along = min(k, matmulAlong)
	}
	if m <= matmulFewest {
		p.depth = min(k, matmulTileBytes/r.size/matmulWide)
	}
	m = roundUp(m, matmulFour)
	apart := func(elements int64) int64 { return roundUp(elements*r.size, 2*matmulSlack) + matmulSlack }
	p.sumsRow, p.inputRow, p.copiesRow = roundUp(n, r.copied.half.columns)*r.size, apart(along), apart(roundUp(n, r.copied.whole.columns))
	p.bias = m * p.sumsRow
	p.input = p.bias + p.sumsRow
	p.copies = p.input + min(m, r.atOnce())*p.inputRow
	p.bytes = p.copies + max(1, p.depth)*p.copiesRow // no pointer to its end
	return p
}

// tile is Run. A narrow y is computed as its transpose: that of Other times that of
// Input.
func (r *kernelMatmul[C]) tile(t *MatmulTile) {
	switch {
	case r.inPlace(t):
		return
	case !r.narrow(t.M, t.N):
		r.product(t, Span{})
		return
	}
	transposed := MatmulTile{
		Input: t.Other.Transposed(), Other: t.Input.Transposed(), Y: t.Y.Transposed(),
		M: t.N, N: t.M, K: t.K, More: t.More, Memory: t.Memory, Scratch: t.Scratch,
	}
	r.product(&transposed, t.Bias)
}

// product computes a tile; down is a bias with an element for each row, if there is one.
func (r *kernelMatmul[C]) product(t *MatmulTile, down Span) {
	p, unit := r.plan(t.M, t.N, t.K), r.copied.unit
	transposed := t.M <= r.few(t) && (t.Other.RowStride == t.Other.DType.Size() || r.copiesColumns(t))
	if transposed {
		unit = r.there.transposed.columns
	}
	p.sumsRow = roundUp(t.N, unit) * r.size
	fits := t.Y.DType == r.compute && t.Y.Contiguous() && down.P == nil && !t.sumsMeet(p.depth)
	p.count = t.M
	there := fits || t.Input.Stride == r.size && t.Input.DType == r.compute // something is used where it lies
	if p.rows = t.withZeros(transposed, r.takesPairs(t), fits, there); p.rows == t.M && fits {
		p.inY = t.N / unit * unit
	}
	apart := p.inY < t.N // some sums are
	if apart && t.More {
		for m := range t.M {
			loadRow(r.y.gatherType, r.sumsOf(t, &p, m), t.Y.Row(m, p.inY))
		}
	}
	bias := unsafe.Slice((*C)(unsafe.Add(t.Memory, p.bias)), t.N)
	for n := int64(0); n < t.N && t.Bias.P != nil; n += Block {
		Load(bias[n:min(n+Block, t.N)], t.Bias.At(n))
	}
	var columns, depth, rest int64
	if transposed {
		columns = t.N / r.there.transposed.columns * r.there.transposed.columns
		if depth = r.transposedDots(t, &p, columns); depth == 0 {
			depth = t.K / r.there.transposed.columns * r.there.transposed.columns
			r.transposedSums(t, &p, columns, depth)
		}
		rest = r.transposedRest(t, &p, columns)
	}
	r.sums(t, &p, 0, columns, depth)
	r.sums(t, &p, columns, t.N, rest)
	if apart {
		r.store(t, &p, down)
	}
}

// copiesColumns reports whether transposedRest copies all columns of Other, however they lie: they are fewer than a square
// has, but as long, and no kernel reads rows of them where they are.
func (r *kernelMatmul[C]) copiesColumns(t *MatmulTile) bool {
	side, there := r.there.transposed.columns, r.there.unit == 1 && t.Other.Stride == t.Other.DType.Size()
	return r.dots == nil && t.N < side && side <= t.K && !there
}

// withZeros returns how many rows kernels are given: zeros make them up to a multiple of four, since the last ones
// would take two turns, or three. Columns that are transposed for each turn are worth up to three more, others one;
// pairs of long columns up to three, where that saves a turn. Rows that would be read where they lie are copied then, and
// sums that fit y lie apart from it, which takes its time, too.
func (t *MatmulTile) withZeros(transposed, pairs, fits, there bool) int64 {
	all, last, long := roundUp(t.M, matmulFour), t.M%matmulUnit, t.K >= matmulLong
	worth := transposed || all == t.M+1 && (t.Far || !fits) || pairs && long && last > matmulFour
	if worth && (long || !there) && matmulFour < t.M {
		return all
	}
	return t.M
}

// sumsMeet reports whether sums of many rows would push each other out of the caches where y lies, though each is needed
// again every so many steps.
func (t *MatmulTile) sumsMeet(steps int64) bool {
	return t.M > matmulFew && t.K > 2*steps && t.Y.RowStride%matmulMeet == 0
}

// store stores the sums that lie apart from y.
func (r *kernelMatmul[C]) store(t *MatmulTile, p *matmulMemory, down Span) {
	if down.P == nil && p.sumsRow == t.N*r.size && t.Y.Contiguous() && t.Y.RowStride == t.N*t.Y.Stride {
		storeRow(r.y.gatherType, t.Y.Span, unsafe.Slice((*C)(t.Memory), t.M*t.N)) // small matrices have few elements in a row
		return
	}
	bias := BlockOf[C](t.Scratch, 0, 1)
	for m := range t.M {
		sums := r.sumsOf(t, p, m)
		if down.P != nil {
			Load(bias, down.At(m))
			for i := range sums {
				sums[i] += bias[0]
			}
		}
		storeRow(r.y.gatherType, t.Y.Row(m, p.inY), sums)
	}
}

// sumsOf are a row's sums that lie apart from y.
func (r *kernelMatmul[C]) sumsOf(t *MatmulTile, p *matmulMemory, m int64) []C {
	return unsafe.Slice((*C)(unsafe.Add(t.Memory, m*p.sumsRow+p.inY*r.size)), t.N-p.inY)
}

// sums computes the chains of columns [begin, end), from a depth on.
func (r *kernelMatmul[C]) sums(t *MatmulTile, p *matmulMemory, begin, end, from int64) {
	if begin == end {
		return
	}
	copiedFrom, steps := begin, max(1, p.depth)
	dots := r.takesPairs(t) && from == 0
	if !dots && (t.M <= matmulFew || near(&t.Other, t.K)) && t.Other.Stride == t.Other.DType.Size() && t.K > 0 {
		copiedFrom = begin + (end-begin)/r.there.unit*r.there.unit
		switch {
		case t.M > matmulFew:
		case copiedFrom == end && end-begin <= r.there.whole.columns: // nothing is read again
			steps = matmulAlong
		default:
			steps = matmulShallow
		}
	}
	for k := from; k == 0 || k < t.K; k += steps {
		copies, depth := unsafe.Add(t.Memory, p.copies), min(steps, t.K-k)
		there, copied := kernelRows{number: depth, size: t.Other.DType.Size()}, kernelRows{copies, p.copiesRow, depth, r.size}
		all := matmulPart{begin, end, k, k + depth}
		if dots = dots && r.inPairs(t, p, all, copies); dots {
			copied.number = ceilDiv(depth, 2)
			r.multiply(&r.dots.products, t, p, all, copied)
			continue
		}
		if begin < copiedFrom {
			there.start, there.apart = t.Other.Row(k, begin).P, t.Other.RowStride
		}
		if depth > 0 && copiedFrom < end { // no pointer past Other's end
			r.copy(&r.other, copies, p.copiesRow, t.Other.From(k, copiedFrom), depth, end-copiedFrom)
		}
		rows := p.rows
		for ; p.first < rows; p.first += matmulAtOnce {
			p.count, p.rows = min(t.M-p.first, matmulAtOnce), min(rows-p.first, matmulAtOnce)
			if depth > 0 { // no pointer past Input's end
				r.copyInput(t, p, k, depth)
			}
			r.multiply(&r.there.matmulPanels, t, p, matmulPart{begin, copiedFrom, k, k + depth}, there)
			r.multiply(&r.copied.matmulPanels, t, p, matmulPart{copiedFrom, end, k, k + depth}, copied)
		}
		p.first, p.count, p.rows = 0, t.M, rows
	}
}

// kernelRows are rows of Other, or of a copy of some with zeros below them: where the first begins,
// bytes from one to the next, how many, and bytes of an element.
type kernelRows struct {
	start               unsafe.Pointer
	apart, number, size int64
}

// matmulPart is some columns of y, and a part of their chains: from where to where along K.
type matmulPart struct{ begin, end, from, to int64 }

// multiply adds to a part's sums, or begins them.
func (r *kernelMatmul[C]) multiply(panels *matmulPanels, t *MatmulTile, p *matmulMemory, part matmulPart, other kernelRows) {
	for n := part.begin; n < part.end; {
		kernel := panels.next(part.end-n, t.M)
		bias, y, yRow, begun := r.result(t, p, n, part.from, part.to)
		columns := min(kernel.columns, part.end-n)
		kernel.run((*byte)(p.from), int(p.fromRow), int(p.rows), (*byte)(other.start), int(other.apart), int(columns), int(other.number), bias, y, yRow, begun)
		if n += columns; n < part.end { // no pointer past a row's end
			other.start = unsafe.Add(other.start, columns*other.size)
		}
	}
}

// result is what kernels need besides the factors.
func (r *kernelMatmul[C]) result(t *MatmulTile, p *matmulMemory, n, from, to int64) (bias, y *byte, yRow, begun int) {
	if from > 0 || t.More {
		begun = 1
	}
	if to == t.K && t.Bias.P != nil {
		bias = (*byte)(unsafe.Add(t.Memory, p.bias+n*r.size))
	}
	if n < p.inY {
		return bias, (*byte)(t.Y.Row(p.first, n).P), int(t.Y.RowStride), begun
	}
	return bias, (*byte)(unsafe.Add(t.Memory, p.first*p.sumsRow+n*r.size)), int(p.sumsRow), begun
}
