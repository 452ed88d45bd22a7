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
	_       [96]byte // so that no share lies beside what all workers read
	memory  [maxShares]share
	workers int           // how many threads the host was asked for
	places  atomic.Int64  // how many more of its threads may join: none where it is 0 or less
	working atomic.Int64  // workers other than the caller that have not ended; plus asleep
	done    chan struct{} // the last worker sends to it if the caller is asleep
	failed  atomic.Pointer[panicError]
}

// ownTeam returns the call's team, and makes it for the first run on several threads.
func (c *call) ownTeam() *team {
	if c.team == nil {
		c.team = &team{done: make(chan struct{}, 1)}
	}
	return c.team
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
		startTask(task{c, number})
	}
	c.work(0, 0)
	c.team.wait()
}

// To wake a thread takes longer than many an op. So workers spin before they sleep:
// one whose task is done waits for another, and a caller waits for its workers.
const (
	spinTime   = 100 * time.Microsecond
	spinChecks = 64 // between two looks at the clock
)

var (
	idle  atomic.Int64 // workers that wait for a task, less the tasks that are sent but not yet received
	tasks = make(chan task, MaxThreads)
)

// startTask sends a task to an idle worker, or to a new one. A new goroutine receives it
// from the channel, too: arguments of a go statement would be allocated.
func startTask(t task) {
	if !claimIdle() {
		go serve()
	}
	tasks <- t
}

// claimIdle takes one from the number of idle workers, and reports whether there was one.
func claimIdle() bool {
	for n := idle.Load(); n > 0; n = idle.Load() {
		if idle.CompareAndSwap(n, n-1) {
			return true
		}
	}
	return false
}

// serve is a worker's goroutine: it does the task that was sent to it, then others until
// none has come for a while.
func serve() {
	for t, ok := awaitTask(); ok; t, ok = nextTask() {
		t.c.work(t.number, t.number)
		t.c.team.end()
	}
}

func nextTask() (t task, ok bool) {
	idle.Add(1)
	return awaitTask()
}

func awaitTask() (t task, ok bool) {
	receive := func() bool {
		select {
		case t = <-tasks:
			return true
		default:
			return false
		}
	}
	if spinUntil(receive) {
		return t, true
	}
	if claimIdle() { // itself: it ends
		return t, false
	}
	return <-tasks, true // somebody claimed this worker: its task is being sent
}

// spinUntil calls done until it returns true, for spinTime at most, and reports whether it did.
func spinUntil(done func() bool) bool {
	for start := time.Now(); ; runtime.Gosched() {
		for range spinChecks {
			if done() {
				return true
			}
		}
		if time.Since(start) > spinTime {
			return false
		}
	}
}

// asleep is what a caller adds to working before it sleeps.
const asleep = 1 << 32

// wait returns when all workers have ended.
func (t *team) wait() {
	if spinUntil(func() bool { return t.working.Load() == 0 }) {
		return
	}
	if t.working.Add(asleep) != asleep {
		<-t.done
	}
}

// close lets no more of the host's threads in, and waits for those that came where the host
// did not wait for them.
func (t *team) close() {
	t.working.Add(int64(t.workers) - max(0, t.places.Swap(0)))
	t.wait()
}

// end is the last thing that a worker does with the team: from then on the team may be
// another call's.
func (t *team) end() {
	if done := t.done; t.working.Add(-1) == asleep {
		done <- struct{}{}
	}
}
