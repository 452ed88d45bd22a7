// Package plans runs isobit's operations on tensors, with the same bits on every
// machine and any number of threads; it is what Go programs import. A Problem, a
// line of text, says what to compute. Select makes a Plan of it, once, which runs
// any number of times:
//
//	p, err := plans.Parse("quantize_per_channel x=f32[8,64] q=s8 axis=0 qmin=-128 qmax=127")
//	plan, err := plans.Select(0, p, plans.Preference{})
//	err = plan.Run(0, nil, []tensor.View{x, scale, zeroPoint, q})
//
// OPS.md is the reference of ops: their arguments in the order that Run takes them
// in, shapes, types, attributes and formulas; Support has it as data. NUMERICS.md
// says which bits they return. Every error is an *Error.
package plans

import (
	"sync"

	"github.com/isobit-ml/isobit/cpu"
	"github.com/isobit-ml/isobit/tensor"
)

// Stream is a device's queue: a CUstream, or 0. It is not used on the CPU.
type Stream uintptr

// WorkspaceAlignment is what the address of a workspace in host memory is a
// multiple of; on a CUDA device it is 16. Matrix products are faster where it is 64.
const WorkspaceAlignment = 8

// Preference narrows the choice of a row. The zero value takes the best.
type Preference struct {
	MaxWorkspace int64  // bytes; 0 means no limit. Rows that need more run on fewer threads, or are passed over
	Row          string // "" means any; else only the row with this name
	// Threads is how many threads a run takes; 0 means NumThreads at the time of Run.
	// Where the workspace has a part for each thread (matmul, the input's gradients of
	// grid_sample), Select reserves parts for the NumThreads of its time, and a later
	// SetNumThreads can lower the number but not raise it.
	Threads int
}

// Plan runs one problem. It is immutable and safe for use by many goroutines
// at once; it holds no tensor, stream or workspace. Running it does not
// synchronise or print, and allocates only memory that later runs use again: that of
// each worker, 5 to 15 KB where a plan is on few elements, and copies of inputs that an op
// reads in any order (images, upstream gradients, packed codes) and whose rows are not
// contiguous. Copies beyond 64 MiB are given back.
type Plan interface {
	// Problem returns the problem that the plan was selected for.
	Problem() Problem
	// CanImplement checks the arguments against the problem: number, types,
	// shapes, devices, bounds of memory, overlap, values. Of a View on
	// tensor.Meta, which has no memory, only type and shape are checked; with one
	// such View, values of no argument are. Errors are of the kind InvalidArgument.
	CanImplement(args []tensor.View) error
	// WorkspaceSize returns the bytes that Run needs, exactly.
	WorkspaceSize() int64
	// SKU identifies the plan; it is comparable.
	SKU() SKU
	// PrecisionGuarantee says what results may be relied on for.
	PrecisionGuarantee() PrecisionGuarantee
	// Run checks the arguments, then computes. Outputs are written only if
	// there is no error, and read first only where Describe says "inout".
	// Absent optional arguments are zero Views. Errors are of the kinds
	// InvalidArgument, WorkspaceTooSmall and DeviceError.
	Run(stream Stream, workspace []byte, args []tensor.View) error
}

// Category groups ops.
type Category string

// The categories.
const (
	Quantization Category = "quantization"
	Embedding    Category = "embedding"
	Sampling     Category = "sampling"
	Linear       Category = "linear"
)

// SKU is a plan's identity.
type SKU struct {
	Category Category
	Op       string
	DTypes   string // of the arguments, in order, such as "f32,f32,i32,s8"
	Row      string // the row that runs; what its kernels do not take the definition computes, with the same bits
	Arch     string // what the row needs: an instruction set, or "ptx"
}

// PrecisionGuarantee is what a plan promises of its results.
type PrecisionGuarantee struct {
	Math           tensor.DType // type of the arithmetic
	Accumulator    tensor.DType // type of sums
	Deterministic  bool         // the same bits in every run
	BitStable      bool         // the same bits on the same hardware
	SameEverywhere bool         // the same bits on every row, device, processor and thread count
}

// plan is every Plan: the ops differ in data and in run.
type plan struct {
	problem     Problem
	pref        Preference
	compute     tensor.DType
	accumulator tensor.DType
	row         string
	needs       cpu.ISA // of the row, on a CPU
	workspace   int64
	mostThreads int                 // where each thread has a part of the workspace: how many parts there are
	refused     []string            // lines that the log has of refused rows
	shapes      [][][]int64         // by argument: the shapes that are accepted
	outputs     []int               // which arguments are outputs
	check       func(c *call) error // of values, such as indices; or nil
	run         func(c *call) error // nil where no output has an element
	calls       *sync.Pool          // calls that this plan keeps for itself (again.go), or nil
	alike       bool                // every run may be repeated by a kept call
}

// Select checks the problem and picks the first row that takes it. The stream is
// not used yet: loading a device's kernels waits for none. Errors are of the kinds
// InvalidProblem, Unsupported and DeviceError, and InvalidArgument of ISOBIT_ROWS.
func Select(_ Stream, p Problem, pref Preference) (Plan, error) {
	if err := wrongCap.Load(); err != nil {
		return nil, err
	}
	if p.op == nil {
		return nil, errorf(InvalidProblem, "", "problem", "is empty; want one made by Parse")
	}
	if pref.Threads < 0 || pref.Threads > MaxThreads {
		return nil, errorf(InvalidProblem, p.op.name, "preference", "asks for %d threads; want 0 to %d", pref.Threads, MaxThreads)
	}
	if pref.MaxWorkspace < 0 {
		return nil, errorf(InvalidProblem, p.op.name, "preference", "allows %d bytes of workspace; want at least 1, or 0 for any number", pref.MaxWorkspace)
	}
	pl := &plan{problem: p, pref: pref, mostThreads: MaxThreads, shapes: make([][][]int64, len(p.op.args))}
	for i := range p.shapes {
		switch pl.shapes[i] = p.shapes[i : i+1]; {
		case p.op.args[i].param:
			pl.shapes[i] = p.grouping.paramShapes
		case p.types[i].Packed():
			pl.shapes[i] = [][]int64{packedShape(p.shapes[i])}
		}
		if p.op.args[i].out {
			pl.outputs = append(pl.outputs, i)
		}
	}
	if !p.device.IsCPU() {
		return selectDevice(pl)
	}
	pl, err := pl.buildWithinLimit()
	if err != nil {
		return nil, err
	}
	if verbose.Load() != nil {
		verbosef("select %q row=%s workspace=%d", p.String(), pl.row, pl.workspace)
	}
	return pl, nil
}

// buildWithinLimit builds the plan from the best row that needs no more workspace than
// the preference allows. Where each thread has a part of the workspace, fewer threads need
// less; else another row may, since kernels pack operands that the definition reads directly.
func (pl *plan) buildWithinLimit() (*plan, error) {
	if pl.pref.MaxWorkspace == 0 {
		return pl, pl.build()
	}
	unbuilt := *pl
	if err := pl.build(); err != nil {
		return nil, err
	}
	err := pl.checkWorkspaceLimit()
	if err == nil {
		return pl, nil
	}
	rows := []string{pl.pref.Row}
	if pl.pref.Row == "" {
		rows = pl.problem.op.rows()
	}
	for _, name := range rows {
		for most := MaxThreads; most > 0; most /= 2 {
			other := unbuilt
			other.pref.Row, other.mostThreads, other.refused = name, most, pl.refused
			if most < MaxThreads && most >= pl.threads() {
				continue
			}
			if other.build() != nil {
				break
			}
			if err = other.checkWorkspaceLimit(); err == nil {
				return &other, nil
			}
		}
	}
	return nil, err
}

// build has the op complete the plan. Where no output has an element, there is nothing to run.
func (pl *plan) build() error {
	if err := pl.problem.op.build(pl); err != nil {
		return err
	}
	if pl.largestOutput() == 0 {
		pl.run, pl.workspace = nil, 0
	}
	return nil
}

// largestOutput returns the number of elements of the largest output.
func (pl *plan) largestOutput() (elements int64) {
	for _, i := range pl.outputs {
		if pl.problem.types[i] != tensor.None {
			elements = max(elements, tensor.NumElements(pl.problem.shapes[i]))
		}
	}
	return elements
}

// checkWorkspaceLimit compares the workspace of the row with what the preference allows.
func (pl *plan) checkWorkspaceLimit() error {
	if limit := pl.pref.MaxWorkspace; limit > 0 && pl.workspace > limit {
		return errorf(Unsupported, pl.problem.op.name, "preference", "allows %d bytes of workspace; the row %s needs %d", limit, pl.row, pl.workspace)
	}
	return nil
}

func (pl *plan) Problem() Problem     { return pl.problem }
func (pl *plan) WorkspaceSize() int64 { return pl.workspace }

func (pl *plan) SKU() SKU {
	o, arch := pl.problem.op, pl.needs.String()
	if !pl.problem.device.IsCPU() {
		arch = "ptx"
	}
	return SKU{o.category, o.name, typeList(pl.problem.types), pl.row, arch}
}

func typeList(types []tensor.DType) string {
	s := ""
	for i, d := range types {
		if i > 0 {
			s += ","
		}
		s += d.String()
	}
	return s
}

func (pl *plan) PrecisionGuarantee() PrecisionGuarantee {
	o := pl.problem.op
	everywhere := o.machineDependent == nil || !o.machineDependent(&pl.problem)
	return PrecisionGuarantee{
		Math: pl.compute, Accumulator: pl.accumulator,
		Deterministic: true, BitStable: true, SameEverywhere: everywhere,
	}
}

// threads returns how many threads a run has now.
func (pl *plan) threads() int {
	n := pl.pref.Threads
	if n == 0 {
		n = NumThreads()
	}
	return min(n, pl.mostThreads)
}
