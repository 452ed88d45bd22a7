package cpu

import (
	"math"
	"unsafe"

	"github.com/isobit-ml/isobit/tensor"
)

const (
	// MaxStrands is the most strands that kernels have been measured with.
	MaxStrands = 8
	// runsCall is about how many elements a kernel handles in one call, which no
	// preemption interrupts: less than 100 microseconds.
	runsCall = 1 << 17
	// quickRun is the shortest run that makes up for preparing quick codes.
	quickRun = 32
)

// TakesRuns reports whether rows of an instruction set are faster with runs of n
// elements, many in a call and each with its parameters, than with a parameter for
// each element; size is that of a result, in bytes. The bounds are measured. With AVX2 a call takes only one run where codes
// are rounded to an 8-bit float type (code), and where runs end within a step and no
// element may be handled twice (once).
func (i ISA) TakesRuns(n int64, code tensor.DType, size int64, once bool) bool {
	whole := n%16 == 0
	switch {
	case i == Go:
		return n >= 64
	case i == AVX2 && (code != tensor.None || once && !whole):
		return n >= 400
	case i == AVX2:
		return n >= 16
	case size == 2:
		return n >= 26
	}
	return n >= 14
}

// runByRun makes a kernel that takes Runs of a kernel that takes a single run.
func runByRun(one Elementwise) Elementwise {
	return func(n int, a *Args) {
		if a.Runs.Steps == 0 {
			one(n, a)
			return
		}
		a.forRuns(func(int) { one(n, a) })
	}
}

// forRuns calls a function for each run, with the operands moved there.
func (a *Args) forRuns(one func(step int)) {
	runs := a.Runs
	a.Runs = Runs{}
	for round := range max(1, runs.Rounds) {
		for step := range max(1, runs.Steps) {
			for strand := range max(1, runs.Strands) {
				a.move(&runs, round, step, strand, 1)
				one(step)
				a.move(&runs, round, step, strand, -1)
			}
		}
	}
	a.Runs = runs
}

// move moves all operands to a run, or back from there.
func (a *Args) move(r *Runs, round, step, strand, by int) {
	to := func(s *Span, k int) {
		if s.P != nil {
			s.P = unsafe.Add(s.P, by*(round*int(r.Round[k])+step*int(r.Step[k])+strand*int(r.Apart[k])))
		}
	}
	for k := range a.In {
		to(&a.In[k], k)
	}
	for k := range a.Out {
		to(&a.Out[k], len(a.In)+k)
	}
}

// tryRuns runs the kernel on many runs, and reports whether it could.
func (k *kernel) tryRuns(n, data int, a *Args) bool {
	r, c := &a.Runs, &a.call
	if c.steps > 0 { // the call of the last run, kept by Repeats
		if !k.ends(n, a) {
			*c = kernelCall{}
			return false
		}
		k.loadRuns(a, n, data, 0, c.steps)
		c.in0, c.in1, c.out = k.start(a, 0, &a.In[0], k.in[0]), k.start(a, 1, &a.In[1], k.in[1]), k.start(a, len(a.In), &a.Out[0], k.out)
		k.run(n, c)
		c.forget()
		return true
	}
	alone := n%k.step != 0 && c.sum0 != nil && a.Stream && k.out.Size() >= 4 && n*int(k.out.Size()) >= longSums
	if k.block == 0 || a.Ready || alone || !k.takes(n, a) || k.lacks(a, n) || !k.ends(n, a) || n > 1 && (a.In[data].Stride != 0 || a.In[data+1].Stride != 0) {
		return false
	}
	c.stream, c.heads, c.shares = k.streams(n, a)
	c.ahead, c.strands, c.paramsStep = a.Ahead, r.Strands, r.Strands*int(k.compute.Size())
	if k.goesAside(n, a) {
		k.runAside(n, data, a)
		a.call = kernelCall{}
		return true
	}
	joins, before := k.joins(n, a), 0
	if joins {
		c.stream, c.heads, c.shares = false, false, false
		before = k.before(n, a)
	}
	most := min(maxRuns/r.Strands, max(1, runsCall/(n*r.Strands)))
	for step, steps := 0, 0; step < r.Steps; step += steps {
		if steps = min(most, r.Steps-step); step < before {
			steps = min(steps, before)
		}
		c.joins = joins && step >= before
		k.loadRuns(a, n, data, step, steps)
		for round := range max(1, r.Rounds) {
			for at := 0; at < n; {
				m := min(n-at, runsCall/r.Strands)
				k.operands(a, round, step, at, m)
				k.run(m, c)
				at += m
			}
		}
	}
	if a.Repeats && !a.Stream && r.Rounds <= 1 && r.Steps <= most && n <= runsCall/r.Strands {
		c.forget()
	} else {
		a.call = kernelCall{}
	}
	return true
}

// ends reports whether the kernel can take runs of n elements to their end: in whole steps, or with a last step that
// maps some elements again, which no result may have replaced unless the kernel keeps copies.
func (k *kernel) ends(n int, a *Args) bool {
	c := &a.call
	c.replaces = n%k.step != 0 && !k.mayRepeatRuns(n, a)
	return n%k.step == 0 || k.repeats && n >= k.step && (!c.replaces || k.keepsEnds(n, a))
}

// keepsEnds reports whether results may take the place of elements of such runs.
func (k *kernel) keepsEnds(n int, a *Args) bool {
	return a.call.sum0 == nil && !k.chooses && a.Runs.Strands == 1 && n <= runsCall
}

// mayRepeatRuns is mayRepeat for many runs, where kernels leave repeated elements out of sums.
func (k *kernel) mayRepeatRuns(n int, a *Args) bool {
	out := a.extent(len(a.In), a.Out[0], n)
	return apart(out, a.extent(0, a.In[0], n)) && apart(out, a.extent(1, a.In[1], n))
}

// extent returns the addresses between which all runs of a data operand lie.
func (a *Args) extent(number int, s Span, n int) (e [2]uintptr) {
	if s.P == nil {
		return e
	}
	e = [2]uintptr{uintptr(s.P), uintptr(s.P) + uintptr(n)*uintptr(s.DType.Size())}
	r := &a.Runs
	for _, far := range [3]int64{int64(r.Steps-1) * r.Step[number], int64(r.Strands-1) * r.Apart[number], int64(max(1, r.Rounds)-1) * r.Round[number]} {
		if far < 0 {
			e[0] += uintptr(far)
		} else {
			e[1] += uintptr(far)
		}
	}
	return e
}

// start returns the address of a data operand; an absent one is memory of the scratch.
func (k *kernel) start(a *Args, number int, s *Span, d tensor.DType) unsafe.Pointer {
	switch {
	case d == tensor.None:
		return nil
	case s.P == nil:
		return a.Scratch.absent(number)
	}
	return s.P
}

// forget clears the pointers to operands and to the scratch in a call that is kept.
func (c *kernelCall) forget() { c.in0, c.in1, c.out, c.params = nil, nil, nil, nil }

// lacks reports whether a data operand is absent that the kernel reads or writes, where the scratch has no room for runs
// of n elements.
func (k *kernel) lacks(a *Args, n int) bool {
	lacks := func(s *Span, d tensor.DType) bool {
		return d != tensor.None && s.P == nil && (a.Runs.Strands != 1 || n*int(d.Size()) > int(unsafe.Sizeof(a.Scratch.unused)))
	}
	return lacks(&a.In[0], k.in[0]) || lacks(&a.In[1], k.in[1]) || lacks(&a.Out[0], k.out)
}

// operands fills in the call for elements [at, at+m) of each run from a step on.
func (k *kernel) operands(a *Args, round, step, at, m int) {
	c, r, vector := &a.call, &a.Runs, vectorBytes[k.needs]/int(k.compute.Size())
	switch c.visit = k.block; {
	case r.Strands == 1 && !c.heads:
		c.visit = max(m-m%k.block, k.block)
	case k.in[0].Size() == 2 && k.compute == tensor.F32 && m >= 2*k.block:
		c.visit = 2 * k.block
	}
	place := func(s *Span, number int, d tensor.DType) (p unsafe.Pointer, visit, apart, turn, next int) {
		if d == tensor.None {
			return
		}
		size, apart, between := int(d.Size()), int(r.Apart[number]), int(r.Step[number])
		if p = unsafe.Add(s.P, round*int(r.Round[number])+step*between+at*size); s.P == nil {
			p, apart, between = a.Scratch.absent(number), 0, 0 // all runs in one place
		}
		visit = c.visit * size
		return p, visit, apart - visit, apart*r.Strands - visit, between
	}
	c.in0, c.in0Visit, c.in0Apart, c.in0Turn, c.in0Step = place(&a.In[0], 0, k.in[0])
	c.in1, c.in1Visit, c.in1Apart, c.in1Turn, c.in1Step = place(&a.In[1], 1, k.in[1])
	c.out, c.outVisit, c.outApart, c.outTurn, c.outStep = place(&a.Out[0], len(a.In), k.out)
	if c.folds {
		c.total0, c.total1 = a.Sums[0].At(int64(step)).P, a.Sums[1].At(int64(step)).P
	}
	if c.sum0 != nil {
		size := int(k.compute.Size())
		lane := func(sum int) unsafe.Pointer { return unsafe.Add(a.Scratch.lanesOfGroup(step, sum, size), r.lane*size) }
		c.sum0, c.sum1 = lane(0), lane(1)
		moved := m % k.block
		if k.step == 1 {
			moved = (moved + vector - 1) / vector * vector
		}
		c.sumStep = (2*Lanes - moved) * size
	}
}

// loadRuns prepares the parameters of the runs, of n elements each, of some steps,
// unless the kernel chooses them.
func (k *kernel) loadRuns(a *Args, n, data, first, steps int) {
	if k.compute == tensor.F64 {
		loadRuns[float64](k, a, n, data, first, steps)
	} else {
		loadRuns[float32](k, a, n, data, first, steps)
	}
}

func loadRuns[C Compute](k *kernel, a *Args, n, data, first, steps int) {
	c, r := &a.call, &a.Runs
	if c.steps == 0 {
		setEverywhere[C](k, c, a)
	}
	c.steps, c.quick = steps, k.quick && !c.reciprocal && n >= quickRun
	c.params = unsafe.Pointer(&a.Scratch.runs)
	if k.chooses {
		lo, hi := float32(a.Lo), float32(a.Hi)
		c.symmetric, c.eps = a.Attrs.Symmetric, float32(a.Attrs.Eps)
		c.small = c.quick && smallBound(lo) && smallBound(hi) && (!c.symmetric || lo <= 0 && hi >= 0)
		return
	}
	paramsOfRuns(a, (*[maxRuns]C)(unsafe.Pointer(&a.Scratch.runs.scale)), data, 0, first, steps)
	paramsOfRuns(a, (*[maxRuns]C)(unsafe.Pointer(&a.Scratch.runs.zero)), data, 1, first, steps)
	if c.quick {
		lo, hi := float32(a.Lo), float32(a.Hi)
		c.quick = smallBound(lo) && smallBound(hi) && quickParams(steps*r.Strands, &a.Scratch.runs, lo, hi)
	}
}

// paramsOfRuns loads a parameter of every run of some steps.
func paramsOfRuns[C Compute](a *Args, to *[maxRuns]C, data, number, first, steps int) {
	r, s := &a.Runs, a.In[data+number]
	step, apart := r.Step[data+number], r.Apart[data+number]
	all := to[:steps*r.Strands]
	load := func(v []C, at, stride int64) {
		from := s
		if from.Stride = stride; s.P != nil {
			from.P = unsafe.Add(s.P, at)
		}
		loadByKernel(v, from, number == 1, a.Lo, a.Hi)
	}
	begin := int64(first) * step
	if r.Strands == 1 || apart == 0 {
		load(all[:steps], begin, step)
		for i := len(all) - 1; i > 0 && r.Strands > 1; i-- { // backwards: lower places are still to be read
			all[i] = all[i/r.Strands]
		}
		return
	}
	for i := range steps {
		load(all[i*r.Strands:][:r.Strands], begin+int64(i)*step, apart)
	}
}

// smallBound reports whether a bound of codes is small enough for quick codes.
func smallBound(bound float32) bool { return math.Float32bits(bound)&^(1<<31) <= largestBound }
