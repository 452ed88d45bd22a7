package autodiff

import (
	"fmt"
	"math"
	"weak"
)

// Strategy decides which results of the forward pass a graph keeps for the
// backward pass; the others are computed again when they are needed, each at
// most once. No strategy changes a bit of a gradient.
type Strategy interface {
	// Keep decides about a result that some gradient needs. Without a Limit it
	// is not asked where computing again would have the graph hold constants, apart
	// from those that a gradient needs, of more than a sixteenth of the result.
	Keep(c Candidate) bool
	// Limit is how many bytes all graphs of a backend may keep together. Where
	// it is reached, what is bound by memory is given up first, then every
	// other result, so that those that stay are spread evenly. Positions (of
	// maxima, of a Sort) count but stay; parameters and constants do not count.
	Limit() int64
	// String names the strategy, for people.
	String() string
}

// Candidate is a result that may be kept.
type Candidate struct {
	Op    Op    // what computed it
	Bytes int64 // its elements'
	// Again is how many operations, all of them bound by memory, compute the
	// result from others that are kept anyway; 0 where that is not possible.
	Again int
}

// None keeps everything that a gradient needs, and computes nothing again.
type None struct{}

// Keep returns true.
func (None) Keep(Candidate) bool { return true }

// Limit returns a number that is never reached.
func (None) Limit() int64 { return math.MaxInt64 }

// String returns "none".
func (None) String() string { return "none" }

// Balanced computes again what is bound by memory and can be had from what is
// kept anyway, by a few operations: it needs no more memory than None, but for
// small constants (see Strategy.Keep), often much less, and no matrix product
// twice.
type Balanced struct{}

// balancedChain is how many operations in a row Balanced computes again.
const balancedChain = 8

// Keep reports whether c is too expensive to compute again.
func (Balanced) Keep(c Candidate) bool { return c.Again == 0 || c.Again > balancedChain }

// Limit returns a number that is never reached.
func (Balanced) Limit() int64 { return math.MaxInt64 }

// String returns "balanced".
func (Balanced) String() string { return "balanced" }

// Budget keeps what fits into a number of bytes and computes the rest again,
// matrix products included. The backward pass needs more for what it is
// working on: about what lies between two results that are kept.
type Budget struct {
	Bytes int64 // that all graphs of a backend may keep together
}

// Keep returns true.
func (Budget) Keep(Candidate) bool { return true }

// Limit returns the number of bytes.
func (b Budget) Limit() int64 { return b.Bytes }

// String says how many bytes.
func (b Budget) String() string { return fmt.Sprintf("budget of %d bytes", b.Bytes) }

// keeper applies a strategy. Its methods are called with engine.mu held.
type keeper struct {
	strategy Strategy
	again    bool // whether any result may be computed again: all strategies but None
	limit    int64
	total    int64
	kept     []keptNode // in the order in which they were computed
	enough   int        // how long kept grows before it is swept
	// Once the limit was reached: keep only what is not cheap to compute
	// again, and of that every stride-th.
	pressed bool
	stride  int
	skipped int
}

type keptNode struct {
	n         weak.Pointer[node]
	bytes     int64
	positions bool // not the result
}

// there reports whether n still keeps it.
func (e *keptNode) there(n *node) bool {
	return e.positions && n.aux != nil || !e.positions && n.val != nil
}

// limited reports whether there is a limit of bytes, so that any result may have
// to be computed again, cheap or not.
func (k *keeper) limited() bool { return k.limit < math.MaxInt64 }

// redo reports whether a node can be computed again, for which it holds the
// leaves and constants among its inputs. Without a limit it does not where
// constants that no gradient reads would take more than a fraction of what
// giving up the result saves.
func (k *keeper) redo(n *node, needs uses) bool {
	extra := int64(0)
	for i, ed := range n.in {
		switch p := ed.n; {
		case p == nil && !needs.has(input(i)):
			extra += ed.info.bytes()
		case p != nil && !p.leaf && p.val == nil && !p.redo:
			return false
		}
	}
	return k.limited() || k.again && extra <= max(smallConstant, n.out.bytes()/16)
}

// smallConstant is the bytes of a buffer that are not worth a thought.
const smallConstant = 64

// computeAgain returns how many cheap operations compute n from what is kept.
func (n *node) computeAgain() int {
	if !n.redo || !ops[n.op].cheap {
		return 0
	}
	most := 0
	for _, e := range n.in {
		if e.n == nil || e.n.leaf || e.n.val != nil {
			continue
		}
		if e.n.again == 0 {
			return 0
		}
		most = max(most, e.n.again)
	}
	return most + 1
}

// need is told that a gradient needs n's result v, computed when it had a version,
// and keeps it or not.
func (k *keeper) need(n *node, v Value, version int64) error {
	if n.state.Load() != live || n.leaf || n.val != nil {
		return nil
	}
	n.again = n.computeAgain()
	bytes := n.out.bytes()
	if n.redo {
		if n.refused = !k.strategy.Keep(Candidate{n.op, bytes, n.again}); n.refused {
			return nil
		}
		if k.limited() && (k.pressed && n.cheap() || !k.fits(bytes)) {
			return nil
		}
	}
	var err error
	if n.val, err = v.Share(); err == nil {
		n.version = version
		k.count(n, bytes, ofValue)
	}
	return err
}

// fits makes room for a result, or says that it is not to be kept.
func (k *keeper) fits(bytes int64) bool {
	if k.skipped++; k.skipped < k.stride {
		return false
	}
	for k.total+bytes > k.limit {
		if !k.thin() {
			return false
		}
	}
	k.skipped = 0
	return true
}

// What of a node is counted.
const ofValue, ofPositions = false, true

// count is told of a node's result that is kept, or of its positions, which
// always are.
func (k *keeper) count(n *node, bytes int64, positions bool) {
	if !k.limited() {
		return
	}
	if len(k.kept) >= k.enough {
		// Graphs that were dropped leave entries behind.
		k.sweep()
		k.enough = max(1024, 2*len(k.kept))
	}
	k.total += bytes
	k.kept = append(k.kept, keptNode{weak.Make(n), bytes, positions})
	for k.total > k.limit && k.thin() {
	}
}

// thin gives results up. It reports whether that made any room.
func (k *keeper) thin() bool {
	before := k.total
	k.sweep()
	if k.total < before {
		return true
	}
	k.pressed = true
	if k.giveUp(func(n *node) bool { return n.cheap() }) {
		return true
	}
	odd := false
	gave := k.giveUp(func(*node) bool { odd = !odd; return !odd })
	if gave {
		k.stride *= 2
	}
	return gave
}

// giveUp releases the results that which names.
func (k *keeper) giveUp(which func(n *node) bool) (gave bool) {
	for _, e := range k.kept {
		if n := e.n.Value(); n != nil && !e.positions && n.state.Load() == live && which(n) {
			n.again = n.computeAgain()
			n.val.Release()
			n.val, gave = nil, true
		}
	}
	if gave {
		k.sweep()
	}
	return gave
}

// cheap reports whether Balanced would compute n again.
func (n *node) cheap() bool {
	again := n.computeAgain()
	return again > 0 && again <= balancedChain
}

// sweep forgets the nodes that keep nothing any more: those whose graph was
// dropped, and those that a backward pass or thin has emptied.
func (k *keeper) sweep() {
	left := k.kept[:0]
	k.total = 0
	for _, e := range k.kept {
		if n := e.n.Value(); n != nil && (n.state.Load() == claimed || e.there(n)) {
			left = append(left, e)
			k.total += e.bytes
		}
	}
	clear(k.kept[len(left):])
	k.kept = left
	if len(left) == 0 {
		k.pressed, k.stride, k.skipped = false, 1, 0
	}
}

func (i Info) bytes() int64 {
	n := i.DType.Size()
	for _, d := range i.Shape {
		n *= d
	}
	return n
}
