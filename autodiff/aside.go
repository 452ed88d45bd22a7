package autodiff

import (
	"cmp"
	"fmt"
	"runtime"
	"slices"
	"weak"

	"github.com/isobit-ml/isobit/tensor"
)

// asides are the results that a strategy sets aside, which happens when they
// leave the ring of the latest: Go does not say when a program has dropped a
// value, and waiting for the garbage collector would make a strategy's choices
// useless. One that is held after all is brought back when it is used, and at
// the latest before what it would be computed from ends. Guarded by engine.mu.
type asides struct {
	ring   [6]weak.Pointer[variable]
	at     int
	vars   []weak.Pointer[variable]
	enough int // how long vars grows before it is swept
	// age grows whenever histories end; what whole finds is for one age.
	age      uint64
	path     []step
	changing Value // what is about to change in place
}

// step is a node on whole's way, and which input is next.
type step struct {
	n    *node
	next int
}

// add puts a result into the ring.
func (a *asides) add(v *variable) {
	slot := &a.ring[a.at]
	a.at = (a.at + 1) % len(a.ring)
	if old := slot.Value(); old != nil && old != v && old.setAside() {
		if len(a.vars) >= a.enough {
			a.sweep()
			a.enough = max(64, 2*len(a.vars))
		}
		a.vars = append(a.vars, *slot)
	}
	*slot = weak.Make(v)
}

// sweep forgets what is set aside no more.
func (a *asides) sweep() {
	a.vars = slices.DeleteFunc(a.vars, func(w weak.Pointer[variable]) bool {
		v := w.Value()
		return v == nil || v.value != nil || v.released.Load() || v.node.state.Load() == freed
	})
}

// setAside releases the elements, if the graph can bring them back.
func (v *variable) setAside() bool {
	n, e := v.node, v.e
	if v.holds.Load() > 0 || v.value == nil || v.released.Load() || v.stays.Load() || n.kept.Load() || n.val != nil || n.shares || n.state.Load() != live {
		return false
	}
	if !n.redo || !e.keep.limited() && !n.refused && n.computeAgain() == 0 || !e.whole(n) {
		return false
	}
	v.value.Release()
	v.value = nil
	return true
}

// whole reports whether a node's history is all there: nothing of it is freed
// or about to be, and no leaf or constant has changed or is about to. In one age it
// looks at a node once.
func (e *engine) whole(n *node) bool {
	path := append(e.aside.path[:0], step{n: n})
	defer func() {
		clear(path) // the rest is
		e.aside.path = path[:0]
	}()
	for len(path) > 0 {
		top := &path[len(path)-1]
		if top.next == 0 && e.broken(top.n) {
			for _, s := range path {
				s.n.lost = true
			}
			return false
		}
		var p *node
		for p == nil && top.next < len(top.n.in) {
			p = top.n.in[top.next].n
			top.next++
			if p != nil && (p.leaf || p.whole == e.aside.age) {
				p = nil
			}
		}
		if p != nil {
			path = append(path, step{n: p})
			continue
		}
		top.n.whole = e.aside.age
		*top = step{}
		path = path[:len(path)-1]
	}
	return true
}

// broken reports whether a history ends at a node.
func (e *engine) broken(n *node) bool {
	if n.lost || !n.readable(nil) {
		return true
	}
	changing := e.aside.changing
	return slices.ContainsFunc(n.in, func(ed edge) bool {
		return ed.v != nil && (ed.v.Version() != ed.version || changing != nil && sharing(ed.v, changing))
	})
}

// readable reports whether a node is what it was, and stays so as long as
// engine.mu is held: in no pass but b that will free it.
func (n *node) readable(b *backward) bool {
	switch n.state.Load() {
	case live:
		return true
	case claimed:
		return n.by == b || n.by.keep
	}
	return false
}

// sharing reports whether two tensors may have the same elements.
func sharing(x, y Value) bool {
	s, ok := x.(interface{ shares(Value) bool })
	return !ok || s.shares(y)
}

// manyEnding is how many results are brought back unasked. Where there are more, the
// garbage collector says first which of them are held at all: most may be a graph's
// that was dropped, and cost more than it does.
const manyEnding = 4

// rescue brings back what is set aside and held, and could not be brought back
// later: before pass b consumes its graph, or aside.changing changes.
func (e *engine) rescue(b *backward) {
	if !e.keep.again {
		return
	}
	e.aside.age++
	ending := e.ending(b)
	if len(ending) > manyEnding {
		ending = nil
		runtime.GC()
		ending = e.ending(b)
	}
	// What has been brought back need not be computed for the next.
	slices.SortFunc(ending, func(x, y *variable) int { return cmp.Compare(x.node.id, y.node.id) })
	for _, v := range ending {
		if v.value != nil { // it was listed twice
			continue
		}
		// An error comes again when the result is used.
		if value, err := e.bringBack(v.node, b); err == nil {
			v.value, v.version = value, value.Version()
			v.stays.Store(true)
		}
	}
}

// ending returns what is set aside with a history that ends, but not what is
// consumed itself.
func (e *engine) ending(b *backward) (all []*variable) {
	e.aside.sweep()
	for _, w := range e.aside.vars {
		v := w.Value()
		if v == nil || b != nil && v.node.by == b && b.consumes(v.node) || e.whole(v.node) {
			continue
		}
		all = append(all, v)
	}
	return all
}

// consumes reports whether a node of the pass gives up its result, which
// cannot be read afterwards.
func (b *backward) consumes(n *node) bool { return !b.keep && n != b.root && !n.kept.Load() }

// bringBack computes a node's result from what its graph keeps; engine.mu is
// held, by pass b if there is one.
func (e *engine) bringBack(n *node, b *backward) (v Value, err error) {
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
		if has, err := m.there(); err != nil {
			return nil, err
		} else if has != nil || made[m] != nil {
			stack = stack[:len(stack)-1]
			continue
		}
		if !m.readable(b) {
			return nil, fmt.Errorf("%v was set aside, and %v, which it would be computed from again, was freed by Backward: Keep it before", n, m)
		}
		in := make([]Value, len(m.in))
		ready := true
		for i := range m.in {
			ed := &m.in[i]
			switch p := ed.n; {
			case ed.info.DType == tensor.None:
			case p == nil || p.leaf:
				in[i], err = ed.held()
			case made[p] != nil:
				in[i] = made[p]
			default:
				in[i], err = p.there()
			}
			if err != nil {
				return nil, err
			}
			if in[i] == nil && ed.info.DType != tensor.None {
				stack = append(stack, ed.n)
				ready = false
			}
		}
		if !ready {
			continue
		}
		x, err := e.runAgain(m, in)
		if err != nil {
			return nil, err
		}
		made[m] = x
	}
	if x, err := n.there(); err != nil {
		return nil, err
	} else if x != nil {
		return x.Share()
	}
	return made[n], nil
}

// there returns a node's result where the graph keeps it or the user's handle
// has it, or nil; engine.mu is held.
func (n *node) there() (Value, error) {
	if n.val != nil {
		return n.keeps()
	}
	if x := n.handle.Value(); x != nil && !x.gone.Load() && x.value != nil && !freedBelow(x.value) {
		return unchanged(n, x.value, x.version)
	}
	return nil, nil
}

// freedBelow reports whether a tensor is an inner Autodiff's, which a pass there freed
// with its own graph: it can be computed again.
func freedBelow(v Value) bool {
	x, ok := v.(*variable)
	return ok && x.released.Load()
}
