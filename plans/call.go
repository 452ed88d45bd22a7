package plans

import (
	"sync"

	"github.com/isobit-ml/isobit/tensor"
)

// MaxArgs bounds the arguments of a call: no op has more.
const MaxArgs = 12

// call is one run of a plan. Calls are pooled, so that running does not
// allocate: what a run computes with lies here.
type call struct {
	*plan
	stream    Stream
	workspace []byte
	args      []tensor.View
	argsCopy  []tensor.View // args, where copyArgs made them the call's own
	takesMeta bool          // nothing is computed: arguments may be without memory
	places    [MaxArgs]place
	threads   int
	team      team
	seen      seen
	repeated  [kernelOperands]bool // data inputs that are one number

	// Of ops that map elements.
	all          layout // every element that strands does not have
	strands      strands
	perJob       int64        // elements of one job
	tiles        tiling       // short groups
	packedGroups packedGroups // groups of packed codes
	transposed   transposed   // inputs across the output
	dense        layout       // all, with the copies in place of what is copied

	// Of ops that reduce groups.
	groups        layout
	members       layout // the elements of the first group
	blocks        int64  // of each group
	groupsPerTile int64  // of groups that lie side by side, or are short
	tilesPerJob   int64

	// Of ops that copy inputs first.
	hasCopies   bool                   // any of these, or dense, are in use
	sources     sources                // what is copied piece by piece
	compactions [maxCompact]compaction // what is copied as a whole
	compacting  *compaction            // the one that is made

	// Of others.
	rowSums rowSumsCall
	sampler sampler
}

var callPool = newCallPool()

func newCallPool() *sync.Pool {
	return &sync.Pool{New: func() any {
		c := new(call)
		c.team.done = make(chan struct{}, 1)
		return c
	}}
}

// pool has a plan's own calls, or those of all others.
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
	if c.seen.aimed { // all else was left alone
		c.seen.forget()
		pool.Put(c)
		return
	}
	if c.rowSums.out != nil { // which whoever uses them sets
		c.rowSums = rowSumsCall{}
	}
	clear(c.argsCopy)
	c.argsCopy = c.argsCopy[:0]
	for _, l := range []*layout{&c.all, &c.strands.windows, &c.groups, &c.members} {
		clear(l.start[:])
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
	if pl.run == nil { // nor are inputs copied
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

// copyArgs makes the arguments the call's own, to be changed: those given are the caller's.
func (c *call) copyArgs() {
	if len(c.argsCopy) == 0 {
		c.argsCopy = append(c.argsCopy, c.args...)
		c.args = c.argsCopy
	}
}
