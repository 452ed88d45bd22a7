package plans

import (
	"fmt"
	"math"
	"runtime"
	"sync/atomic"
)

// MaxThreads is the largest number of threads that can be asked for.
const MaxThreads = 1024

var numThreads atomic.Int64 // 0 means as many as Go uses

// SetNumThreads sets how many threads plans run on, up to MaxThreads; 0 means
// one per CPU. Plans that exist follow it, but see Preference.Threads. The
// results do not depend on it.
func SetNumThreads(n int) error {
	if n < 0 || n > MaxThreads {
		return errorf(InvalidArgument, "SetNumThreads", "n", "is %d; want 0 to %d", n, MaxThreads)
	}
	numThreads.Store(int64(n))
	return nil
}

// NumThreads returns how many threads plans run on.
func NumThreads() int {
	if n := numThreads.Load(); n > 0 {
		return int(n)
	}
	return runtime.GOMAXPROCS(0)
}

// The costs, in elements of an op that reads and writes each element once, from which a
// second thread pays for its start: see bench/run.py --threads. Tests lower them.
var (
	parallelCost     int64 = 1 << 18
	hostParallelCost int64 = 1 << 16
)

// job is one part of a run. Its result must not depend on the worker.
type job func(c *call, w *worker, number int64)

// beforeJob, if set, is called before every job: tests count jobs, and make one fail.
var beforeJob func(worker int)

func observed(run job) job {
	return func(c *call, w *worker, number int64) {
		beforeJob(w.number)
		run(c, w, number)
	}
}

// panicError carries a worker's panic to the caller's goroutine.
type panicError struct {
	value any
	stack string
}

func (e *panicError) String() string { return fmt.Sprintf("%v\n%s", e.value, e.stack) }

// workers returns how many threads jobs of the given total cost (in elements
// of a streaming op) run on.
func (c *call) workers(jobs, cost int64) int {
	start := parallelCost
	if host.Load() != nil {
		start = hostParallelCost
	}
	return int(max(1, min(int64(c.threads), jobs, 1+cost/start)))
}

// parts returns into how many parts work of the given cost is cut, so many for each worker; one where a thread does all.
func (c *call) parts(cost, each int64) int64 {
	if workers := int64(c.workers(math.MaxInt64, cost)); workers > 1 {
		return each * workers
	}
	return 1
}

// parallel runs a job for every number in [0, jobs). The caller's goroutine is
// one of the workers. A panic in any of them surfaces in the caller's.
func (c *call) parallel(jobs, cost int64, run job) {
	workers := c.workers(jobs, cost)
	if beforeJob != nil {
		run = observed(run)
	}
	if workers == 1 {
		w := workerPool.Get().(*worker)
		w.number = 0
		for i := range jobs {
			run(c, w, i)
		}
		putWorker(w)
		return
	}
	t := c.ownTeam()
	t.run = run
	t.share(jobs, workers)
	if !c.runOnHost(workers) {
		c.runOnOwn(workers)
	}
	if p := t.failed.Swap(nil); p != nil {
		panic(p)
	}
}

// work does jobs until none is left: first those of one share, then those of the
// others.
func (c *call) work(number, share int) {
	t := c.team
	defer func() {
		if v := recover(); v != nil {
			buf := make([]byte, 4096)
			t.failed.CompareAndSwap(nil, &panicError{v, string(buf[:runtime.Stack(buf, false)])})
			t.cancel()
		}
	}()
	w := workerPool.Get().(*worker)
	defer putWorker(w)
	w.number = number
	shares := len(t.shares)
	for i := range shares {
		s := &t.shares[(share%shares+i)%shares]
		for n := s.next(); n >= 0; n = s.next() {
			t.run(c, w, n)
		}
	}
}
