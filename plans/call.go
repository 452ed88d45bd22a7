package plans

import (
	"sync"

	"github.com/isobit-ml/isobit/tensor"
)

// MaxArgs bounds the arguments of a call: no op has more.
const MaxArgs = 12

// call is one run of a plan. Calls are pooled, so that running does not
// allocate: what a run computes with lies here, or where it points to. Many plans keep a
// call each, so that what not all ops need is made by the first run that does: see need.
type call struct {
	*plan
	stream    Stream
	workspace []byte
	args      []tensor.View
	argsCopy  []tensor.View // memory of args where these are the call's own: see copyArgs
	takesMeta bool          // nothing is computed: arguments may be without memory
	places    [MaxArgs]place
	threads   int
	team      *team // of more than one thread
	seen      seen  // what is known from the last run: see again.go

	// Of some ops.
	*mapping
	*reducing
	copying
	sides   *sides
	rowSums *rowSumsCall
	sampler sampler
}

// need returns what a part of a call points to, and makes it for the first run that asks.
func need[T any](part **T) *T {
	if *part == nil {
		*part = new(T)
	}
	return *part
}

var callPool = newCallPool()

func newCallPool() *sync.Pool {
	return &sync.Pool{New: func() any { return new(call) }}
}

// pool returns the pool of the calls that a plan keeps, or the pool that all other plans share.
func (pl *plan) pool() *sync.Pool {
	if pl.calls != nil {
		return pl.calls
	}
	return callPool
}

func (pl *plan) getCall() *call { return pl.pool().Get().(*call) }

// putCall gives a call back. Pooled memory keeps no pointer of the caller's: the
// garbage collector would trip over one whose memory was given back.
func putCall(c *call) {
	pool := c.plan.pool()
	c.plan, c.args, c.workspace, c.takesMeta = nil, nil, nil, false
	if c.seen.aimed {
		c.seen.forget()
		if c.reducing == nil { // callAgain set nothing else
			pool.Put(c)
			return
		}
	}
	if c.rowSums != nil {
		*c.rowSums = rowSumsCall{}
	}
	clear(c.argsCopy)
	c.argsCopy = c.argsCopy[:0]
	if c.mapping != nil {
		clear(c.all.start[:])
		if c.strands.windows != nil {
			clear(c.strands.windows.start[:])
		}
	}
	if c.reducing != nil {
		clear(c.groups.start[:])
		clear(c.members.start[:])
	}
	if c.sides != nil {
		c.sides.forget()
	}
	if c.hasCopies {
		c.forgetCopies()
	}
	pool.Put(c)
}

func (pl *plan) CanImplement(args []tensor.View) error {
	c := pl.getCall()
	defer putCall(c)
	c.plan, c.args, c.takesMeta = pl, args, true
	return pl.checkArgs(c)
}

func (pl *plan) Run(stream Stream, workspace []byte, args []tensor.View) error {
	c := pl.getCall()
	defer putCall(c)
	c.plan, c.stream, c.workspace, c.args, c.threads = pl, stream, workspace, args, pl.threads()
	if c.recall() {
		return pl.runAgain(c)
	}
	c.seen.known, c.seen.elements, c.seen.threads = false, 0, c.threads
	if err := pl.checkArgs(c); err != nil {
		return err
	}
	if err := pl.checkWorkspace(c); err != nil {
		return err
	}
	if pl.run == nil { // nothing to compute, so no inputs are copied either
		return nil
	}
	c.anchorEmpty()
	c.compact()
	err := pl.run(c)
	if err == nil {
		c.remember()
	}
	return err
}

var noStrides [tensor.MaxRank]int64

// anchorEmpty gives tensors without elements strides of 0, so that no offset
// leads out of their memory: the garbage collector may trip over a pointer
// into nowhere, read from or not.
func (c *call) anchorEmpty() {
	for i := range c.args {
		if !c.args[i].Present() || c.places[i] != (place{}) {
			continue
		}
		c.copyArgs()
		c.args[i].Strides = noStrides[:len(c.args[i].Shape)]
	}
}

// copyArgs copies the arguments, which are the caller's, so that the call may change them.
func (c *call) copyArgs() {
	if len(c.argsCopy) == 0 {
		c.argsCopy = append(c.argsCopy, c.args...)
		c.args = c.argsCopy
	}
}
