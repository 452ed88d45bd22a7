package autodiff

import (
	"fmt"
	"iter"
	"sync/atomic"

	"github.com/isobit-ml/isobit/tensor"
)

// variable is Autodiff's Value: a tensor of the inner backend and, if it is
// tracked, its place in a graph.
type variable struct {
	e    *engine
	info Info
	node *node
	// value is the inner backend's tensor. A strategy that computes again may
	// set it aside (nil) where the graph can bring it back: see hold. It is
	// guarded by engine.mu then.
	value    Value
	version  int64        // of value's elements, when they were computed
	holds    atomic.Int32 // how many need value where it is
	stays    atomic.Bool  // value is not set aside: it was seen by View, or cannot be brought back
	released atomic.Bool  // value goes with the last that holds it
	gone     atomic.Bool
}

// String names the tensor as errors do.
func (v *variable) String() string {
	if v.node != nil {
		return v.node.String()
	}
	return v.info.String()
}

// DType returns the element type.
func (v *variable) DType() tensor.DType { return v.info.DType }

// Shape returns the extents.
func (v *variable) Shape() []int64 { return v.info.Shape }

// Alone reports false: a graph may need the elements.
func (v *variable) Alone() bool { return false }

// Version counts changes in place. Results never change; what shares its
// elements with a leaf or a constant changes with it.
func (v *variable) Version() int64 {
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

// shares reports whether the elements are another's, too. What is set aside was
// computed, so that nobody shares it.
func (v *variable) shares(other Value) bool {
	o, ok := other.(*variable)
	if !ok {
		return false
	}
	x, y := v.now(), o.now()
	return x != nil && y != nil && sharing(x, y)
}

// nodesOf goes through a tensor's places in the graphs of its backend and of those within.
func nodesOf(v Value) iter.Seq[*node] {
	return func(yield func(*node) bool) {
		for {
			x, ok := v.(*variable)
			if !ok || x.node != nil && !yield(x.node) {
				return
			}
			v = x.now()
		}
	}
}

// now returns the elements unless they are set aside.
func (v *variable) now() Value {
	v.e.mu.Lock()
	defer v.e.mu.Unlock()
	return v.value
}

// check returns the error of using a released tensor.
func (v *variable) check() error {
	if !v.released.Load() {
		return nil
	}
	if v.node != nil && v.node.state.Load() == freed {
		return fmt.Errorf("%v was freed by Backward, with the graph that it was part of: Keep it before, to use its value afterwards", v)
	}
	return fmt.Errorf("%v: %w", v, errReleased)
}

// Share returns another handle, at the same place in the graph.
func (v *variable) Share() (Value, error) {
	inner, err := v.hold()
	if err != nil {
		return nil, fmt.Errorf("autodiff: %w", err)
	}
	defer v.letGo()
	if inner, err = inner.Share(); err != nil {
		return nil, err
	}
	return &variable{e: v.e, info: v.info, value: inner, version: v.version, node: v.node}, nil
}

// Release ends this handle.
func (v *variable) Release() {
	if v.released.CompareAndSwap(false, true) && v.holds.Load() == 0 {
		v.free()
	}
}

// free releases the elements, once.
func (v *variable) free() {
	if !v.gone.CompareAndSwap(false, true) {
		return
	}
	v.e.mu.Lock()
	defer v.e.mu.Unlock()
	if v.value != nil {
		v.value.Release()
	}
}

// hold returns the inner backend's tensor, brought back if it was set aside,
// and keeps it where it is until letGo, whoever releases v meanwhile.
func (v *variable) hold() (value Value, err error) {
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

func (v *variable) present() (Value, error) {
	if !v.e.keep.again {
		return v.value, nil
	}
	v.e.mu.Lock()
	defer v.e.mu.Unlock()
	if v.value == nil {
		value, err := v.e.bringBack(v.node, nil)
		if err != nil {
			return nil, err
		}
		v.value, v.version = value, value.Version()
		v.e.aside.add(v)
	}
	return v.value, nil
}

func (v *variable) letGo() {
	if v.holds.Add(-1) == 0 && v.released.Load() {
		v.free()
	}
}
