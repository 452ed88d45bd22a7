//go:build cgo

package main

import (
	"sync"
	"sync/atomic"

	"github.com/isobit-ml/isobit/plans"
)

// entry is a live handle. It is never changed, so that a reader needs no lock
// and a plan that is destroyed while it runs stays whole.
type entry struct {
	plans.Plan
	handle    uint64
	markNames bool // its errors have marks beside names
}

// table maps handles to plans. A handle is a slot's number in its low half and
// the slot's generation, from 1, in its high half.
type table struct {
	slots atomic.Pointer[[]atomic.Pointer[entry]] // replaced by a longer one when full

	mu          sync.Mutex
	generations []uint32
	free        []uint32
}

// get returns what a handle stands for, or nil.
func (t *table) get(handle uint64) *entry {
	slots := t.slots.Load()
	if slots == nil || uint64(uint32(handle)) >= uint64(len(*slots)) {
		return nil
	}
	e := (*slots)[uint32(handle)].Load()
	if e == nil || e.handle != handle {
		return nil
	}
	return e
}

func (t *table) add(plan plans.Plan, markNames bool) uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.free) == 0 {
		t.grow()
	}
	slot := t.free[len(t.free)-1]
	t.free = t.free[:len(t.free)-1]
	t.generations[slot]++
	if t.generations[slot] == 0 {
		t.generations[slot] = 1
	}
	handle := uint64(t.generations[slot])<<32 | uint64(slot)
	(*t.slots.Load())[slot].Store(&entry{plan, handle, markNames})
	return handle
}

// grow doubles the table. Readers of the old slots miss only handles that did
// not exist when they looked.
func (t *table) grow() {
	old := t.slots.Load()
	n := len(t.generations)
	slots := make([]atomic.Pointer[entry], max(64, 2*n))
	for i := range n {
		slots[i].Store((*old)[i].Load())
	}
	t.generations = append(t.generations, make([]uint32, len(slots)-n)...)
	for i := len(slots) - 1; i >= n; i-- {
		t.free = append(t.free, uint32(i))
	}
	t.slots.Store(&slots)
}

// remove ends a handle and reports whether it was one.
func (t *table) remove(handle uint64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.get(handle) == nil {
		return false
	}
	slot := uint32(handle)
	(*t.slots.Load())[slot].Store(nil)
	t.free = append(t.free, slot)
	return true
}
