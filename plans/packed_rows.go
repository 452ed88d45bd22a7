package plans

import (
	"unsafe"

	"github.com/isobit-ml/isobit/cpu"
	"github.com/isobit-ml/isobit/tensor"
)

// Packed codes in short rows, many of which no kernel takes in one call, such as rows of an odd number of codes. The
// whole tensor is unpacked before the kernel, or packed after it, several rows at a time: a row of an odd number has
// one more nibble, which is skipped, or set to 0. Outputs that caches hold are packed so whatever their rows are: a piece that
// was written at once has to wait for its stores.

// longPackedRow: rows of at least so many codes are unpacked, or packed, as part of the job that reads or writes them.
const longPackedRow = 1024

// inBytes makes the run of an op that maps elements with packed codes, which unpacks or packs the whole tensor where that is
// faster, and else is the run packed.
func (f *groupedPlan) inBytes(pl *plan, kernel cpu.Elementwise, packed func(c *call) error) func(c *call) error {
	bytes := *f
	bytes.packed, bytes.isa = -1, pl.needs
	whole, unpack := runElementwise(pl, &bytes, kernel), job(f.unpackRows)
	if f.packed >= firstOutput {
		bytes.args.Stream = false // they are read soon
		whole = f.thenPacked(whole)
	}
	return func(c *call) error {
		if !f.takesBytes(c) {
			return packed(c)
		}
		if f.packed < firstOutput {
			f.unpackWhole(c, unpack)
		}
		return whole(c)
	}
}

// thenPacked packs the codes that a run makes as bytes.
func (f *groupedPlan) thenPacked(whole func(c *call) error) func(c *call) error {
	pack := job(f.packRows)
	return func(c *call) error {
		if tensor.NumElements(f.shape) == 0 {
			return whole(c)
		}
		m := f.rowsAsBytes(c)
		err := whole(c)
		c.compacting = m
		c.parallel(f.packedJobs(), m.count, pack)
		return err
	}
}

// takesBytes reports whether packed codes are outputs that caches hold, or some elements are in short rows, or lie apart, and
// cannot be taken as groups of packed codes.
func (f *groupedPlan) takesBytes(c *call) bool {
	if oneByOne || tensor.NumElements(f.shape) == 0 {
		return false
	}
	if f.packed >= firstOutput && !f.args.Stream && tensor.NumElements(f.shape) > cpu.TileSize {
		return true
	}
	for i := range f.regions {
		l := &need(&c.mapping).all
		f.layoutOf(c, l, &f.regions[i], kernelOperands, everyDim)
		inner := l.dims - 1
		if short := l.size[inner] < longPackedRow || f.anyApart(l); inner > 0 && short && f.tryPackedGroups(c) == 0 {
			return true
		}
	}
	return false
}

// unpackWhole puts bytes in the place of a call's packed codes, row-major.
func (f *groupedPlan) unpackWhole(c *call, unpack job) {
	c.compacting = f.rowsAsBytes(c)
	c.parallel(f.packedJobs(), c.compacting.count, unpack)
}

// rowsAsBytes puts room for bytes in the place of a call's packed codes, and lays these out: rows have an even number.
func (f *groupedPlan) rowsAsBytes(c *call) *compaction {
	i := f.operand[f.packed]
	v, m := &c.args[i], need(&c.compactions[i])
	l, last := &m.from, len(f.shape)-1
	l.dims, l.first, l.start[0], l.packedType = last+1, 0, v.Data, c.problem.types[i]
	for d, n := range f.shape {
		if l.size[d], l.nibbles[d] = n, 1; d < last { // v is compact along its last dimension
			l.nibbles[d] = 2 * v.Stride(d)
		}
	}
	l.size[last] = f.packedWidth()
	l.coalesce(0)
	m.reserve(tensor.NumElements(f.shape), 1)
	c.copyArgs()
	c.hasCopies = true
	c.args[i] = tensor.View{Data: m.start(), DType: byteType[l.packedType], Shape: f.shape}
	return m
}

// packedWidth is how many halves of bytes a row has.
func (f *groupedPlan) packedWidth() int64 { return roundUp(f.shape[len(f.shape)-1], 2) }

// rowsPerJob is how many rows are taken in a job.
func (f *groupedPlan) rowsPerJob() int64 { return max(1, jobSize/max(1, f.packedWidth())) }

func (f *groupedPlan) packedJobs() int64 {
	return ceilDiv(tensor.NumElements(f.shape[:len(f.shape)-1]), f.rowsPerJob())
}

// unpackRows unpacks the rows of a job.
func (f *groupedPlan) unpackRows(c *call, w *worker, number int64) {
	l := &c.compacting.from
	f.eachRows(c, w, number, func(packed unsafe.Pointer, codes []int8) {
		f.packing.UnpackRows(codes, packed, int(f.shape[len(f.shape)-1]), l.packedType)
	})
}

// packRows packs them.
func (f *groupedPlan) packRows(c *call, w *worker, number int64) {
	f.eachRows(c, w, number, func(packed unsafe.Pointer, codes []int8) {
		f.packing.PackRows(packed, codes, int(f.shape[len(f.shape)-1]))
	})
}

// eachRows calls do for the rows of a job, as many at a time as follow one another, with their packed codes and their bytes.
func (f *groupedPlan) eachRows(c *call, w *worker, number int64, do func(packed unsafe.Pointer, codes []int8)) {
	m, cur, n, width := c.compacting, &w.cursors[ofCopies], f.shape[len(f.shape)-1], f.packedWidth()
	codes := unsafe.Slice((*int8)(m.start()), m.count)
	rows := f.rowsPerJob()
	row := number * rows
	cur.shiftNibble = 0
	m.from.walk(cur, row*width, min((row+rows)*width, m.count/n*width), 0, func(halves int64) {
		some := halves / width
		do(unsafe.Add(m.from.start[0], cur.nibble/2), codes[row*n:][:some*n])
		row += some
	})
}
