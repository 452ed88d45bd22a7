package autodiff

import (
	"fmt"
	"sync/atomic"
	"weak"

	"github.com/isobit-ml/isobit/tensor"
)

// Var is Autodiff's Value: a tensor of the inner backend and, if it is
// tracked, its place in a graph.
type Var struct {
	e    *engine
	info Info
	node *node
	// value is the inner backend's tensor. A strategy that computes again may
	// set it aside (nil) where the graph can bring it back: see hold. It is
	// guarded by engine.mu then.
	value    Value
	holds    atomic.Int32 // how many need value where it is
	kept     atomic.Bool
	seen     atomic.Bool // by View: the elements stay where they are
	released atomic.Bool // value goes with the last that holds it
	gone     atomic.Bool
}

// String names the tensor as errors do.
func (v *Var) String() string {
	if v.node != nil {
		return v.node.String()
	}
	return v.info.String()
}

// DType returns the element type.
func (v *Var) DType() tensor.DType { return v.info.DType }

// Shape returns the extents.
func (v *Var) Shape() []int64 { return v.info.Shape }

// Alone reports false: a graph may need the elements.
func (v *Var) Alone() bool { return false }

// Version counts changes in place. Results never change; what shares its
// elements with a leaf or a constant changes with it.
func (v *Var) Version() int64 {
	if n := v.node; n != nil && !n.leaf && !n.shares {
		return 0
	}
	inner, err := v.hold()
	if err != nil {
		return 0 // whoever uses the elements gets the error
	}
	defer v.letGo()
	return inner.Version()
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
	inner, err := v.hold()
	if err != nil {
		return nil, fmt.Errorf("autodiff: %w", err)
	}
	defer v.letGo()
	if inner, err = inner.Share(); err != nil {
		return nil, err
	}
	return &Var{e: v.e, info: v.info, value: inner, node: v.node}, nil
}

// Release ends this handle.
func (v *Var) Release() {
	if v.released.CompareAndSwap(false, true) && v.holds.Load() == 0 {
		v.free()
	}
}

// free releases the elements, once.
func (v *Var) free() {
	if !v.gone.CompareAndSwap(false, true) {
		return
	}
	v.e.mu.Lock()
	if v.value != nil {
		v.value.Release()
	}
	v.e.mu.Unlock()
}

// hold returns the inner backend's tensor, brought back if it was set aside,
// and keeps it where it is until letGo, whoever releases v meanwhile.
func (v *Var) hold() (value Value, err error) {
	v.holds.Add(1)
	if err = v.check(); err == nil {
		value, err = v.present()
	}
	if err != nil {
		v.letGo()
		return nil, err
	}
	return value, nil
}

func (v *Var) present() (Value, error) {
	if !v.e.keep.again {
		return v.value, nil
	}
	v.e.mu.Lock()
	defer v.e.mu.Unlock()
	if v.value == nil {
		var err error
		if v.value, err = v.e.bringBack(v.node); err != nil {
			return nil, err
		}
		v.e.recent.add(v)
	}
	return v.value, nil
}

func (v *Var) letGo() {
	if v.holds.Add(-1) == 0 && v.released.Load() {
		v.free()
	}
}

// recent is the ring of the latest results that a user may still hold. Those
// that leave it are set aside where the graph can compute them again: Go does
// not say when a program has dropped a value, and waiting for the garbage
// collector would make a strategy's choices useless.
type recent struct {
	ring [6]weak.Pointer[Var]
	at   int
}

// add puts a result into the ring; engine.mu is held.
func (r *recent) add(v *Var) {
	slot := &r.ring[r.at]
	r.at = (r.at + 1) % len(r.ring)
	if old := slot.Value(); old != nil && old != v {
		old.setAside()
	}
	*slot = weak.Make(v)
}

func (v *Var) setAside() {
	n := v.node
	if v.holds.Load() > 0 || v.value == nil || v.released.Load() || v.kept.Load() || v.seen.Load() || n.val != nil || n.state.Load() != live {
		return
	}
	if v.e.keep.limited() || n.computeAgain() > 0 {
		v.value.Release()
		v.value = nil
	}
}

// bringBack computes a node's result from what its graph keeps; engine.mu is
// held.
func (e *engine) bringBack(n *node) (v Value, err error) {
	made := map[*node]Value{}
	defer func() {
		for m, x := range made {
			if m != n || err != nil {
				x.Release()
			}
		}
	}()
	stack := []*node{n}
	for len(stack) > 0 {
		m := stack[len(stack)-1]
		if m.val != nil || made[m] != nil {
			stack = stack[:len(stack)-1]
			continue
		}
		if m.state.Load() != live {
			return nil, fmt.Errorf("%v was set aside, and %v, which it would be computed from again, was freed by Backward: Keep it before", n, m)
		}
		in := make([]Value, len(m.in))
		ready := true
		for i := range m.in {
			ed := &m.in[i]
			switch p := ed.n; {
			case ed.info.DType == tensor.None:
			case p == nil || p.leaf:
				if in[i], err = ed.held(); err != nil {
					return nil, err
				}
			case p.val != nil:
				if in[i], err = p.unchanged(p.val); err != nil {
					return nil, err
				}
			case made[p] != nil:
				in[i] = made[p]
			default:
				stack = append(stack, p)
				ready = false
			}
		}
		if !ready {
			continue
		}
		if made[m], err = e.runAgain(m, in); err != nil {
			return nil, err
		}
	}
	if n.val != nil {
		if v, err = n.unchanged(n.val); err != nil {
			return nil, err
		}
		return v.Share()
	}
	return made[n], nil
}
