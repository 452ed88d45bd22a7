package plans

import (
	"github.com/isobit-ml/isobit/cpu"
	"github.com/isobit-ml/isobit/tensor"
)

// groupedPlan is what the ops over grouped elements (quantize and its relatives)
// have in common: which argument is which operand of the kernel, and how
// elements are grouped.
type groupedPlan struct {
	grouping
	shape   []int64
	regions []region
	operand [maxOperands]int // argument of each operand, or -1
	param   [maxOperands]bool
	size    [maxOperands]int64 // of an element in bytes
	packed  int                // the operand with two codes to a byte, or -1
	scale   int                // the operand that holds scales, before zero points, or -1
	compute tensor.DType
	isa     cpu.ISA // of the row
	params  cpu.ParamKernels
	packing cpu.Packing
	copier  [len(copiedOperands)]*copier
	data    operandSet // of elements
	sides   [sideCount]*copier
	args    cpu.Args // types and constants; the spans are filled in while running
}

// newGroupedPlan takes the names of a kernel's operands: up to four inputs (in), up to
// three outputs of x's shape (out), and up to two of the parameters' shape (groupOut).
func newGroupedPlan(p *Problem, in, out, groupOut []string) *groupedPlan {
	f := &groupedPlan{grouping: p.grouping, shape: p.shapes[0], regions: p.grouping.regions(p.shapes[0]), packed: -1}
	for k := range f.operand {
		f.operand[k] = -1
	}
	for i, names := range [][]string{in, out, groupOut} {
		for k, name := range names {
			f.operand[[]int{0, firstOutput, firstGroupValue}[i]+k] = p.op.arg(name)
		}
	}
	for k, i := range f.operand {
		if i >= 0 {
			f.param[k] = p.op.args[i].param
			if p.types[i].Packed() {
				f.packed = k
			}
		}
	}
	return f
}

// types fills in the kernel's types and constants.
func (f *groupedPlan) types(p *Problem, compute tensor.DType) cpu.Types {
	t := cpu.Types{Compute: compute}
	f.compute, f.scale, f.params = compute, f.scaleIndex(), pickSupport(cpu.ParamRows, cpu.Types{Compute: compute})
	f.packing = pickSupport(cpu.PackingRows, t)
	dtype := func(k int) tensor.DType {
		i := f.operand[k]
		switch {
		case i < 0:
			return tensor.None
		case k == f.packed:
			return byteType[p.types[i]] // what kernels see
		}
		return p.types[i]
	}
	for k := range t.In {
		t.In[k] = dtype(k)
		f.args.In[k].DType = t.In[k]
	}
	for k := range t.Out {
		t.Out[k] = dtype(firstOutput + k)
		f.args.Out[k].DType = t.Out[k]
	}
	f.args.Lo, f.args.Hi = float64(p.int("qmin")), float64(p.int("qmax"))
	if p.op.hasAttr("rounding") {
		f.args.Attrs.Reciprocal = p.word("rounding") == "reciprocal"
	}
	if p.op.hasAttr("symmetric") {
		f.args.Attrs.Symmetric, f.args.Attrs.Eps = p.bool("symmetric"), p.float("eps")
	}
	for i, k := range copiedOperands {
		f.copier[i] = copierOf(dtype(k), k == firstOutput)
	}
	f.data = f.dataOperands()
	for i := range f.sides {
		if k := f.sideOperand(i); k >= 0 {
			f.sides[i] = copierOf(dtype(k), i >= resultSide)
		}
	}
	for k := range f.size {
		f.size[k] = dtype(k).Size()
	}
	t.Attrs = f.args.Attrs
	f.args.Stream = f.bytes() > streamFrom
	return t
}

// bytes returns the size of all elements of the kernel's operands.
func (f *groupedPlan) bytes() int64 { return tensor.NumElements(f.shape) * f.bytesEach() }

func (f *groupedPlan) bytesEach() (bytes int64) {
	for k := range kernelOperands {
		if f.operand[k] >= 0 && !f.param[k] {
			bytes += f.size[k]
		}
	}
	return bytes
}

// arm copies the types and constants into a worker's arguments.
func (f *groupedPlan) arm(w *worker) *cpu.Args {
	s := w.args.Scratch
	w.args = f.args
	w.args.Scratch = s
	return &w.args
}
