package plans

import (
	"unsafe"

	"github.com/isobit-ml/isobit/cpu"
	"github.com/isobit-ml/isobit/tensor"
)

// Plans of few elements keep their calls (a call is one run). Where the next tensors have the types, shapes, strides and
// devices of the last ones, only addresses differ, and nothing is laid out again: for so few elements the layout takes
// longer than the kernel.

// seen is what a call knows of the last run that it made.
type seen struct {
	known   bool // the fields below hold a run
	again   bool // and the present run is on tensors that lie as those did
	laid    bool // the run noted its way, jobs and cost (noteWay)
	noted        // of its only pass, or of the second
	first   noted
	twice   bool // there was a first pass: groups were reduced before their elements were mapped
	threads int
	strands bool // the value of readsStrands
	inPlace uint // the value of replaced()
	args    []seenArg
	// Where the whole run was one call of a kernel:
	elements int                             // how many it took; else 0
	kernel   *cpu.Args                       // its arguments without addresses
	aimed    bool                            // callAgain put addresses into kernel
	aims     [kernelOperands]*unsafe.Pointer // where in kernel each operand's address is; nil: it is absent
}

// noted is how a pass over all elements went.
type noted struct {
	way  int // one of the ways of its op
	jobs int64
	cost int64
}

// seenArg is how an argument lay.
type seenArg struct {
	dtype         tensor.DType
	device        tensor.Device
	rank, strided int // how many extents and strides it had; -1: nil strides
	readOnly      bool
	shape, stride [tensor.MaxRank]int64
	place         place   // relative to its address
	within        uintptr // the low bits that are 0 in an aligned address
}

// beforeAgain, if set, is called before every run that repeats a layout: tests count those.
var beforeAgain func()

// keepCalls has a plan keep its calls if it has few elements, which the caches hold. What comes from memory is divided
// into strands by each run (strands.go).
func (pl *plan) keepCalls(f *groupedPlan) {
	if len(f.regions) == 1 && f.packed < 0 && !f.args.Stream && tensor.NumElements(f.shape) <= jobSize {
		pl.calls = newCallPool()
	}
}

// keepAlikeCalls has a plan keep its calls if its outputs are small. It is for ops whose runs depend on nothing but
// addresses where tensors lie alike.
func (pl *plan) keepAlikeCalls() {
	if pl.largestOutput() <= jobSize {
		pl.alike = true
		pl.calls = newCallPool()
	}
}

// takesNotes reports whether a run is to be noted: the plan keeps its calls, and the last run was on other layouts.
func (c *call) takesNotes() bool { return c.plan.calls != nil && !c.seen.again }

// noteWay notes the way of a run, and its jobs: they are the same for tensors that lie alike.
func (c *call) noteWay(way int, jobs, cost int64) {
	c.seen.laid, c.seen.noted = true, noted{way, jobs, cost}
}

// noteKernel notes the arguments of the one kernel call, on all n elements, that a run consists of.
func (f *groupedPlan) noteKernel(c *call, n int, a *cpu.Args) {
	s := &c.seen
	if s.kernel == nil {
		s.kernel = new(cpu.Args)
	}
	s.elements, *s.kernel = n, *a
	s.kernel.Repeats = true
	for k := range s.aims {
		if f.address(c, k) != nil { // an operand is present in every run of the plan, or in none
			s.aims[k] = &f.dataSpan(s.kernel, k).P
		}
	}
	s.forget()
}

// callAgain calls the kernel as the last run did, with the present addresses. Of the worker it uses the scratch alone.
func (f *groupedPlan) callAgain(c *call, kernel cpu.Elementwise) {
	w, s := workerPool.Get().(*worker), &c.seen
	s.aimed, s.kernel.Scratch = true, &w.scratch
	for k, at := range s.aims {
		if at != nil {
			*at = f.address(c, k)
		}
	}
	kernel(s.elements, s.kernel)
	workerPool.Put(w)
}

// forget clears all pointers in the kernel's arguments: pooled memory keeps none of the caller's.
func (s *seen) forget() {
	s.aimed, s.kernel.Scratch = false, nil
	for _, at := range s.aims {
		if at != nil {
			*at = nil
		}
	}
}

// address returns where an operand begins, nil where it is absent.
func (f *groupedPlan) address(c *call, k int) unsafe.Pointer {
	i := f.operand[k]
	switch {
	case i < 0 || !c.args[i].Present():
		return nil
	case k < dataInputs && c.repeated[k]:
		return c.compactions[i].start()
	}
	return c.args[i].Data
}

// putStarts sets the starts of a layout to the addresses of the present arguments.
func (f *groupedPlan) putStarts(c *call, l *layout, operands int) {
	for k := range operands {
		l.start[k] = f.address(c, k)
	}
}

// recall reports whether the arguments lie as the last ones did, and finds their places. If not, all checks are due.
func (c *call) recall() bool {
	s := &c.seen
	s.again, s.laid = false, c.plan.alike
	if !s.known || oneByOne || s.threads != c.threads || s.strands != readsStrands || len(c.args) != len(c.problem.op.args) {
		return false
	}
	for i := range c.args {
		if !s.args[i].liesAs(&c.args[i], &c.places[i]) {
			return false
		}
	}
	if s.inPlace != c.replaced() {
		return false
	}
	s.again = true
	if beforeAgain != nil {
		beforeAgain()
	}
	return true
}

// runAgain is Run on arguments that lie as the last ones did: only what depends on addresses and values is checked.
func (pl *plan) runAgain(c *call) error {
	if err := pl.checkOverlap(c); err != nil {
		return err
	}
	if pl.check != nil {
		if err := pl.check(c); err != nil {
			return err
		}
	}
	if err := pl.checkWorkspace(c); err != nil {
		return err
	}
	return pl.run(c)
}

// remember notes how the arguments of a run lay.
func (c *call) remember() {
	s := &c.seen
	if c.plan.calls == nil || !s.laid || oneByOne || len(c.argsCopy) > 0 {
		return
	}
	if s.args == nil {
		s.args = make([]seenArg, len(c.args))
	}
	for i := range c.args {
		s.args[i].note(&c.args[i], c.places[i])
	}
	s.known, s.strands, s.inPlace = true, readsStrands, c.replaced()
}

// replaced returns a bit for each output and input that may be the same tensor (op.inPlace): set where they are, since
// such results are computed another way.
func (c *call) replaced() (pairs uint) {
	for number, pair := range c.problem.op.inPlace {
		if c.args[pair[0]].Data == c.args[pair[1]].Data {
			pairs |= 1 << number
		}
	}
	return pairs
}

func (a *seenArg) note(v *tensor.View, at place) {
	*a = seenArg{dtype: v.DType, device: v.Device, rank: len(v.Shape), strided: strided(v), readOnly: v.ReadOnly, within: uintptr(v.DType.Size() - 1)}
	copy(a.shape[:], v.Shape)
	copy(a.stride[:], v.Strides)
	start := int64(uintptr(v.Data))
	a.place = place{at.begin - start, at.end - start}
}

// strided returns the number of strides, -1 for nil, which means compact: an empty list does not.
func strided(v *tensor.View) int {
	if v.Strides == nil {
		return -1
	}
	return len(v.Strides)
}

func (a *seenArg) liesAs(v *tensor.View, at *place) bool {
	if v.DType != a.dtype || !v.Present() { // an absent one has no place, as before
		return v.DType == a.dtype
	}
	if len(v.Shape) != a.rank || strided(v) != a.strided || v.Device != a.device || v.ReadOnly != a.readOnly {
		return false
	}
	if !sameInts(v.Shape, &a.shape) || !sameInts(v.Strides, &a.stride) {
		return false
	}
	if (v.Low != 0 || v.High != 0) && (a.place.begin < v.Low || a.place.end > v.High) {
		return false
	}
	start := uintptr(v.Data)
	*at = place{int64(start) + a.place.begin, int64(start) + a.place.end}
	return start != 0 && start&a.within == 0
}

func sameInts(v []int64, seen *[tensor.MaxRank]int64) bool {
	if len(v) > len(seen) {
		return false
	}
	for d, n := range seen[:len(v)] {
		if n != v[d] {
			return false
		}
	}
	return true
}
