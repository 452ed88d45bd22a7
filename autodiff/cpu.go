package autodiff

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"

	"github.com/isobit-ml/isobit/autodiff/internal/kernel"
	"github.com/isobit-ml/isobit/plans"
	"github.com/isobit-ml/isobit/tensor"
)

// CPU is the backend that computes in host memory, in plain Go and through
// this project's plans. Results do not depend on the number of threads.
//
// The memory of released tensors is kept for new ones, so a training step
// that releases what it made allocates next to nothing. A CPU is not copied;
// &CPU{} is what NewCPU makes.
type CPU struct {
	threads int
	pool    pool
	plans   planCache
}

var _ Backend = (*CPU)(nil)

// NewCPU makes a backend that splits work over as many threads as
// plans.NumThreads says, four for each processor at most.
func NewCPU() *CPU { return NewCPUThreads(0) }

// NewCPUThreads makes a backend with its own number of threads, up to
// plans.MaxThreads; 0 or fewer: NewCPU's.
func NewCPUThreads(n int) *CPU {
	return &CPU{threads: min(max(n, 0), plans.MaxThreads)}
}

// Name returns "cpu".
func (c *CPU) Name() string { return "cpu" }

// Device returns the CPU.
func (c *CPU) Device() tensor.Device { return tensor.Device{} }

// Threads returns how many threads work is split over.
func (c *CPU) Threads() int {
	if c.threads > 0 {
		return c.threads
	}
	return min(plans.NumThreads(), 4*runtime.NumCPU())
}

func (c *CPU) kernel() kernel.Threads { return kernel.Threads(c.Threads()) }

// MemoryStats returns the bytes that the backend has made buffers of since it
// began, and the bytes of those that lie unused.
func (c *CPU) MemoryStats() (made, idle int64) {
	c.pool.mu.Lock()
	defer c.pool.mu.Unlock()
	return c.pool.made, c.pool.idle
}

// Trim leaves unused buffers to the garbage collector.
func (c *CPU) Trim() { c.pool.trim() }

// Owns reports whether v is a tensor of a CPU backend.
func (c *CPU) Owns(v Value) bool {
	_, ok := v.(*cpuTensor)
	return ok
}

// checkView refuses what cannot be read: plans ask the same of their arguments.
func checkView(v *tensor.View) error {
	info := Info{v.DType, v.Shape}
	switch {
	case v.NumElements() < 0:
		return fmt.Errorf("autodiff: cannot copy %v: no tensor has this shape", info)
	case v.DType.Size() == 0 || v.DType.Packed():
		return fmt.Errorf("autodiff: cannot copy %v; want a type whose elements have bytes of their own", info)
	case v.Strides != nil && len(v.Strides) != len(v.Shape):
		return fmt.Errorf("autodiff: cannot copy %v: it has %d strides; want one for each dimension", info, len(v.Strides))
	case v.Data == nil && v.NumElements() > 0:
		return fmt.Errorf("autodiff: cannot copy %v: its data is nil; want the address of its elements", info)
	}
	switch lo, hi := v.Extent(); {
	case lo == math.MinInt64:
		return fmt.Errorf("autodiff: cannot copy %v: it reaches beyond all memory", info)
	case (v.Low != 0 || v.High != 0) && (lo < v.Low || hi > v.High):
		return fmt.Errorf("autodiff: cannot copy %v: it spans bytes [%d, %d); want at most [%d, %d), which its memory has", info, lo, hi, v.Low, v.High)
	}
	return nil
}

// FromView copies a tensor from host memory.
func (c *CPU) FromView(v tensor.View) (Value, error) {
	if !v.Present() || !v.Device.IsCPU() {
		return nil, fmt.Errorf("autodiff: cannot copy %v on %v; want a tensor in host memory", Info{v.DType, v.Shape}, v.Device)
	}
	if err := checkView(&v); err != nil {
		return nil, err
	}
	info := Info{v.DType, append([]int64{}, v.Shape...)}
	if err := info.fits(); err != nil {
		return nil, fmt.Errorf("autodiff: cannot copy %v: the copy would %w", info, err)
	}
	t := c.new(info)
	size := int(v.DType.Size())
	mem := t.buf.mem[:t.n*size]
	if v.IsContiguous() {
		copy(mem, tensor.Bytes(v))
	} else {
		l := kernel.Strided{Shape: v.Shape, Stride: v.Stride, Size: size}
		l.Copy(mem, v.Data)
	}
	if err := checkBools(v.DType, mem); err != nil {
		t.Release()
		return nil, fmt.Errorf("autodiff: cannot copy %v: %w", info, err)
	}
	return t, nil
}

// checkBools refuses bytes that are no truth value.
func checkBools(d tensor.DType, bytes []byte) error {
	if d != tensor.Bool {
		return nil
	}
	for i, b := range bytes {
		if b > 1 {
			return fmt.Errorf("element %d is a byte of %d; want 0 or 1", i, b)
		}
	}
	return nil
}

// View shows a tensor in host memory, for reading.
func (c *CPU) View(v Value) (tensor.View, error) {
	t, err := c.tensor(v)
	if err != nil {
		return tensor.View{}, fmt.Errorf("autodiff: view: %w", err)
	}
	view := t.view()
	view.ReadOnly = true
	return view, nil
}

func (c *CPU) tensor(v Value) (*cpuTensor, error) {
	t, ok := v.(*cpuTensor)
	if !ok {
		return nil, fmt.Errorf("%v belongs to another backend than cpu", infoOf(v))
	}
	if t.released.Load() {
		return nil, fmt.Errorf("%v: %w", infoOf(t), errReleased)
	}
	return t, nil
}

// call is one operation at work.
type call struct {
	c   *CPU
	op  Op
	at  *Attr
	in  []*cpuTensor
	out [3]*cpuTensor
	t   kernel.Threads
	// infos are the inputs' types and shapes.
	infos []Info
}

// calls keeps what operations of a few microseconds would allocate each.
var calls = sync.Pool{New: func() any { return new(call) }}

// done gives the call to the next operation. Nothing has it any more.
func (k *call) done() {
	clear(k.in)
	clear(k.infos)
	*k = call{in: k.in[:0], infos: k.infos[:0]}
	calls.Put(k)
}

// empty reports whether no tensor has elements. A loop over rows without elements
// would take as long as the other extents say, which are as large as you like.
func (k *call) empty() bool {
	hasElements := func(t *cpuTensor) bool { return t != nil && t.n > 0 }
	return !slices.ContainsFunc(k.in, hasElements) && !slices.ContainsFunc(k.out[:], hasElements)
}

// Run applies an operation.
func (c *CPU) Run(op Op, at *Attr, in ...Value) (Outputs, error) {
	if at == nil {
		at = new(Attr)
	}
	k := calls.Get().(*call)
	defer k.done()
	k.c, k.op, k.at, k.t = c, op, at, c.kernel()
	half := tensor.None
	for i, v := range in {
		if v == nil {
			k.in, k.infos = append(k.in, nil), append(k.infos, Info{})
			continue
		}
		t, err := c.tensor(v)
		if err != nil {
			return Outputs{}, fmt.Errorf("autodiff: %v: %s: %w", op, op.input(i), err)
		}
		k.in, k.infos = append(k.in, t), append(k.infos, Info{t.dtype, t.shape})
		if t.dtype == tensor.F16 || t.dtype == tensor.BF16 {
			half = t.dtype
		}
	}
	info, err := op.Infer(at, k.infos)
	if err != nil {
		return Outputs{}, err
	}
	if d := info[0].DType; len(in) == 0 && (d == tensor.F16 || d == tensor.BF16) {
		half = d
	}
	if def := &ops[op]; half != tensor.None && !def.plan && !def.moves {
		return c.runHalf(op, at, in, info)
	}
	if op == OpReshape {
		return Outputs{k.in[0].alias(info[0].Shape)}, nil
	}
	return k.run(info)
}

// run computes into new tensors, with the types and shapes of info.
func (k *call) run(info [3]Info) (Outputs, error) {
	for i, o := range info {
		if o.DType != tensor.None {
			k.out[i] = k.c.new(o)
		}
	}
	run := cpuKernels[k.op]
	if !ops[k.op].plan && k.empty() {
		run = func(*call) error { return nil }
	}
	if err := run(k); err != nil {
		for _, t := range k.out {
			if t != nil {
				t.Release()
			}
		}
		if e, ok := errors.AsType[*plans.Error](err); ok && e.Op == k.op.String() { // names the operation itself
			return Outputs{}, fmt.Errorf("autodiff: %w", err)
		}
		return Outputs{}, fmt.Errorf("autodiff: %v: %w", k.op, err)
	}
	if ops[k.op].inPlace {
		k.in[0].buf.version.Add(1)
	}
	var out Outputs
	for i, t := range k.out {
		if t != nil {
			out[i] = t
		}
	}
	return out, nil
}

// runHalf computes 16-bit floats in f32 and rounds the results once.
func (c *CPU) runHalf(op Op, at *Attr, in []Value, info [3]Info) (Outputs, error) {
	wide := make([]Value, len(in))
	for i, v := range in {
		if v != nil && v.DType().IsFloat() && v.DType().Size() == 2 {
			t := c.new(Info{tensor.F32, v.Shape()})
			defer t.Release()
			convert(c.kernel(), t, v.(*cpuTensor))
			wide[i] = t
			continue
		}
		wide[i] = v
	}
	attr := *at
	if len(in) == 0 {
		attr.DType = tensor.F32
	}
	out, err := c.Run(op, &attr, wide...)
	if err != nil {
		return out, err
	}
	for i, v := range out {
		if v != nil && v.DType() != info[i].DType {
			t := c.new(info[i])
			convert(c.kernel(), t, v.(*cpuTensor))
			v.Release()
			out[i] = t
		}
	}
	return out, nil
}
