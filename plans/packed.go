package plans

import (
	"github.com/isobit-ml/isobit/cpu"
	"github.com/isobit-ml/isobit/tensor"
)

// Packed codes (s4, u4) lie two to a byte, the lower half first, along the
// last dimension; each row starts at a byte. Kernels see them as bytes: runs
// are unpacked before a kernel and packed after it.

// packedShape returns the shape in bytes of a packed tensor.
func packedShape(shape []int64) []int64 {
	last := len(shape) - 1
	return append(shape[:last:last], (shape[last]+1)/2)
}

// rowLength returns how many of a region's elements lie along an axis.
func (r *region) rowLength(axis int) int64 {
	n := int64(1)
	for _, d := range r.dims {
		if d.axis == axis {
			n *= d.size
		}
	}
	return n
}

// nibblesOf returns a dimension's stride in halves of bytes through the packed
// operand.
func (f *groupedPlan) nibblesOf(c *call, dim *regionDim) int64 {
	if f.packed < 0 {
		return 0
	}
	v := &c.args[f.operand[f.packed]]
	if dim.axis == len(f.shape)-1 {
		return dim.step // v is compact along its last dimension
	}
	return 2 * dim.step * v.Stride(dim.axis)
}

// firstNibble returns the half byte of a region's first element.
func (f *groupedPlan) firstNibble(c *call, r *region) (first int64) {
	v := &c.args[f.operand[f.packed]]
	last := len(f.shape) - 1
	for axis := range last {
		first += 2 * r.origin[axis] * v.Stride(axis)
	}
	return first + r.origin[last]
}

// checkPacked asks a packed tensor to be compact along its last dimension.
func checkPacked(v *tensor.View) bool {
	last := len(v.Shape) - 1
	return v.Shape[last] <= 1 || v.Stride(last) == 1
}

// shortRun is how many codes of a group in a row are worth unpacking for a kernel.
const shortRun = 256

// scattered reports whether groups have packed codes in shorter runs, or apart: one code
// at a time would be unpacked.
func (f *groupedPlan) scattered(c *call) bool {
	f.layoutOf(c, &need(&c.reducing).members, &f.regions[0], kernelOperands, memberDims)
	m := &c.members
	inner := m.dims - 1
	return !oneByOne && m.size[inner] > 1 && (m.nibbles[inner] != 1 || m.dims > 1 && m.size[inner] < shortRun)
}

// feedSize is the number of codes that are unpacked at a time.
const feedSize = 4096

// feed calls a kernel for the n elements at a cursor, whose spans are in the
// worker's arguments, through unpacked codes where they are packed.
func (f *groupedPlan) feed(w *worker, l *layout, cur *cursor, n int64, kernel func(n int64, a *cpu.Args)) {
	if f.packed < 0 {
		kernel(n, &w.args)
		return
	}
	all, number, stride := w.args, cur.nibble, l.nibbles[l.dims-1]
	base := l.start[f.packed]
	for at := int64(0); at < n; at += feedSize {
		m := min(feedSize, n-at)
		w.args = all.At(at)
		bytes := l.bytesOf(w)
		first := number + at*stride
		if f.packed < firstOutput {
			w.args.In[f.packed] = bytes
			f.packing.Unpack(w.codes[:m], base, first, stride, l.packedType)
			kernel(m, &w.args)
			continue
		}
		w.args.Out[f.packed-firstOutput], w.args.Stream = bytes, false
		kernel(m, &w.args)
		f.packing.Pack(base, first, stride, w.codes[:m])
	}
}

// byteType is the type of unpacked codes.
var byteType = map[tensor.DType]tensor.DType{tensor.S4: tensor.S8, tensor.U4: tensor.U8}
