package autodiff

import (
	"fmt"
	"sync/atomic"
	"weak"

	"github.com/isobit-ml/isobit/tensor"
)

// node is an operation in a graph, or a tracked leaf. Nodes point to what they
// were computed from and nothing points forward, so that a graph nobody holds
// is garbage like any other.
type node struct {
	id    uint64 // larger than those of its inputs
	op    Op
	at    *Attr
	in    []edge
	out   Info
	label string // given by the user

	// val is a handle on the result, where the graph keeps it; aux on a
	// further one, such as the positions of maxima. Guarded by engine.mu
	// until a backward pass has claimed the node.
	val, aux Value
	// again is how many cheap operations compute the result from what is
	// kept; 0 where that is not possible.
	again int

	// below is the result's node in the inner backend, where that is Autodiff
	// too: a result that is computed again takes the same place there, so that
	// second derivatives are the same bits too.
	below *node

	handle weak.Pointer[Var] // what the user holds
	state  atomic.Int32
	by     *backward // the pass that has claimed the node
	slot   int       // in that pass

	leaf    bool
	version atomic.Int64 // of a leaf: how often it was changed in place
}

// edge is one input of a node.
type edge struct {
	n       *node // nil: not tracked
	v       Value // a handle on a constant's or a leaf's elements, if needed
	info    Info
	version int64 // of the leaf, when it was used
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
	name := n.label
	switch {
	case name != "":
		name = fmt.Sprintf("%q", name)
	case n.leaf:
		name = fmt.Sprintf("leaf#%d", n.id)
	default:
		name = fmt.Sprintf("%v#%d", n.op, n.id)
	}
	return fmt.Sprintf("%s %v", name, n.out)
}

// Var is Autodiff's Value: a tensor of the inner backend and, if it is
// tracked, its place in a graph.
type Var struct {
	e        *engine
	value    Value
	node     *node
	kept     atomic.Bool
	released atomic.Bool
}

func (v *Var) String() string {
	if v.node != nil {
		return v.node.String()
	}
	return infoOf(v.value).String()
}

// check returns the error of using a released tensor.
func (v *Var) check() error {
	if !v.released.Load() {
		return nil
	}
	if v.node != nil && v.node.state.Load() == freed {
		return fmt.Errorf("%v was freed by Backward, with the graph that it was part of: Keep it before, to use its value afterwards", v)
	}
	return fmt.Errorf("%v: %w", v, errReleased)
}

// Share returns another handle, at the same place in the graph.
func (v *Var) Share() (Value, error) {
	if err := v.check(); err != nil {
		return nil, fmt.Errorf("autodiff: %w", err)
	}
	inner, err := v.value.Share()
	if err != nil {
		return nil, err
	}
	return &Var{e: v.e, value: inner, node: v.node}, nil
}

// Release ends this handle.
func (v *Var) Release() {
	if v.released.CompareAndSwap(false, true) {
		v.value.Release()
	}
}

// Alone reports false: a graph may need the elements.
func (v *Var) Alone() bool { return false }

// restore puts a result that was computed again where the first one was.
func (n *node) restore(v Value) Value {
	x, ok := v.(*Var)
	if !ok || n.below == nil {
		return v
	}
	return &Var{e: x.e, value: x.value, node: n.below}
}

// DType returns the element type.
func (v *Var) DType() tensor.DType { return v.value.DType() }

// Shape returns the extents.
func (v *Var) Shape() []int64 { return v.value.Shape() }
