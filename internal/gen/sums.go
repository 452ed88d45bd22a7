package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// sum returns where the accumulators of the current group's vector i are.
func (k *kernel) sum(sum, i int) memory {
	return k.pointer(fmt.Sprintf("sum%d", sum), i, k.compute.size)
}

// holds reports whether there are registers for the accumulators of a stripe.
func (k *kernel) holds() bool {
	n := k.op.sums * stripeLanes / k.lanes
	return n > 0 && n <= k.isa.held
}

// holding emits a loop, of which it is given the body, with the accumulators in
// registers where there are enough of them.
func (k *kernel) holding(body func(k *kernel), loop func(body func(k *kernel))) {
	if !k.holds() {
		loop(body)
		return
	}
	k.hold()
	if h := k.op.held; h != nil && !k.double() {
		h.enter(k)
		loop(h.body)
		h.leave(k)
	} else {
		loop(body)
	}
	k.release()
}

// hold takes the accumulators of a stripe into registers: a block would wait
// for what the block before wrote to memory.
func (k *kernel) hold() {
	for sum := range k.op.sums {
		v := make(value, stripeLanes/k.lanes)
		for i := range v {
			v[i] = k.compute.load(k, k.sum(sum, i))
		}
		k.held = append(k.held, v)
	}
}

// release writes the accumulators of a stripe back.
func (k *kernel) release() {
	for sum, v := range k.held {
		for i, r := range v {
			k.emit(k.ps("VMOVU"), r, k.sum(sum, i))
		}
	}
	k.held = nil
}

// fold replaces the elements' accumulators of a sum: old becomes next(old).
func (k *kernel) fold(sum int, next func(old value) value) {
	if k.held != nil {
		held := k.held[sum][k.at/k.lanes:][:k.group]
		for i, r := range next(held) {
			k.emit(k.ps("VMOVA"), r, held[i])
		}
		return
	}
	old := make(value, k.group)
	for i := range old {
		old[i] = k.compute.load(k, k.sum(sum, i))
	}
	for i, r := range next(old) {
		if k.tail != nil {
			k.compute.masked(k, []reg.Register{r}, k.sum(sum, i))
		} else {
			k.emit(k.ps("VMOVU"), r, k.sum(sum, i))
		}
	}
}

// fresh returns terms where a group's elements have not been handled before, the last ones, else +0.
func (k *kernel) fresh(terms value) value {
	to := k.newValue()
	for i := range to {
		var after []operand.Constant // how many come after an element
		for lane := range k.lanes {
			n := (k.group-i)*k.lanes - 1 - lane
			after = append(after, either[operand.Constant](k.double(), operand.U64(n), operand.U32(n)))
		}
		name := fmt.Sprintf("after%d_%d", 8*k.compute.size, k.group-i)
		k.emit(either(k.double(), "VPCMPGTQ", "VPCMPGTD"), k.table(name, after...), k.left, to[i])
		k.emit(k.ps("VAND"), terms[i], to[i], to[i])
	}
	return to
}

// accumulate adds terms to a sum, where a mask holds, if there is one.
func (k *kernel) accumulate(sum int, where mask, terms value) {
	if k.left != nil {
		terms = k.fresh(terms)
	}
	if k.held == nil {
		if where != nil {
			terms = k.keep(where, terms) // no sum is ever -0
		}
		k.fold(sum, func(old value) value { return k.add(old, terms) })
		return
	}
	switch tail := (mask{k.tail}); { // what a tail leaves out is 0, but its terms need not be
	case k.tail != nil && where != nil:
		where = k.both(where, tail)
	case k.tail != nil:
		where = tail
	}
	for i, held := range k.held[sum][k.at/k.lanes:][:k.group] {
		if where != nil {
			k.emit(k.ps("VADD"), terms[i], held, where[i], held)
		} else {
			k.emit(k.ps("VADD"), terms[i], held, held)
		}
	}
}
