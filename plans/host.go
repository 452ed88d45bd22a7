package plans

import "sync/atomic"

// Parallel is a thread pool of the program that isobit is part of: it calls
// Work with the ticket from at most maxThreads of its threads at once, and
// returns when those calls have returned. It may make fewer calls, or none: the
// run's own goroutine does what is left.
type Parallel func(ticket, maxThreads int)

var (
	host    atomic.Pointer[Parallel]
	tickets [64]atomic.Pointer[call] // calls that run on the host's threads
)

// SetParallel makes plans run on the program's threads instead of goroutines of
// their own; nil makes them run on goroutines again. The results do not depend on it.
func SetParallel(p Parallel) {
	if p == nil {
		host.Store(nil)
		return
	}
	host.Store(&p)
}

// ThreadsOf says whose threads plans run on: "isobit", or the "host"'s.
func ThreadsOf() string {
	if host.Load() != nil {
		return "host"
	}
	return "isobit"
}

// Work does a part of the run that the ticket stands for. Calls beyond maxThreads,
// and calls after the run, do nothing; a late one may find the ticket with another
// run, which waits for it. Threads are numbered from 0; one that keeps its number
// from run to run finds much of its memory in its caches.
func Work(ticket, thread int) {
	if ticket < 0 || ticket >= len(tickets) {
		return
	}
	if c := tickets[ticket].Load(); c != nil {
		c.join(max(thread, 0))
	}
}

// join does a part of the run if there is a place left; the place is the worker's number, which
// no other has. Without a place it reads nothing else of the team, which may be another run's by now.
func (c *call) join(share int) {
	if left := c.team.places.Add(-1); left >= 0 {
		c.work(c.team.workers-1-int(left), share)
		c.team.end()
	}
}

// runOnHost runs the team on the host's threads. It reports false where there
// are none, or as many calls run on them as there are tickets.
func (c *call) runOnHost(workers int) bool {
	run := host.Load()
	if run == nil {
		return false
	}
	for i := range tickets {
		if tickets[i].CompareAndSwap(nil, c) {
			c.team.workers = workers
			c.team.working.Store(0)
			c.team.places.Store(int64(workers))
			defer c.team.close()
			c.lend(*run, i)
			c.join(0) // does what is left, where fewer threads came
			return true
		}
	}
	return false
}

// lend has the host's threads do jobs, and takes the ticket back, even if the host panics.
func (c *call) lend(run Parallel, ticket int) {
	defer tickets[ticket].Store(nil)
	run(ticket, c.team.workers)
}
