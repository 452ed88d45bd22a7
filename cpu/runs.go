package cpu

import (
	"math"
	"unsafe"

	"github.com/isobit-ml/isobit/tensor"
)

const (
	// MaxStrands is the most strands that kernels have been measured with.
	MaxStrands = 8
	// maxRuns is how many runs a kernel handles in one call at most, and runsCall
	// about how many elements: in less than 100 microseconds.
	maxRuns  = 128
	runsCall = 1 << 17
	// quickRun is how long a run is that is worth making quick codes for.
	quickRun = 128
)

// runByRun makes a kernel that takes many runs of one that takes one.
func runByRun(one Elementwise) Elementwise {
	return func(n int, a *Args) {
		a.forRuns(func(int) { one(n, a) })
	}
}

// forRuns calls a function for each step of each strand, to which the operands
// are moved.
func (a *Args) forRuns(one func(step int)) {
	runs := a.Runs
	a.Runs = Runs{}
	for step := range max(1, runs.Steps) {
		for strand := range max(1, runs.Strands) {
			a.move(&runs, step, strand, 1)
			one(step)
			a.move(&runs, step, strand, -1)
		}
	}
	a.Runs = runs
}

// move moves all operands to a run, or back from there.
func (a *Args) move(r *Runs, step, strand, by int) {
	to := func(s *Span, k int) {
		if s.P != nil {
			s.P = unsafe.Add(s.P, by*(step*int(r.Step[k])+strand*int(r.Apart[k])))
		}
	}
	for k := range a.In {
		to(&a.In[k], k)
	}
	for k := range a.Out {
		to(&a.Out[k], len(a.In)+k)
	}
}

// groups runs a striped kernel on many groups, if it can.
func (k *kernel) groups(n, data int, a *Args) bool {
	s, size := a.Scratch, int(k.compute.Size())
	a.frame.sum0 = s.lanesOfGroup(0, 0, size)
	clear(unsafe.Slice((*byte)(a.frame.sum0), a.Runs.Steps*2*Lanes*size))
	done := k.runs(n, data, a)
	a.frame.sum0 = nil
	return done
}

// runs runs the kernel on many runs, if it can.
func (k *kernel) runs(n, data int, a *Args) bool {
	if k.block == 0 || a.Ready || n%k.step != 0 || !k.takes(n, a) || k.lacks(a) || n > 1 && (a.In[data].Stride != 0 || a.In[data+1].Stride != 0) {
		return false
	}
	r, f := &a.Runs, &a.frame
	if f.stream = a.Stream && k.out != tensor.None; f.stream { // from where each output is at a multiple of a register
		out := len(a.In)
		f.heads = misaligned(a.Out[0].P, k.out) != 0 || r.Step[out]%streamAlignment != 0
		if f.heads && !k.heads || r.Apart[out]%streamAlignment != 0 {
			f.stream, f.heads = false, false
		}
	}
	most := min(maxRuns/r.Strands, max(1, runsCall/(n*r.Strands)))
	for step := 0; step < r.Steps; step += most {
		steps := min(most, r.Steps-step)
		if k.compute == tensor.F64 {
			loadRuns[float64](k, a, n, data, step, steps)
		} else {
			loadRuns[float32](k, a, n, data, step, steps)
		}
		for at := 0; at < n; {
			m := min(n-at, runsCall/r.Strands)
			k.operands(a, step, at, m)
			k.run(m, f)
			at += m
		}
	}
	a.frame = frame{}
	return true
}

// lacks reports whether a data operand that the kernel reads or writes is absent.
func (k *kernel) lacks(a *Args) bool {
	for i, d := range k.in {
		if d != tensor.None && a.In[i].P == nil {
			return true
		}
	}
	return k.out != tensor.None && a.Out[0].P == nil
}

// operands makes the frame for m elements, from at on, of the runs from a step on.
func (k *kernel) operands(a *Args, step, at, m int) {
	f, r, vector := &a.frame, &a.Runs, vectorBytes[k.needs]/int(k.compute.Size())
	switch f.visit = k.block; {
	case r.Strands == 1 && !f.heads:
		f.visit = max(m-m%k.block, k.block)
	case k.in[0].Size() == 2:
		f.visit = 2 * k.block
	}
	place := func(s *Span, number int, d tensor.DType) (p unsafe.Pointer, visit, apart, turn, next int) {
		if d == tensor.None {
			return
		}
		size, apart, between := int(d.Size()), int(r.Apart[number]), int(r.Step[number])
		visit = f.visit * size
		return unsafe.Add(s.P, step*between+at*size), visit, apart - visit, apart*r.Strands - visit, between
	}
	f.in0, f.in0Visit, f.in0Apart, f.in0Turn, f.in0Step = place(&a.In[0], 0, k.in[0])
	f.in1, f.in1Visit, f.in1Apart, f.in1Turn, f.in1Step = place(&a.In[1], 1, k.in[1])
	f.out, f.outVisit, f.outApart, f.outTurn, f.outStep = place(&a.Out[0], len(a.In), k.out)
	if f.sum0 != nil {
		size := int(k.compute.Size())
		f.sum0, f.sum1 = a.Scratch.lanesOfGroup(step, 0, size), a.Scratch.lanesOfGroup(step, 1, size)
		f.sumStep = (2*Lanes - (m%k.block+vector-1)/vector*vector) * size
	}
}

// vectorBytes are the sizes of registers.
var vectorBytes = [...]int{AVX2: 32, AVX512: 64}

// loadRuns makes the parameters of every run, of n elements, of some steps.
func loadRuns[C Compute](k *kernel, a *Args, n, data, first, steps int) {
	f, r := &a.frame, &a.Runs
	setBounds[C](f, a)
	f.ahead = a.Ahead
	f.steps, f.strands, f.quick = steps, r.Strands, k.quick && !f.reciprocal && n >= quickRun
	f.params, f.paramsStep = unsafe.Pointer(&a.Scratch.strands), r.Strands*int(unsafe.Sizeof(strand{}))
	scales, zeros := paramsOfRuns[C](a, data, 0, first, steps), paramsOfRuns[C](a, data, 1, first, steps)
	for i := range scales {
		s := &a.Scratch.strands[i]
		*(*C)(unsafe.Pointer(&s.scale)), *(*C)(unsafe.Pointer(&s.zero)) = scales[i], zeros[i]
		f.quick = f.quick && s.makeQuick(float32(scales[i]), float32(zeros[i]), float32(a.Lo), float32(a.Hi))
	}
}

// paramsOfRuns returns a parameter of every run of some steps.
func paramsOfRuns[C Compute](a *Args, data, number, first, steps int) []C {
	r, s := &a.Runs, a.In[data+number]
	step, apart := r.Step[data+number], r.Apart[data+number]
	all := unsafe.Slice((*C)(unsafe.Pointer(&a.Scratch.params[number])), steps*r.Strands)
	load := func(v []C, at, stride int64) {
		from := s
		if from.Stride = stride; s.P != nil {
			from.P = unsafe.Add(s.P, at)
		}
		LoadParams(v, from, number == 1, a)
	}
	begin := int64(first) * step
	if r.Strands == 1 || apart == 0 {
		load(all[:steps], begin, step)
		for i := len(all) - 1; i > 0; i-- { // from behind, as places are still to be read
			all[i] = all[i/r.Strands]
		}
		return all
	}
	for i := range steps {
		load(all[i*r.Strands:][:r.Strands], begin+int64(i)*step, apart)
	}
	return all
}

// makeQuick makes what quick codes are made of, if the parameters allow it
// (internal/gen/quick.go). In f64 the product is exact and so is what it leaves
// of 1: both are rounded once, as the kernel's fused step does.
func (s *strand) makeQuick(scale, zero, lo, hi float32) bool {
	small := func(bound float32) bool { return math.Float32bits(bound)&^(1<<31) <= largestBound }
	if bits := math.Float32bits(scale); bits < smallestScale || bits > largestScale || !small(lo) || !small(hi) || !(lo <= zero && zero <= hi) {
		return false
	}
	inverse := 1 / scale
	rest := float32(1-float64(float64(scale)*float64(inverse))) / scale
	first, last := float32(lo-zero)*scale, float32(hi-zero)*scale
	s.first, s.last = math.Float32bits(first), math.Float32bits(last)
	s.inverse, s.rest = math.Float32bits(inverse), math.Float32bits(rest)
	whole := uint32(uint16(int16(zero)))
	s.zeros = whole | whole<<16
	return true
}
