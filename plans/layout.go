package plans

import (
	"math"
	"math/bits"
	"slices"
	"unsafe"

	"github.com/isobit-ml/isobit/cpu"
	"github.com/isobit-ml/isobit/tensor"
)

const (
	maxDims     = 2 * tensor.MaxRank // a blocked dimension counts twice
	maxOperands = firstGroupValue + 2
)

// layout is an iteration space over several operands: extents, outermost
// first, and per operand a start and strides in bytes. An operand that does
// not vary along a dimension has stride 0 there.
type layout struct {
	dims   int
	size   [maxDims]int64
	start  [maxOperands]unsafe.Pointer
	stride [maxOperands][maxDims]int64
	// The operand with packed codes, if any, has strides in halves of bytes (nibbles).
	// Its start is that of its tensor, its strides above are 0.
	packed     int // its number, or -1
	packedType tensor.DType
	first      int64 // nibble of the first element, counted from start
	nibbles    [maxDims]int64
	// Of operands that are one number (repeated.go): all strides are 0, but elements of a run follow one another.
	repeated [kernelOperands]bool
}

// count returns the number of points.
func (l *layout) count() int64 {
	n := int64(1)
	for _, size := range l.size[:l.dims] {
		n *= size
	}
	return n
}

// within returns how many points there are for each of a dimension.
func (l *layout) within(d int) int64 {
	n := int64(1)
	for _, size := range l.size[d+1 : l.dims] {
		n *= size
	}
	return n
}

// coalesce drops dimensions of extent 1 and joins neighbouring ones where, for every
// operand, the outer stride is the inner stride times the inner extent. At least one
// dimension remains.
func (l *layout) coalesce(operands int) {
	n := 0
	for d := range l.dims {
		if l.size[d] == 1 {
			continue
		}
		if n > 0 && l.joins(n-1, d, operandsBelow(operands)) {
			l.size[n-1] *= l.size[d]
			for k := range operands {
				l.stride[k][n-1] = l.stride[k][d]
			}
			l.nibbles[n-1] = l.nibbles[d]
			continue
		}
		l.size[n], l.nibbles[n] = l.size[d], l.nibbles[d]
		for k := range operands {
			l.stride[k][n] = l.stride[k][d]
		}
		n++
	}
	if n == 0 {
		l.size[0], l.nibbles[0] = 1, 0
		for k := range operands {
			l.stride[k][0] = 0
		}
		n = 1
	}
	l.dims = n
}

// joins reports whether two dimensions of some operands may be one.
func (l *layout) joins(outer, inner int, operands operandSet) bool {
	for ; operands != 0; operands &= operands - 1 {
		k := bits.TrailingZeros(uint(operands))
		if l.stride[k][outer] != l.stride[k][inner]*l.size[inner] {
			return false
		}
	}
	return l.nibbles[outer] == l.nibbles[inner]*l.size[inner]
}

// asStored orders the dimensions by the strides of the operand by, largest first, for work that may
// take elements in any order: so a tensor in channels last is taken in long runs like any other.
func (l *layout) asStored(by, operands int) {
	far := func(d int) int64 { return max(l.stride[by][d], -l.stride[by][d]) }
	moved := false
	for d := 1; d < l.dims; d++ {
		for at := d; at > 0 && far(at-1) < far(at); at-- {
			l.swap(at-1, at, operands)
			moved = true
		}
	}
	if moved {
		l.coalesce(operands)
	}
}

// onceEach leaves out the dimensions along which operand k is expanded, for work in which repeated
// elements count once.
func (l *layout) onceEach(k int) {
	for d := range l.dims {
		if l.size[d] > 1 && l.stride[k][d] == 0 {
			l.size[d] = 1
		}
	}
	l.coalesce(kernelOperands)
}

func (l *layout) swap(a, b, operands int) {
	l.size[a], l.size[b] = l.size[b], l.size[a]
	l.nibbles[a], l.nibbles[b] = l.nibbles[b], l.nibbles[a]
	for k := range operands {
		l.stride[k][a], l.stride[k][b] = l.stride[k][b], l.stride[k][a]
	}
}

// cursor is a place in a layout.
type cursor struct {
	index  [maxDims]int64
	at     [maxOperands]unsafe.Pointer
	nibble int64
	// Bytes and nibbles from the layout's starts to where the cursor takes it to begin.
	// Members are laid out for the first group; shift leads to another group.
	shift       [maxOperands]int64
	shiftNibble int64
}

// seek moves to the point with a row-major number.
func (l *layout) seek(cur *cursor, number int64, operands int) {
	if number == 0 {
		l.begin(cur, operands)
		return
	}
	for d := l.dims - 1; d > 0; d-- {
		cur.index[d] = number % l.size[d]
		number /= l.size[d]
	}
	cur.index[0] = number
	cur.nibble = l.first + cur.shiftNibble
	for d := range l.dims {
		cur.nibble += cur.index[d] * l.nibbles[d]
	}
	for k := range operands {
		cur.at[k] = nil
		if l.start[k] == nil {
			continue
		}
		offset := cur.shift[k]
		for d := range l.dims {
			offset += cur.index[d] * l.stride[k][d]
		}
		cur.at[k] = unsafe.Add(l.start[k], offset)
	}
}

// begin moves to the first point.
func (l *layout) begin(cur *cursor, operands int) {
	clear(cur.index[:l.dims])
	cur.nibble = l.first + cur.shiftNibble
	for k, p := range l.start[:operands] {
		cur.at[k] = further(p, cur.shift[k])
	}
}

// nextRun moves from the start of a run that reached the end of the innermost
// dimension to the start of the next run.
func (l *layout) nextRun(cur *cursor, operands int) {
	d := l.dims - 2
	for cur.index[d] == l.size[d]-1 {
		d--
	}
	for k := range operands {
		if cur.at[k] == nil {
			continue
		}
		offset := l.stride[k][d]
		for inner := d + 1; inner < l.dims; inner++ {
			offset -= cur.index[inner] * l.stride[k][inner]
		}
		cur.at[k] = unsafe.Add(cur.at[k], offset)
	}
	cur.nibble += l.nibbles[d]
	cur.index[d]++
	for inner := d + 1; inner < l.dims; inner++ {
		cur.nibble -= cur.index[inner] * l.nibbles[inner]
		cur.index[inner] = 0
	}
}

// longestRun returns the most elements that a run has.
func (l *layout) longestRun() int64 {
	if slices.Contains(l.repeated[:], true) {
		return mostRepeated
	}
	return math.MaxInt64
}

// walk calls run for the points [begin, end) in row-major order, in runs
// along the innermost dimension.
func (l *layout) walk(cur *cursor, begin, end int64, operands int, run func(n int64)) {
	if begin >= end {
		return
	}
	inner := l.dims - 1
	l.seek(cur, begin, operands)
	most := l.longestRun()
	for {
		n := min(l.size[inner]-cur.index[inner], end-begin, most)
		run(n)
		if begin += n; begin >= end {
			return
		}
		if cur.index[inner]+n < l.size[inner] {
			l.seek(cur, begin, operands)
			continue
		}
		l.nextRun(cur, operands)
	}
}

// Operands are numbered: a kernel's inputs, its outputs, then two outputs with one
// element per group.
const (
	firstOutput     = cpu.MaxInputs
	kernelOperands  = firstOutput + cpu.MaxOutputs
	firstGroupValue = kernelOperands
)

// steps returns how far every operand steps along a dimension.
func (l *layout) steps(d int) (step [kernelOperands]int64) {
	for k := range step {
		step[k] = l.stride[k][d]
	}
	return step
}

// span returns an operand along the innermost dimension.
func (l *layout) span(cur *cursor, k int, dtype tensor.DType) cpu.Span {
	return cpu.Span{P: cur.at[k], Stride: l.stride[k][l.dims-1], DType: dtype}
}

// spans fills a kernel's operands from a cursor.
func (l *layout) spans(a *cpu.Args, cur *cursor) {
	inner := l.dims - 1
	for k := range a.In {
		a.In[k].P, a.In[k].Stride = cur.at[k], l.stride[k][inner]
		if l.repeated[k] {
			a.In[k].Stride = a.In[k].DType.Size()
		}
	}
	for k := range a.Out {
		a.Out[k].P, a.Out[k].Stride = cur.at[firstOutput+k], l.stride[firstOutput+k][inner]
	}
}

// elementOffset returns the distance in elements from the first one to the
// one with a row-major number.
func elementOffset(v *tensor.View, number int64) (offset int64) {
	for d := len(v.Shape) - 1; d >= 0; d-- {
		offset += number % v.Shape[d] * v.Stride(d)
		number /= v.Shape[d]
	}
	return offset
}
