package autodiff

import (
	"errors"
	"fmt"
)

// What a strategy did not keep is computed again here, during a pass.

// have returns a node's result if it was kept, or computed again.
func (b *backward) have(n *node) Value {
	if n.val != nil {
		return n.val
	}
	return b.vals[n.slot]
}

// value returns a node's result. What has to be computed again for it comes
// from a stack, not from recursion: graphs may be deep.
func (b *backward) value(n *node) (Value, error) {
	if n.val != nil {
		return n.keeps()
	}
	if v := b.vals[n.slot]; v != nil {
		return v, nil
	}
	stack := append(b.stack[:0], n)
	for len(stack) > 0 {
		m := stack[len(stack)-1]
		ready := true
		if b.have(m) == nil {
			for i := range m.in {
				if p := m.in[i].n; p != nil && !p.leaf && b.have(p) == nil {
					stack = append(stack, p)
					ready = false
				}
			}
		}
		if !ready {
			continue
		}
		stack = stack[:len(stack)-1]
		if b.have(m) == nil {
			if err := b.again(m); err != nil {
				return nil, err
			}
		}
	}
	b.stack = stack
	return b.have(n), nil
}

// again computes a node's result again.
func (b *backward) again(n *node) error {
	in := make([]Value, len(n.in))
	for i := range in {
		if n.in[i].info.DType != 0 {
			var err error
			if in[i], err = b.edgeValue(&n.in[i]); err != nil {
				return err
			}
		}
	}
	var err error
	if b.vals[n.slot], err = b.e.runAgain(n, in); err != nil {
		return err
	}
	for i := range n.in {
		b.used(n.in[i].n)
	}
	return nil
}

var errNotHeld = errors.New("internal: an input was not kept")

// edgeValue returns an input's elements.
func (b *backward) edgeValue(e *edge) (Value, error) {
	if e.n != nil && !e.n.leaf {
		return b.value(e.n)
	}
	return e.held()
}

// held returns the elements of a constant or a leaf.
func (e *edge) held() (Value, error) {
	if e.v == nil {
		return nil, errNotHeld
	}
	if e.v.Version() != e.version {
		return nil, changed(e)
	}
	return e.v, nil
}

// keeps returns the result that the graph keeps.
func (n *node) keeps() (Value, error) { return unchanged(n, n.val, n.version) }

// unchanged returns n's result v, or the error of elements that are others since
// they were computed: a leaf's that shares them, or that of whoever tracked them.
func unchanged(n *node, v Value, version int64) (Value, error) {
	if v.Version() != version {
		return nil, changed(n)
	}
	return v, nil
}

func changed(what any) error {
	return fmt.Errorf("autodiff: %v was changed in place (by an optimizer?) after it was used", what)
}

// String names the input for errors.
func (e *edge) String() string {
	if e.n != nil {
		return e.n.String()
	}
	return fmt.Sprintf("a constant %v", e.info)
}

// used is told that a result was read once.
func (b *backward) used(n *node) {
	if n == nil || n.leaf {
		return
	}
	if b.uses[n.slot]--; b.uses[n.slot] > 0 {
		return
	}
	if v := b.vals[n.slot]; v != nil {
		v.Release()
		b.vals[n.slot] = nil
	}
	if !b.keep {
		b.e.drop(n)
	}
}

// runAgain computes one node's result.
func (e *engine) runAgain(n *node, in []Value) (Value, error) {
	out, err := e.inner.Run(n.op, n.at, in...)
	if err != nil {
		return nil, err
	}
	for i, v := range out {
		if v != nil && i != n.which {
			v.Release()
		}
	}
	// Where the inner backend is Autodiff too, the result takes the place of
	// the first one in its graph.
	x, ok := out[n.which].(*variable)
	if !ok || n.below == nil {
		return out[n.which], nil
	}
	defer x.Release()
	v, err := x.Share()
	if err == nil {
		v.(*variable).node = n.below
	}
	return v, err
}
