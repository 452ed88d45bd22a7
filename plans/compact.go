package plans

import (
	"unsafe"

	"github.com/isobit-ml/isobit/cpu"
	"github.com/isobit-ml/isobit/tensor"
)

// Inputs that are read many times, or in any order, such as the images of grid_sample: where the
// elements of their rows lie apart (channels last, an expanded gradient), they are copied first, as
// a whole, into memory that calls share; so are cropped ones whose elements are read in blocks longer
// than their rows.

// maxCompact is how many inputs of an op are copied: the first ones.
const maxCompact = 4

// mostExpanded is along how many dimensions copies may stay expanded: of images batch and channels, whose others
// kernels read in any order.
const mostExpanded = 2

// compaction copies one input.
type compaction struct {
	from   layout
	copier *copier
	count  int64
	memory []uint64
	// repeats is the size of a number that memory has copies of, else 0.
	repeats int64
	// strides are those of the copy, where the input stays expanded.
	strides [tensor.MaxRank]int64
}

// compact puts copies in the place of inputs whose rows lie apart.
func (c *call) compact() {
	args := c.problem.op.args
	if !c.problem.device.IsCPU() {
		return
	}
	for i := range min(maxCompact, len(args)) {
		if !args[i].isCopied(c, &c.args[i]) {
			continue
		}
		c.copyArgs()
		c.copyRows(&c.args[i], need(&c.compactions[i]), args[i].expandedDims(&c.args[i]))
	}
}

// copyRows puts a copy in the place of an input, but for the outermost dimensions, along which it stays expanded.
func (c *call) copyRows(v *tensor.View, m *compaction, outer int) {
	rows := *v
	rows.Shape, rows.Strides = v.Shape[outer:], v.Strides[outer:]
	v.Data, v.Strides = c.copyWhole(&rows, m), nil
	if outer == 0 {
		return
	}
	rows.Strides, v.Strides = nil, m.strides[:len(v.Shape)]
	clear(v.Strides)
	for d := range rows.Shape {
		v.Strides[outer+d] = rows.Stride(d)
	}
}

// expandedDims returns along how many dimensions, the outermost ones, an input that is copied stays expanded.
func (a *arg) expandedDims(v *tensor.View) (outer int) {
	most := min(len(v.Shape)-1, mostExpanded)
	if a.blocks > 0 {
		most = min(most, a.blocks)
	}
	for d := range most {
		switch {
		case v.Shape[d] == 1:
		case v.Stride(d) != 0:
			return outer
		default:
			outer = d + 1
		}
	}
	return outer
}

// isCopied reports whether calls copy an input.
func (a *arg) isCopied(c *call, v *tensor.View) bool {
	last := len(v.Shape) - 1
	switch {
	case a.compact == nil && a.blocks == 0 || !v.Present() || last < 0 || v.NumElements() == 0:
		return false
	case v.Shape[last] > 1 && v.Stride(last) != 1:
		return a.compact != nil && a.compact(c)
	}
	return a.blocks > 0 && a.inShortRows(v) && (a.compact == nil || a.compact(c))
}

// inShortRows reports whether elements that are read in blocks lie in rows shorter than these.
func (a *arg) inShortRows(v *tensor.View) bool {
	row := int64(1)
	for d := len(v.Shape) - 1; d >= a.blocks; d-- {
		if v.Shape[d] > 1 && v.Stride(d) != row {
			return row < cpu.Block
		}
		row *= v.Shape[d]
	}
	return false
}

// copyWhole copies an input's elements, row-major.
func (c *call) copyWhole(v *tensor.View, m *compaction) unsafe.Pointer {
	l, size := &m.from, v.DType.Size()
	l.dims, l.packed, l.start[0] = len(v.Shape), -1, v.Data
	for d, n := range v.Shape {
		l.size[d], l.stride[0][d] = n, v.Stride(d)*size
	}
	l.coalesce(1)
	c.hasCopies = true
	m.reserve(l.count(), size)
	c.compacting, m.copier = m, copierOf(v.DType, copyInputs)
	c.parallel(ceilDiv(m.count, jobSize), m.count, compactJob)
	return m.start()
}

func (m *compaction) start() unsafe.Pointer { return unsafe.Pointer(unsafe.SliceData(m.memory)) }

// reserve gets memory for a number of elements of a size.
func (m *compaction) reserve(count, size int64) {
	m.count, m.repeats = count, 0
	if words := int(ceilDiv(count*size, 8)); len(m.memory) < words {
		m.memory = make([]uint64, words)
	}
}

// mostKept is how many words calls keep for the next copies.
const mostKept = 8 << 20

// forgetCopies clears the pointers to what was copied, and gives large memory back.
func (p *copying) forgetCopies() {
	p.hasCopies = false
	if p.pieces != nil {
		clear(p.dense.start[:])
		for i := range p.sources {
			clear(p.sources[i].start[:])
		}
	}
	for _, m := range p.compactions {
		if m == nil {
			continue
		}
		if m.from.start[0] = nil; len(m.memory) > mostKept {
			m.memory, m.repeats = nil, 0
		}
	}
}

func compactJob(c *call, w *worker, number int64) {
	m, cur := c.compacting, &w.cursors[ofCopies]
	cur.shift[0] = 0
	begin := number * jobSize
	n := min(jobSize, m.count-begin)
	m.copier.piece(&m.from, cur, begin, n, unsafe.Add(m.start(), begin*m.copier.size))
}
