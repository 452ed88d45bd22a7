package autodiff

import (
	"fmt"
	"sync/atomic"
	"weak"
)

// node is an operation's result in a graph, or a tracked leaf. Nodes point to what they were
// computed from and nothing points forward, so that a graph nobody holds is garbage like any other.
type node struct {
	id    uint64 // larger than those of its inputs
	op    Op
	at    *Attr
	in    []edge
	which int // of the operation's results: each that carries a gradient has a node
	out   Info
	label atomic.Pointer[string] // given by the user

	// val is a handle on the result, where the graph keeps it; aux on a
	// further one, such as the positions of maxima. Guarded by engine.mu
	// until a backward pass has claimed the node.
	val, aux Value
	// again is how many cheap operations compute the result from what is
	// kept; 0 where that is not possible.
	again int
	// redo says that the result can be computed again, at whatever cost;
	// refused that the strategy asks for that.
	redo, refused bool

	// below is the result's node in the inner backend, where that is Autodiff
	// too: a result that is computed again takes the same place there, so that
	// second derivatives are the same bits too.
	below *node

	handle weak.Pointer[variable] // what the user holds
	state  atomic.Int32
	by     *backward // the pass that has claimed the node
	slot   int       // in that pass

	// What asides know: the last age in which the history was whole, or that it
	// never will be again. Guarded by engine.mu.
	whole uint64
	lost  bool

	kept atomic.Bool // by Keep
	leaf bool
	// shares says that the result has the elements of a leaf or a constant.
	shares  bool
	version int64 // of val's elements, when they were computed
}

// edge is one input of a node.
type edge struct {
	n       *node // nil: not tracked
	v       Value // a handle on a constant's or a leaf's elements, if needed
	info    Info
	version int64 // of a constant's or a leaf's elements, when they were used
}

// The states of a node.
const (
	live int32 = iota
	claimed
	freed
)

var lastID atomic.Uint64

// String names the tensor for errors: what the user called it, or the
// operation and a number.
func (n *node) String() string {
	what := "leaf"
	if !n.leaf {
		what = n.op.String()
	}
	if label := n.label.Load(); label != nil {
		return fmt.Sprintf("%q %v", *label, n.out)
	}
	return fmt.Sprintf("%s#%d %v", what, n.id, n.out)
}
