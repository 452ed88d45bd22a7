package autodiff

import (
	"fmt"
	"sync"
	"weak"

	"github.com/isobit-ml/isobit/tensor"
)

// engine is Autodiff without its type parameters: a Backend of variables over any
// other. It holds no graph; graphs hang together by their nodes.
type engine struct {
	inner  Backend
	mu     sync.Mutex
	keep   keeper
	aside  asides
	passes sync.Pool // of backward
}

func newEngine(inner Backend, s Strategy) *engine {
	if isNil(s) {
		s = None{}
	}
	if isNil(inner) {
		inner = noBackend{}
	}
	_, none := s.(None)
	return &engine{inner: inner, keep: keeper{strategy: s, limit: s.Limit(), again: !none, stride: 1}}
}

// absentEngine is the engine of an Autodiff that New did not make.
var absentEngine = newEngine(nil, nil)

// orAbsent returns e, or what says that there is none.
func (e *engine) orAbsent() *engine {
	if e == nil {
		return absentEngine
	}
	return e
}

// Name returns "autodiff" and the inner backend's name.
func (e *engine) Name() string { return "autodiff(" + e.orAbsent().inner.Name() + ")" }

// Device returns the inner backend's.
func (e *engine) Device() tensor.Device { return e.orAbsent().inner.Device() }

// Owns reports whether v is a float tensor of this backend, or any other
// tensor of the inner one.
func (e *engine) Owns(v Value) bool {
	if x, ok := v.(*variable); ok {
		return x.e == e
	}
	return e.orAbsent().inner.Owns(v)
}

// FromView copies a tensor from host memory, untracked.
func (e *engine) FromView(v tensor.View) (Value, error) {
	inner, err := e.orAbsent().inner.FromView(v)
	if err != nil {
		return nil, err
	}
	return e.wrap(inner), nil
}

// wrap makes an untracked variable of a float tensor. Others stay the inner backend's own.
func (e *engine) wrap(inner Value) Value {
	if inner == nil || !inner.DType().IsFloat() {
		return inner
	}
	return &variable{e: e, info: infoOf(inner), value: inner}
}

// hold returns the inner backend's tensor, which stays where it is until
// letGo.
func (e *engine) hold(v Value) (Value, error) {
	x, ok := v.(*variable)
	if !ok {
		return v, nil
	}
	if x.e != e {
		if e.inner.Owns(v) { // a gradient, where the inner backend has gradients, too
			return v, nil
		}
		return nil, fmt.Errorf("%v belongs to another backend than this %s", x, e.Name())
	}
	return x.hold()
}

// own returns a tensor of this backend, or nil for one of the inner backend.
func (e *engine) own(v Value) *variable {
	if x, ok := v.(*variable); ok && x.e == e {
		return x
	}
	return nil
}

func (e *engine) letGo(in ...Value) {
	for _, v := range in {
		if x := e.own(v); x != nil {
			x.letGo()
		}
	}
}

// View shows a tensor in host memory. What has been seen is not set aside.
func (e *engine) View(v Value) (tensor.View, error) {
	e = e.orAbsent()
	inner, err := e.hold(v)
	if err != nil {
		return tensor.View{}, fmt.Errorf("autodiff: view: %w", err)
	}
	defer e.letGo(v)
	if x, ok := v.(*variable); ok {
		x.stays.Store(true)
	}
	return e.inner.View(inner)
}

// Run applies an operation on the inner backend, and records it if an input
// is tracked.
func (e *engine) Run(op Op, at *Attr, in ...Value) (Outputs, error) {
	e = e.orAbsent()
	var few [4]Value
	inner := append(few[:0], in...)
	tracked := false
	for i, v := range in {
		if v == nil {
			continue
		}
		var err error
		if inner[i], err = e.hold(v); err != nil {
			e.letGo(in[:i]...)
			return Outputs{}, fmt.Errorf("autodiff: %v: %s: %w", op, op.input(i), err)
		}
		if x := e.own(v); x != nil && x.node != nil {
			tracked = true
		}
	}
	defer e.letGo(in...)
	if op < opCount && ops[op].inPlace && len(in) > 0 { // without an input the inner backend says so
		return e.update(op, at, in, inner)
	}
	out, err := e.inner.Run(op, at, inner...)
	if err != nil {
		return Outputs{}, err
	}
	first := out.first()
	if !tracked || rules[op].constant || first < 0 || !ops[op].carries(out[first].DType()) {
		for i, v := range out {
			out[i] = e.wrap(v)
		}
		return out, nil
	}
	for i, v := range out {
		if v == nil || i > first && !v.DType().IsFloat() {
			continue
		}
		n, err := e.record(op, at, in, inner, out, i)
		if err != nil {
			return Outputs{}, fmt.Errorf("autodiff: %v: %w", op, err)
		}
		x := &variable{e: e, info: n.out, value: v, version: v.Version(), node: n}
		n.handle = weak.Make(x)
		if e.keep.again {
			e.lists(x)
		}
		out[i] = x
	}
	return out, nil
}

// lists has a result among the latest, which a strategy may set aside later.
func (e *engine) lists(x *variable) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.aside.add(x)
}

// update runs an operation that changes its first input, which must not be
// part of a graph other than as a leaf.
func (e *engine) update(op Op, at *Attr, in, inner []Value) (Outputs, error) {
	if x := e.own(in[0]); x != nil && x.node != nil && !x.node.leaf {
		return Outputs{}, fmt.Errorf("autodiff: %v: %v was computed; only a leaf can be changed in place", op, x)
	}
	e.rescueFrom(inner[0])
	return e.inner.Run(op, at, inner...)
}

// rescueFrom brings back what could not be once the elements have changed.
func (e *engine) rescueFrom(changing Value) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.aside.changing = changing
	defer func() { e.aside.changing = nil }()
	e.rescue(nil)
}

// record adds an operation to the graph of its inputs: a node for the result with a number.
func (e *engine) record(op Op, at *Attr, in, inner []Value, out Outputs, which int) (*node, error) {
	n := &node{id: lastID.Add(1), op: op, at: at, in: make([]edge, len(in)), which: which, out: infoOf(out[which]), below: nodeOf(out[which])}
	for i, v := range in {
		ed := &n.in[i]
		ed.info = infoOf(v)
		if x := e.own(v); x != nil {
			ed.n = x.node
		}
	}
	needs := n.needs()
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.keep.pressed && n.begins() {
		e.keep.sweep()
	}
	for i := range n.in {
		if p := n.in[i].n; p != nil && !p.leaf && needs.has(input(i)) {
			if err := e.keep.need(p, inner[i], e.own(in[i]).version); err != nil {
				return nil, err
			}
		}
	}
	n.redo = e.keep.redo(n, needs)
	for i := range n.in {
		ed := &n.in[i]
		if inner[i] == nil || ed.n != nil && !ed.n.leaf {
			continue
		}
		ed.version = inner[i].Version()
		if needs.has(input(i)) || n.redo {
			var err error
			if ed.v, err = inner[i].Share(); err != nil {
				return nil, err
			}
		}
	}
	if from := n.in[0].n; op == OpReshape && (from == nil || from.leaf || from.shares) {
		n.shares = true
	}
	n.again = n.computeAgain()
	if needs.has(output) {
		if err := e.keep.need(n, out[which], out[which].Version()); err != nil {
			return nil, err
		}
	}
	if needs.has(further) && out[1] != nil {
		var err error
		if n.aux, err = out[1].Share(); err != nil {
			return nil, err
		}
		e.keep.count(n, infoOf(out[1]).bytes(), ofPositions)
	}
	return n, nil
}

// begins reports whether a node is the first of its graph.
func (n *node) begins() bool {
	for _, ed := range n.in {
		if ed.n != nil && !ed.n.leaf {
			return false
		}
	}
	return true
}

// leafVar makes a tracked leaf that shares a tensor's elements.
func (e *engine) leafVar(v Value) (Value, error) {
	if e == nil {
		return nil, errNoBackend
	}
	inner, err := e.hold(v)
	if err != nil {
		return nil, fmt.Errorf("autodiff: track: %w", err)
	}
	defer e.letGo(v)
	if inner, err = inner.Share(); err != nil {
		return nil, err
	}
	n := &node{id: lastID.Add(1), leaf: true, out: infoOf(inner)}
	return &variable{e: e, info: n.out, value: inner, node: n}, nil
}

// parameterVar is leafVar of a parameter, which is a leaf of inner backends too, unless it has a place in their graphs: there,
// what gradients are made of is differentiated by it.
func (e *engine) parameterVar(v Value) (Value, error) {
	if e == nil {
		return nil, errNoBackend
	}
	if t, ok := e.inner.(tracker); ok {
		inner, err := e.hold(v)
		if err != nil {
			return nil, fmt.Errorf("autodiff: track: %w", err)
		}
		defer e.letGo(v)
		if nodeOf(inner) == nil {
			if inner, err = t.parameterVar(inner); err != nil {
				return nil, err
			}
			v = e.wrap(inner)
			defer v.Release()
		}
	}
	return e.leafVar(v)
}

// constant returns an untracked tensor that shares a tensor's elements, on inner backends too.
func (e *engine) constant(v Value) (Value, error) {
	inner, err := e.hold(v)
	if err != nil {
		return nil, err
	}
	defer e.letGo(v)
	if t, ok := e.inner.(tracker); ok {
		inner, err = t.constant(inner)
	} else {
		inner, err = inner.Share()
	}
	if err != nil {
		return nil, err
	}
	return e.wrap(inner), nil
}
