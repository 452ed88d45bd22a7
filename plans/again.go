package plans

import (
	"unsafe"

	"github.com/isobit-ml/isobit/cpu"
	"github.com/isobit-ml/isobit/tensor"
)

// Plans of few elements keep their calls. A call whose tensors lie as those of the one before lays nothing out again:
// only addresses differ. Beside so few elements, that is what takes the time.

// seen is what a call knows of its plan's last run.
type seen struct {
	known   bool // all below is right
	again   bool // ... and this run is on tensors that lie alike
	laid    bool // the run notes how it went:
	way     int  // as which jobs,
	jobs    int64
	cost    int64
	threads int  // that there were for it
	strands bool // readsStrands
	inPlace uint // replaced()
	args    [MaxArgs]seenArg
	// Where the run was one call of a kernel: its elements, else 0, and its arguments but for addresses.
	elements int
	kernel   *cpu.Args                       // its own, made when there is one
	aimed    bool                            // ... and has addresses
	aims     [kernelOperands]*unsafe.Pointer // where those are in there, nil of what is absent
}

// seenArg is how an argument lay.
type seenArg struct {
	dtype         tensor.DType
	device        tensor.Device
	rank, strided int // extents and strides that it came with; -1 without any
	readOnly      bool
	shape, stride [tensor.MaxRank]int64
	place         place   // beside the address
	within        uintptr // of an address: the bits that are 0
}

// beforeAgain, if set, is called before every such run: how tests see them.
var beforeAgain func()

// keepCalls has a plan keep its calls, if it is on few elements, which the caches hold: those that come from
// memory are parted anew (strands.go).
func (pl *plan) keepCalls(f *groupedPlan) {
	if len(f.regions) == 1 && f.packed < 0 && !f.args.Stream && tensor.NumElements(f.shape) <= jobSize {
		pl.calls = newCallPool()
	}
}

// keepAlikeCalls has a plan keep its calls, if its outputs are small; it is for plans of whose arguments a run needs
// nothing anew but addresses.
func (pl *plan) keepAlikeCalls() {
	if pl.largestOutput() <= jobSize {
		pl.alike = true
		pl.calls = newCallPool()
	}
}

// takesNotes reports whether a run is to be noted: the plan keeps its calls, and this is the first of those that lie alike.
func (c *call) takesNotes() bool { return c.plan.calls != nil && !c.seen.again }

// noteWay notes which way a run goes that will be the same for tensors that lie alike.
func (c *call) noteWay(way int, jobs, cost int64) {
	c.seen.laid, c.seen.way, c.seen.jobs, c.seen.cost = true, way, jobs, cost
}

// noteKernel notes the one call of a kernel, on elements from the first on, that a run of so few consists of.
func (f *groupedPlan) noteKernel(c *call, n int, a *cpu.Args) {
	s := &c.seen
	if s.kernel == nil {
		s.kernel = new(cpu.Args)
	}
	s.elements, *s.kernel = n, *a
	s.kernel.Repeats = true
	for k := range s.aims {
		if f.address(c, k) != nil { // as in all runs of the plan, or none
			s.aims[k] = &f.dataSpan(s.kernel, k).P
		}
	}
	s.forget()
}

// callAgain calls the kernel as the last run did: all it takes of a worker is the scratch.
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

// forget takes all pointers from the kernel's arguments.
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

// putStarts begins a layout where the arguments are now.
func (f *groupedPlan) putStarts(c *call, l *layout, operands int) {
	for k := range operands {
		l.start[k] = f.address(c, k)
	}
}

// recall reports whether the arguments lie as the last ones, and finds their places. Where it does not, they are to
// be checked.
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

// runAgain is a run on arguments that lie as the last ones: only what depends on where they are is checked.
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
	for i := range c.args {
		s.args[i].note(&c.args[i], c.places[i])
	}
	s.known, s.strands, s.inPlace = true, readsStrands, c.replaced()
}

// replaced returns which of the pairs that an op takes in one place came so, a bit for each: such results are computed
// another way.
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

// strided tells no strides, which are compact ones, from a list of none, which fits no dimension.
func strided(v *tensor.View) int {
	if v.Strides == nil {
		return -1
	}
	return len(v.Strides)
}

func (a *seenArg) liesAs(v *tensor.View, at *place) bool {
	if v.DType != a.dtype || !v.Present() { // which has no place, as before
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
