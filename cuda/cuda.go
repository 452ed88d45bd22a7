// Package cuda runs ops on NVIDIA GPUs: CUDA C kernels, embedded as PTX, and
// what it takes to launch them. A Program is one op made ready: which kernels
// it needs and, at run time, in which order with which arguments.
//
// Kernels give the bits of the definitions in package cpu. The same sources
// compile for the CPU (shim/), where the tests compare them. There is no
// check of arguments here: package plans has done that.
//
// Programs import plans. What is exported here is for plans, and changes as it
// needs it.
package cuda

import (
	"errors"
	"fmt"
	"unsafe"

	"github.com/isobit-ml/isobit/tensor"
)

// Problem is an op with its types, shapes and attributes.
type Problem struct {
	Op     string         // without the granularity, such as "quantize_backward"
	Types  []tensor.DType // by run-time argument; tensor.None where absent
	Shapes [][]int64      // likewise
	Block  []int64        // of a grouped op: the extent of a group along each dimension
	Int    func(name string) int64
	Float  func(name string) float64
	Bool   func(name string) bool
	Word   func(name string) string
}

// Program is a problem made ready to run. It is immutable once loaded.
type Program struct {
	Workspace   int64
	Compute     tensor.DType // the type of the arithmetic
	Accumulator tensor.DType // the type of its sums; tensor.None where there are none
	kernels     []string     // "" for one that never runs
	functions   []Function
	device      int
	run         func(r *run)
}

// op is a row of the table of ops.
type op struct {
	name    string
	kernels func() []string // every kernel that some problem of the op needs
	build   func(p *Problem, prog *Program) error
}

// Supports reports whether an op has a CUDA row.
func Supports(op string) bool { return opByName(op) != nil }

func opByName(name string) *op {
	for i := range ops {
		if ops[i].name == name {
			return &ops[i]
		}
	}
	return nil
}

// New makes a problem ready: it decides which kernels run, and the workspace.
func New(p *Problem) (*Program, error) {
	o := opByName(p.Op)
	if o == nil {
		return nil, errors.New("has no CUDA kernels")
	}
	for i, d := range p.Types {
		if d != tensor.None && typeCodes[d] == 0 {
			return nil, fmt.Errorf("has argument %d of type %s, which has no CUDA kernels", i, d)
		}
	}
	prog := &Program{}
	return prog, o.build(p, prog)
}

// Load makes the program's kernels ready on a device, in its primary context.
// It comes before Run, and before a stream captures.
func (prog *Program) Load(device int) (err error) {
	prog.device = device
	prog.functions, err = driver.Load(device, prog.kernels)
	return err
}

// kernel notes that the program needs a kernel and returns its number.
func (prog *Program) kernel(format string, a ...any) int {
	prog.kernels = append(prog.kernels, fmt.Sprintf(format, a...))
	return len(prog.kernels) - 1
}

// kernelIf is kernel for one that runs under a condition: else it is not loaded.
func (prog *Program) kernelIf(runs bool, format string, a ...any) int {
	if !runs {
		format, a = "", nil
	}
	return prog.kernel(format, a...)
}

// run is one run of a program.
type run struct {
	*Program
	stream    uintptr
	workspace uint64
	args      []tensor.View
	err       error
}

// Run launches the program's kernels on a stream. It neither allocates device
// memory nor waits, so a stream may be capturing a graph. Views are of device
// memory; workspace is the address of Workspace bytes, a multiple of 16.
func (prog *Program) Run(stream, workspace uintptr, args []tensor.View) error {
	if workspace%workspaceAlign != 0 {
		return fmt.Errorf("the workspace is at an address that is not a multiple of %d", workspaceAlign)
	}
	leave, err := driver.Enter(prog.device)
	if err != nil {
		return err
	}
	defer leave()
	r := run{Program: prog, stream: stream, workspace: uint64(workspace), args: args}
	prog.run(&r)
	return r.err
}

// geometry is how many blocks of how many threads run a kernel.
type geometry struct{ grid, block [3]uint32 }

// of is the geometry with blocks of n threads.
func (g geometry) of(n int64) geometry {
	g.block = [3]uint32{uint32(n), 1, 1}
	return g
}

func ceilDiv(n, d int64) int64 { return tensor.CeilDiv(n, d) }

const (
	blockThreads = 256
	mostBlocks   = 1 << 20 // of a kernel whose threads loop
	// The most blocks that CUDA takes along an axis.
	gridX  = 1<<31 - 1
	gridYZ = 1<<16 - 1
)

// threads covers n items with one thread each; kernels loop where there are
// more items than threads.
func threads(n int64) geometry { return blocks(ceilDiv(n, blockThreads), mostBlocks) }

// blocks is n blocks, but at most limit.
func blocks(n, limit int64) geometry {
	return geometry{[3]uint32{uint32(max(1, min(n, limit))), 1, 1}, [3]uint32{blockThreads, 1, 1}}
}

// launch runs a kernel of the program, after those before it. Once one has
// failed the others do not run.
func launch[A any](r *run, kernel int, g geometry, args *A) {
	if r.err == nil {
		r.err = driver.Launch(r.functions[kernel], r.stream, g.grid, g.block, unsafe.Pointer(args), unsafe.Sizeof(*args))
	}
}

const workspaceAlign = 16

// reserve adds bytes to the workspace and returns where they start.
func (prog *Program) reserve(bytes int64) (offset int64) {
	offset = prog.Workspace
	prog.Workspace += (bytes + workspaceAlign - 1) &^ (workspaceAlign - 1)
	return offset
}

func (r *run) at(offset int64) uint64 { return r.workspace + uint64(offset) }
