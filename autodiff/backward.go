package autodiff

import (
	"fmt"
	"slices"
)

// backward is one pass through a graph. Its slices are used again by the next.
type backward struct {
	e      *engine
	root   *node
	keep   bool    // leave the graph as it is
	begun  bool    // something of the graph may have been freed
	nodes  []*node // what the pass goes through, from the root down
	leaves []*node
	leaf   map[*node]int
	grads  []Value // by position in nodes, then in leaves
	parts  []parts // likewise
	vals   []Value // results that were computed again, by position in nodes
	uses   []int32 // how often a result will still be read, by position in nodes
	stack  []*node
	sc     scope
}

type backwardOptions struct {
	seed    Value
	seedErr error
	sum     bool
	keep    bool
}

// backward differentiates a tensor and returns the gradients of the leaves, and
// of what was marked with Keep.
func (e *engine) backward(v Value, o backwardOptions) (*gradients, error) {
	if e == nil {
		return nil, errNoBackend
	}
	x, ok := v.(*variable)
	if !ok || x.e != e {
		return nil, fmt.Errorf("autodiff: backward: %v belongs to another backend than this %s", infoOf(v), e.Name())
	}
	if x.node == nil {
		return nil, fmt.Errorf("autodiff: backward: %v is not tracked: nothing that it was computed from is (see Track)", x)
	}
	// The root is left as it is.
	if _, err := x.hold(); err != nil {
		return nil, fmt.Errorf("autodiff: backward: %w", err)
	}
	defer x.letGo()
	b, _ := e.passes.Get().(*backward)
	if b == nil {
		b = &backward{leaf: map[*node]int{}}
	}
	b.e, b.root, b.keep, b.sc.Backend = e, x.node, o.keep, e.inner
	defer b.release()
	seed, err := b.seed(x, o)
	if err == nil {
		err = b.collect()
	}
	if err != nil {
		b.reset()
		return nil, fmt.Errorf("autodiff: backward: %w", err)
	}
	b.begun = true
	b.prepare()
	b.grads[b.position(x.node)] = seed
	g := &gradients{byID: map[uint64]int{}}
	if err = b.run(g); err != nil {
		g.release()
		g = nil
	}
	b.finish()
	return g, err
}

// release has the next pass use b. One that a panic left, of the caller's own inner backend, is ended
// first, as by an error, and not used again: it may be half used.
func (b *backward) release() {
	switch {
	case b.root == nil: // it has ended
		b.e.passes.Put(b)
	case b.begun:
		b.finish()
	default:
		b.reset()
	}
}

// seed returns the gradient of the root with respect to itself.
func (b *backward) seed(x *variable, o backwardOptions) (Value, error) {
	info := infoOf(x)
	if !info.DType.IsFloat() {
		return nil, fmt.Errorf("%v holds no floats: differentiate what is computed from it", x)
	}
	if o.seed != nil {
		if !b.e.inner.Owns(o.seed) {
			return nil, fmt.Errorf("the seed %v belongs to another backend than %s, the inner one", o.seed, b.e.inner.Name())
		}
		if s := infoOf(o.seed); s.DType != info.DType || !slices.Equal(s.Shape, info.Shape) {
			return nil, fmt.Errorf("the seed is %v; want the type and shape of %v", s, x)
		}
		return o.seed.Share()
	}
	if info.bytes() != info.DType.Size() && !o.sum {
		return nil, fmt.Errorf("%v has not one element: differentiate its Sum, or pass WithSum or WithSeed", x)
	}
	out, err := b.e.inner.Run(OpFill, &Attr{DType: info.DType, Shape: info.Shape, Floats: [10]float64{1}})
	return out[0], err
}

// position is where a node's gradient is.
func (b *backward) position(n *node) int {
	if n.leaf {
		return len(b.nodes) + b.leaf[n]
	}
	return n.slot
}

// prepare counts how often each result will be read, the results that have to
// be computed again for that included, and lets go of what is not needed.
func (b *backward) prepare() {
	b.grads = append(b.grads[:0], make([]Value, len(b.nodes)+len(b.leaves))...)
	b.parts = append(b.parts[:0], make([]parts, len(b.grads))...)
	b.vals = append(b.vals[:0], make([]Value, len(b.nodes))...)
	b.uses = append(b.uses[:0], make([]int32, len(b.nodes))...)
	again := b.stack[:0]
	read := func(n *node) {
		if n == nil || n.leaf {
			return
		}
		if b.uses[n.slot]++; b.uses[n.slot] == 1 && n.val == nil {
			again = append(again, n)
		}
	}
	for _, n := range b.nodes {
		b.reads(n, read)
	}
	for len(again) > 0 {
		n := again[len(again)-1]
		again = again[:len(again)-1]
		for i := range n.in {
			read(n.in[i].n)
		}
	}
	b.stack = again
	if b.keep {
		return
	}
	for _, n := range b.nodes {
		if b.uses[n.slot] == 0 {
			b.e.drop(n)
		}
		if x := n.handle.Value(); x != nil && b.consumes(n) {
			x.Release()
		}
	}
}

// reads calls f with the nodes whose results n's rule reads.
func (b *backward) reads(n *node, f func(*node)) {
	u := n.needs()
	for i := range n.in {
		if u.has(input(i)) {
			f(n.in[i].n)
		}
	}
	if u.has(output) {
		f(n)
	}
}

// run goes through the nodes; the first error ends it.
func (b *backward) run(g *gradients) error {
	for i, n := range b.nodes {
		up, err := b.total(n, i)
		if err != nil {
			return err
		}
		c := ctx{n: n, at: n.at, run: b, sc: &b.sc, g: dyn{Tensor[Backend]{be: &b.sc, v: up}}}
		err = b.pass(&c)
		b.sc.close()
		if err != nil {
			return fmt.Errorf("autodiff: backward: the gradient of %v: %w", n, err)
		}
		b.grads[i] = nil
		if n.kept.Load() {
			g.add(n, up)
		} else {
			up.Release()
		}
		b.done(n)
	}
	for i, n := range b.leaves {
		up, err := b.total(n, len(b.nodes)+i)
		if err != nil {
			return err
		}
		g.add(n, up)
		b.grads[len(b.nodes)+i] = nil
	}
	return nil
}

// pass hands the gradient of one node on to its inputs.
func (b *backward) pass(c *ctx) error {
	grads, err := rules[c.n.op].apply(c)
	if err != nil {
		return err
	}
	for i, g := range grads {
		p := c.n.in[i].n
		if p == nil {
			continue
		}
		v, err := b.sc.take(g.v)
		if err != nil {
			return err
		}
		at := b.position(p)
		switch {
		case rules[c.n.op].part:
			err = b.addPart(c.n, at, v)
		case b.grads[at] == nil:
			b.grads[at] = v
		default:
			err = b.add(&b.grads[at], v)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// take returns a handle on v that outlives the scope. Gradients of many inputs come in the
// order in which they were made, so the search goes on where the last one ended.
func (s *scope) take(v Value) (Value, error) {
	for range s.made {
		s.taken = (s.taken + 1) % len(s.made)
		if s.made[s.taken] == v {
			s.made[s.taken] = nil
			return v, nil
		}
	}
	return v.Share()
}

// done is told that a node's gradient has been handed on.
func (b *backward) done(n *node) {
	b.reads(n, b.used)
	if b.keep {
		return
	}
	for i := range n.in {
		if v := n.in[i].v; v != nil {
			v.Release()
			n.in[i].v = nil
		}
	}
	if n.aux != nil {
		n.aux.Release()
		n.aux = nil
	}
}

// drop releases a kept result.
func (e *engine) drop(n *node) {
	if n.val == nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	n.val.Release()
	n.val = nil
}
