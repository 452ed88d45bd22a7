package autodiff

import (
	"cmp"
	"fmt"
	"slices"
)

// collect claims every node between the root and the leaves, all or none. It
// goes from node to node without recursion, and in the same order every time.
func (b *backward) collect() (err error) {
	b.e.mu.Lock()
	defer b.e.mu.Unlock()
	if err = b.visit(b.root, nil); err != nil {
		return err
	}
	for i := 0; i < len(b.nodes) && err == nil; i++ {
		n := b.nodes[i]
		if !rules[n.op].defined() {
			return fmt.Errorf("%v cannot be differentiated: %v has no gradient rule", n, n.op)
		}
		for j := range n.in {
			if p := n.in[j].n; p != nil && err == nil {
				err = b.visit(p, n)
			}
		}
	}
	if err != nil {
		return err
	}
	// Inputs have smaller numbers than what is computed from them.
	slices.SortFunc(b.nodes, func(x, y *node) int { return cmp.Compare(y.id, x.id) })
	slices.SortFunc(b.leaves, func(x, y *node) int { return cmp.Compare(x.id, y.id) })
	for i, n := range b.nodes {
		n.slot = i
	}
	for i, n := range b.leaves {
		b.leaf[n] = i
	}
	if !b.keep {
		b.e.rescue(b)
	}
	return nil
}

func (b *backward) visit(n, from *node) error {
	if n.leaf {
		if _, seen := b.leaf[n]; !seen {
			b.leaf[n] = 0
			b.leaves = append(b.leaves, n)
		}
		return nil
	}
	if n.by == b {
		return nil
	}
	if n.state.CompareAndSwap(live, claimed) {
		n.by = b
		b.nodes = append(b.nodes, n)
		return nil
	}
	if n.state.Load() != freed {
		return fmt.Errorf("%v is being differentiated by another goroutine", n)
	}
	way := ""
	if from != nil {
		way = fmt.Sprintf(", which %v was computed from,", from)
	}
	return fmt.Errorf("the history of %v%s was freed by an earlier Backward; pass KeepGraph there to go through it again", n, way)
}

// reset gives the claimed nodes back, after an error before anything was
// changed.
func (b *backward) reset() {
	b.e.mu.Lock()
	for _, n := range b.nodes {
		n.by = nil
		n.state.Store(live)
	}
	b.e.mu.Unlock()
	b.clear()
}

// finish ends the pass: it frees the nodes, or gives them back.
func (b *backward) finish() {
	for _, list := range [][]Value{b.grads, b.vals} {
		for _, v := range list {
			if v != nil { // after an error
				v.Release()
			}
		}
	}
	defer b.clear()
	b.e.mu.Lock()
	defer b.e.mu.Unlock()
	for _, n := range b.nodes {
		n.by = nil
		if b.keep {
			n.state.Store(live)
			continue
		}
		// After an error, parts may still be held.
		for _, e := range n.in {
			if e.v != nil {
				e.v.Release()
			}
		}
		for _, v := range []Value{n.val, n.aux} {
			if v != nil {
				v.Release()
			}
		}
		n.in, n.at, n.val, n.aux, n.below = nil, nil, nil, nil, nil
		n.state.Store(freed)
	}
	if b.e.keep.limited() {
		b.e.keep.sweep()
	}
}

// clear forgets the graph, but not the slices' memory.
func (b *backward) clear() {
	clear(b.nodes)
	clear(b.leaves)
	clear(b.leaf)
	clear(b.grads)
	clear(b.parts)
	clear(b.vals)
	clear(b.stack[:cap(b.stack)])
	b.nodes, b.leaves, b.root, b.begun = b.nodes[:0], b.leaves[:0], nil, false
}
