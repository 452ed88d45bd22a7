package plans

import (
	"runtime"
	"sync/atomic"
	"time"
)

// team is one fan-out: the jobs of a call, and the workers that do them.
type team struct {
	run     job
	shares  []share
	memory  [maxShares]share
	workers int           // how many the host was asked for
	places  atomic.Int64  // how many more of those may come; none where it is 0 or below
	working atomic.Int64  // workers other than the caller that have not ended
	done    chan struct{} // told by the last of them if the caller is asleep
	failed  atomic.Pointer[panicError]
}

// share is a part of the jobs, by number. A worker takes from one share while
// there is something left, so that what lies side by side is written by one
// thread, and, from run to run, mostly by the same.
type share struct {
	begin atomic.Int64
	end   atomic.Int64
	_     [112]byte // so that no two shares lie in one cache line, or in a pair of them
}

const maxShares = 32

// share sets out the jobs for a number of workers.
func (t *team) share(jobs int64, workers int) {
	n := int64(min(workers, maxShares))
	t.shares = t.memory[:n]
	for i := range n {
		t.shares[i].begin.Store(jobs * i / n)
		t.shares[i].end.Store(jobs * (i + 1) / n)
	}
}

// cancel takes back the jobs that nobody has begun.
func (t *team) cancel() {
	for i := range t.shares {
		t.shares[i].end.Store(0)
	}
}

// next returns the number of a job, or -1 where none is left.
func (s *share) next() int64 {
	if end := s.end.Load(); s.begin.Load() < end {
		if n := s.begin.Add(1) - 1; n < end {
			return n
		}
	}
	return -1
}

// task is a worker's part in a fan-out.
type task struct {
	c      *call
	number int
}

// runOnOwn has workers do their parts on goroutines; the caller's is the first.
func (c *call) runOnOwn(workers int) {
	c.team.working.Store(int64(workers - 1))
	for number := 1; number < workers; number++ {
		begin(task{c, number})
	}
	c.work(0, 0)
	c.team.wait()
}

// Waking a thread takes longer than many an op. So workers spin before they
// sleep: one whose part is over waits a while for another task, and a caller for
// its workers.
const (
	lookout = 100 * time.Microsecond // how long
	glances = 64                     // between looks at the clock
)

var (
	standby  atomic.Int64 // workers that wait for a task, less the tasks on their way to one
	handover = make(chan task, MaxThreads)
)

// begin has a worker do a task. A new goroutine gets it as those on standby do: one
// that is started with arguments takes memory for them.
func begin(t task) {
	if !enlist() {
		go serve()
	}
	handover <- t
}

// enlist takes one off standby.
func enlist() bool {
	for n := standby.Load(); n > 0; n = standby.Load() {
		if standby.CompareAndSwap(n, n-1) {
			return true
		}
	}
	return false
}

// serve does a task that is on its way, then others until none has come for a while.
func serve() {
	for t, ok := awaitTask(); ok; t, ok = nextTask() {
		t.c.work(t.number, t.number)
		t.c.team.end()
	}
}

func nextTask() (t task, ok bool) {
	standby.Add(1)
	return awaitTask()
}

func awaitTask() (t task, ok bool) {
	come := func() bool {
		select {
		case t = <-handover:
			return true
		default:
			return false
		}
	}
	if lookOut(come) {
		return t, true
	}
	if enlist() { // itself
		return t, false
	}
	return <-handover, true // a task is on its way to this worker
}

// lookOut spins until something happens, but not for long. It reports whether it
// did.
func lookOut(happened func() bool) bool {
	for start := time.Now(); ; runtime.Gosched() {
		for range glances {
			if happened() {
				return true
			}
		}
		if time.Since(start) > lookout {
			return false
		}
	}
}

// asleep is added to working by a caller that sleeps.
const asleep = 1 << 32

// wait returns when all workers have ended.
func (t *team) wait() {
	if lookOut(func() bool { return t.working.Load() == 0 }) {
		return
	}
	if t.working.Add(asleep) != asleep {
		<-t.done
	}
}

// close lets no more of the host's threads in and waits for those that came, if the host did not.
func (t *team) close() {
	t.working.Add(int64(t.workers) - max(0, t.places.Swap(0)))
	t.wait()
}

// end is the last that a worker does with the team: from then on it may be
// another call's.
func (t *team) end() {
	if done := t.done; t.working.Add(-1) == asleep {
		done <- struct{}{}
	}
}
