package cpu

import (
	"unsafe"

	"github.com/isobit-ml/isobit/tensor"
)

// What stands between a run and the generated kernels (z_*): operands become what kernels
// read (kernelCall), and elements that fill no whole vector are copied and filled up.

// kernel is one generated function. It takes a multiple of step contiguous elements of
// certain types; parameters are in the compute type.
type kernel struct {
	needs   ISA
	compute tensor.DType
	in      [2]tensor.DType // of the data inputs; None: not read
	out     tensor.DType
	code    tensor.DType // the 8-bit float type that codes are rounded to, or None
	half    uint8        // which of the 16-bit types that the function takes the elements have
	kind    uint8        // which of the types of codes that it reads the codes have
	step    int
	block   int  // elements of a run that are taken at a time; 0: the kernel takes no Runs
	repeats bool // the last step of a run may overlap the step before it
	quick   bool // has a way without divisions (internal/gen/quick.go)
	heads   bool // may store runs around the caches that begin within a cache line
	chooses bool // chooses the parameters of runs itself
	holds   bool // holds the sums of runs in registers (internal/gen/held_runs.go)
	run     func(n int, c *kernelCall)
}

// kernels are those of one op, best first.
type kernels []kernel

// find returns the kernel for the given types, of which data is the number of
// data inputs. An absent operand fits every kernel.
func (ks kernels) find(isa ISA, t *Types, data int) *kernel {
	fits := func(have, want tensor.DType) bool { return have == want || want == tensor.None || have == tensor.None }
	for i := range ks {
		k := &ks[i]
		if k.needs != isa || k.compute != t.Compute || k.code != t.Attrs.Code || !fits(t.Out[0], k.out) {
			continue
		}
		if fits(t.In[0], k.in[0]) && (data < 2 || fits(t.In[1], k.in[1])) {
			return k
		}
	}
	return nil
}

// rows makes an op's table: a row for each instruction set that has kernels,
// best first, and the definition. glue makes the row's function of a kernel
// and the definition's.
func rows[F any](ks kernels, data int, definition func(Types) (F, bool), glue func(k *kernel, definition F) F) []Row[F] {
	return tableOf(definition, func(isa ISA, t Types) (f F, ok bool) {
		k := ks.find(isa, &t, data)
		if k == nil {
			return f, false
		}
		slow, _ := definition(t)
		return glue(k, slow), true
	})
}

// elementwiseRows is rows for kernels that map every element on its own. The
// operands after the data inputs are scale and zero point.
func elementwiseRows(ks kernels, data int, definition func(Types) (Elementwise, bool)) []Row[Elementwise] {
	all := func(t Types) (Elementwise, bool) {
		kernel, ok := definition(t)
		return runByRun(kernel), ok
	}
	return rows(ks, data, all, func(k *kernel, slow Elementwise) Elementwise {
		one := runByRun(func(n int, a *Args) {
			if !k.takes(n, a) {
				slow(n, a)
				return
			}
			k.forCalls(n, data, a, func(_, m int) { k.output(m, a) })
		})
		return func(n int, a *Args) {
			if a.Runs.Steps == 0 || !k.tryRuns(n, data, a) && !k.tryRows(n, data, a) {
				one(n, a)
			}
		}
	})
}

// stripedRows is rows for kernels that also add to accumulators.
func stripedRows(ks kernels, data int, definition func(Types) (Striped, bool)) []Row[Striped] {
	all := func(t Types) (Striped, bool) {
		kernel, ok := definition(t)
		return ForCompute(t.Compute, groupByGroup[float32], groupByGroup[float64])(kernel), ok
	}
	return rows(ks, data, all, func(k *kernel, slow Striped) Striped {
		one := ForCompute(k.compute, groupByGroup[float32], groupByGroup[float64])(func(n int, pos int64, a *Args) {
			if !k.takes(n, a) {
				slow(n, pos, a)
				return
			}
			c := &a.call
			c.wide = a.Wide
			k.forCalls(n, data, a, func(at, m int) {
				if a.Wide {
					c.sum0, c.sum1 = a.Sums[0].At(int64(at)).P, a.Sums[1].At(int64(at)).P
					k.output(m, a)
				} else {
					k.stripe(m, int((pos+int64(at))%Lanes), a)
				}
			})
		})
		return func(n int, pos int64, a *Args) {
			if a.Runs.Steps == 0 || !k.tryGroups(n, int(pos%Lanes), data, a) {
				one(n, pos, a)
			}
		}
	})
}

// stripe runs a kernel on m elements, the first of which belongs to a lane of
// the scratch.
func (k *kernel) stripe(m, lane int, a *Args) {
	c, s, size := &a.call, a.Scratch, int(k.compute.Size())
	begin := func(lane int) {
		c.sum0, c.sum1 = unsafe.Add(unsafe.Pointer(&s.lanes[0]), lane*size), unsafe.Add(unsafe.Pointer(&s.lanes[1]), lane*size)
	}
	stream := c.stream
	if lane != 0 {
		head := min(Lanes-lane, m)
		c.stream = false
		begin(lane)
		k.part(head, head < m, a)
		if m -= head; m == 0 {
			return
		}
	}
	// Stores around the caches begin at a multiple of a register, where the
	// lanes are rotated to begin, too.
	turn := 0
	if stream {
		turn = misaligned(c.out, k.out)
	}
	begin(0)
	if turn >= m || turn == 0 {
		c.stream = stream && turn == 0
		k.part(m, isLast, a)
		return
	}
	c.stream = false
	k.part(turn, moreFollow, a)
	c.stream = true
	s.rotateLanes(turn, size)
	begin(0)
	k.part(m-turn, isLast, a)
	s.rotateLanes(Lanes-turn, size)
}

// rotateLanes rotates both sets of lanes to the left by a number of lanes.
func (s *Scratch) rotateLanes(by, size int) {
	for i := range 2 {
		s.rotateSet(unsafe.Pointer(&s.lanes[i]), by, size)
	}
}

// rotateSet rotates one set of lanes.
func (s *Scratch) rotateSet(set unsafe.Pointer, by, size int) {
	memory, lanes := &s.part.memory[0], unsafe.Slice((*byte)(set), Lanes*size)
	copy(memory[:], lanes)
	n := copy(lanes, memory[by*size:Lanes*size])
	copy(lanes[n:], memory[:by*size])
}

const (
	// callSize is how many elements a kernel handles in one call: some
	// microseconds, for which neither the scheduler nor the garbage collector
	// can stop the thread.
	callSize = 1 << 15
	// paramBlock is how many parameters, one for each element, are converted
	// at a time.
	paramBlock = 2048
	// partSize is room for the elements of any kernel's step.
	partSize = 64
)

// takes reports whether the data operands of a run lie one after the other.
func (k *kernel) takes(n int, a *Args) bool {
	for i, d := range k.in {
		if d != tensor.None && n > 1 && a.In[i].P != nil && !a.In[i].Contiguous() {
			return false
		}
	}
	return n == 1 || k.out == tensor.None || a.Out[0].P == nil || a.Out[0].Contiguous()
}

// forCalls cuts a run of n elements into parts that one call of the kernel can take. For
// each it fills in a.call, then calls run with where the part begins and its length m.
func (k *kernel) forCalls(n, data int, a *Args, run func(at, m int)) {
	for at := 0; at < n; {
		m := min(n-at, k.load(a, data, at, n))
		run(at, m)
		at += m
	}
	a.call = kernelCall{}
}

// output runs the kernel on the m elements of the call. Stores around the
// caches begin where the output is at a multiple of a register.
func (k *kernel) output(m int, a *Args) {
	c := &a.call
	if !c.stream {
		k.part(m, isLast, a)
		return
	}
	head := min(m, misaligned(c.out, k.out))
	c.stream = false
	k.part(head, head < m, a)
	c.stream = true
	k.part(m-head, isLast, a)
}

// misaligned returns how many elements lie before the first aligned address, where stores
// around the caches can begin: the length of a head.
func misaligned(out unsafe.Pointer, d tensor.DType) int {
	return int(-uintptr(out) % streamAlignment / uintptr(d.Size()))
}

// streamAlignment is the size of the largest register.
const streamAlignment = 64

// Whether another part of a call follows.
const moreFollow, isLast = true, false

// part runs the kernel on m elements. It advances the call only where more follow: the
// garbage collector must not see a pointer past the end of an object.
func (k *kernel) part(m int, more bool, a *Args) {
	c, rest := &a.call, m%k.step
	if whole := m - rest; whole > 0 {
		k.run(whole, c)
		if rest > 0 && k.mayRepeat(m, c) {
			k.advance(whole+rest-k.step, c)
			k.repeat(more, c)
			return
		}
		if rest > 0 || more {
			k.advance(whole, c)
		}
	}
	if rest > 0 {
		k.finish(rest, a)
		if more {
			k.advance(rest, c)
		}
	}
}

// advance moves the call's pointers n elements on.
func (k *kernel) advance(n int, c *kernelCall) {
	size := int(k.compute.Size())
	c.in0 = unsafe.Add(c.in0, n*int(k.in[0].Size()))
	c.in1 = unsafe.Add(c.in1, n*int(k.in[1].Size()))
	c.out = unsafe.Add(c.out, n*int(k.out.Size()))
	if c.scales {
		c.scale = unsafe.Add(c.scale, n*size)
	}
	if c.zeros {
		c.zero = unsafe.Add(c.zero, n*size)
	}
	if c.sum0 != nil {
		if !c.wide {
			n %= Lanes
		}
		c.sum0, c.sum1 = unsafe.Add(c.sum0, n*size), unsafe.Add(c.sum1, n*size)
	}
}
