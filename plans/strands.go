package plans

import (
	"github.com/isobit-ml/isobit/cpu"
	"github.com/isobit-ml/isobit/tensor"
)

// Many runs in a call of a kernel (cpu.Runs). Of small tensors, runs are taken one after
// the other. Tensors that come from memory are divided into windows. Either a window has
// several strands, of which kernels take a block each in turn (internal/gen/strands.go), or,
// on processors that are faster so, one strand, whose cache lines are prefetched.

// strands is the part of a call's elements that is taken so.
type strands struct {
	jobs        int64
	first       *layout // the elements of every window's first strand: all of the call's, or windows
	windows     *layout
	rows        int64 // runs of first
	count       int   // strands of a window
	apart       [kernelOperands]int64
	stepsPerJob int64
}

const (
	// strandBytes is about how long a strand is. The processor waits for the
	// first lines of each, so that shorter ones would not pay.
	strandBytes = 1 << 17
	// cacheLine: stores around the caches begin at a multiple of it, in all strands alike.
	cacheLine = 64
	// shortFarRun: runs of fewer elements that come from memory are taken in tiles, if a
	// tile's parameters serve several rows; but not runs of whole blocks of wholeBlock
	// elements that follow one another.
	shortFarRun, wholeBlock = 256, 64
	// farAhead is the prefetch distance in bytes, shortAhead that of short groups.
	farAhead, shortAhead = 1 << 14, 1 << 12
	// shortCall: with fewer elements, the call itself takes longer than its computation.
	shortCall = 1 << 12
	// longJob is the most elements of a job, unless a run has more: about what a kernel takes in a call.
	longJob = 4 * jobSize
	// longestStep is the most elements of a run where there is one strand.
	longestStep = jobSize / 2
)

// tryStrands divides a call's elements into windows, and returns how many it leaves to be taken otherwise.
func (f *groupedPlan) tryStrands(c *call) (rest int64) {
	l, s := &c.all, &c.strands
	s.jobs, rest = 0, l.count()
	inner := l.dims - 1
	if oneByOne || f.packed >= 0 || f.scale < 0 || l.dims == maxDims || f.varies(l, inner) || !f.takesRuns(l, l.size[inner]) || l.size[inner] > l.longestRun() {
		return rest
	}
	switch {
	case f.args.Stream:
		s.count = f.placesToRead()
		d, window := f.windows(l, int64(s.count))
		if window == 0 {
			return rest
		}
		steps := window / int64(s.count)
		s.first = need(&s.windows)
		s.first.split(l, d, window, steps)
		for k := range s.apart {
			s.apart[k] = steps * l.stride[k][d]
		}
		l.skip(d, l.size[d]/window*window)
		rest = l.count()
	case inner == 0 || l.size[inner] > longestStep:
		return rest
	default:
		s.first, s.count, s.apart, rest = l, 1, [kernelOperands]int64{}, 0
	}
	run, count := s.first.size[s.first.dims-1], s.first.count()
	perJob := min(longJob, max(jobSize, count/c.parts(count, 8))) // some jobs for each thread, but long ones
	s.rows, s.stepsPerJob = count/run, max(1, perJob/run)
	s.jobs = ceilDiv(s.rows, s.stepsPerJob)
	return rest
}

// readsStrands is cpu.ReadsStrands. Tests have plans read both ways.
var readsStrands = cpu.ReadsStrands

// placesToRead returns how many strands there are: half as many where an element
// moves more bytes than a float32 and its code.
func (f *groupedPlan) placesToRead() int {
	switch {
	case !readsStrands:
		return 1
	case f.bytesEach() > 5:
		return cpu.MaxStrands / 2
	}
	return cpu.MaxStrands
}

// takesRuns is cpu.ISA.TakesRuns for the runs of a layout, of n elements. Several strands are for longer ones, and keep
// no ends that results take the place of.
func (f *groupedPlan) takesRuns(l *layout, n int64) bool {
	if f.args.Stream && readsStrands && n < 32 {
		return false
	}
	return f.isa.TakesRuns(n, f.args.Attrs.Code, f.size[firstOutput], readsStrands && f.args.Stream && f.replaces(l))
}

// replaces reports whether results take the place of elements.
func (f *groupedPlan) replaces(l *layout) bool {
	out := l.start[firstOutput]
	for k := range firstOutput {
		if out != nil && f.hasData(l, k) && l.start[k] == out {
			return true
		}
	}
	return false
}

// tooShort reports whether runs of n elements are better taken in tiles.
func (f *groupedPlan) tooShort(n int64) bool {
	switch {
	case !readsStrands && n%wholeBlock == 0:
		return false
	case f.args.Stream:
		return n < shortFarRun
	}
	return !readsStrands && n < wholeBlock
}

// shortSteps reports whether a call for runs that follow one another would have few
// elements: then tiles are better, whose calls take many rows with the same parameters.
func shortSteps(l *layout) bool {
	inner := l.dims - 1
	return !readsStrands && inner > 0 && l.size[inner]*l.size[inner-1] < shortCall
}

// windows returns the dimension d that windows lie along, and how many of its steps a
// window has, 0 for none: the innermost dimension where runs are long, else the outermost
// of which little is left over.
func (f *groupedPlan) windows(l *layout, count int64) (d int, window int64) {
	inner, each := l.dims-1, f.args.In[0].DType.Size() // bytes of a step
	if l.size[inner]*each < count*strandBytes {
		few := func(n int64) bool { return n < 4*count && n%count != 0 }
		for d < inner && few(l.size[d]) {
			d++
		}
	} else {
		d = inner
	}
	for _, n := range l.size[d+1 : l.dims] {
		each *= n
	}
	even := int64(1) // steps after which stores begin alike among cache lines
	for even < cacheLine && even*l.stride[firstOutput][d]%cacheLine != 0 {
		even *= 2
	}
	windows := max(1, l.size[d]*each/(count*strandBytes))
	if least := count * even; l.size[d] >= least {
		window = max(least, l.size[d]/(windows*least)*least)
	}
	return d, window
}

// split makes the layout of the first strand of every window: dimension d of another
// layout becomes two, windows and the steps of a strand.
func (l *layout) split(from *layout, d int, window, steps int64) {
	inner := d + 1 // the dimension of steps
	if l.dims = from.dims + 1; steps == 1 {
		inner, l.dims = d, from.dims
	}
	l.start, l.packed, l.repeated = from.start, from.packed, from.repeated
	part := func(to, from []int64, windows, step int64) {
		copy(to, from[:d])
		to[inner] = step
		to[d] = windows
		copy(to[inner+1:], from[d+1:])
	}
	part(l.size[:l.dims], from.size[:from.dims], from.size[d]/window, steps)
	for k := range kernelOperands {
		step := from.stride[k][d]
		part(l.stride[k][:l.dims], from.stride[k][:from.dims], window*step, step)
	}
}

// skip makes the layout begin some steps further along dimension d.
func (l *layout) skip(d int, steps int64) {
	if l.size[d] -= steps; l.size[d] == 0 {
		return // no pointer behind the end of memory
	}
	for k := range kernelOperands {
		l.start[k] = l.along(l.start[k], k, d, steps)
	}
}

// strandJob makes the job of a kernel over a call's strands.
func strandJob(f *groupedPlan, kernel cpu.Elementwise) job {
	// Of inputs that are as large as this the last level may not hold all.
	far := f.args.Stream || f.bytes()-tensor.NumElements(f.shape)*f.size[firstOutput] > streamFrom/2
	return func(c *call, w *worker, number int64) {
		s, l, cur := &c.strands, c.strands.first, &w.cursors[ofElements]
		inner := l.dims - 1
		row := number * s.stepsPerJob
		end := min(row+s.stepsPerJob, s.rows)
		for row < end {
			l.seek(cur, row*l.size[inner], kernelOperands)
			steps := min(end-row, l.size[inner-1]-cur.index[inner-1])
			a := f.arm(w)
			l.spans(a, cur)
			if s.count == 1 && far {
				a.Ahead = farAhead
			}
			a.Runs = cpu.Runs{Steps: int(steps), Strands: s.count, Step: l.steps(inner - 1), Apart: s.apart}
			rounds := f.rounds(l, cur, steps, end-row)
			if rounds > 1 {
				a.Runs.Rounds, a.Runs.Round = int(rounds), l.steps(inner-2)
			}
			if c.takesNotes() && steps == s.rows {
				f.noteKernel(c, int(l.size[inner]), a)
			}
			kernel(int(l.size[inner]), a)
			row += rounds * steps
		}
	}
}

// rounds returns how many times, from a cursor on, the next steps have the parameters of the ones before, if these are
// short: one call takes them all (cpu.Runs.Rounds), up to a number of rows, with parameters prepared once.
func (f *groupedPlan) rounds(l *layout, cur *cursor, steps, rows int64) int64 {
	inner := l.dims - 1
	if outer := inner - 2; outer >= 0 && steps == l.size[inner-1] && steps*l.size[inner] <= shortCall && !f.varies(l, outer) {
		return min(rows/steps, l.size[outer]-cur.index[outer])
	}
	return 1
}
