package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// What a kernel does around its op's body.

// loop handles all whole blocks.
func (k *kernel) loop(n reg.GPVirtual, block int, body func(k *kernel)) {
	c := k.c
	loop, done := k.newLabel("block"), k.newLabel("blocks")
	c.Label(loop)
	branch(c.CMPQ, n, operand.U32(block), c.JLT, done)
	k.prefetch(block)
	k.eachGroup(block, body)
	k.advance(block, true)
	c.SUBQ(operand.U32(block), n)
	c.JMP(operand.LabelRef(loop))
	c.Label(done)
}

// eachGroup handles the groups of a block: in a loop, unless the accumulators of
// each have registers of their own or the body is short.
func (k *kernel) eachGroup(block int, body func(k *kernel)) {
	step, short := k.group*k.lanes, k.op.sums == 0 && !k.op.bounds
	if k.held != nil || short || step == block {
		for k.at = 0; k.at < block; k.at += step {
			body(k)
		}
		k.at = 0
		return
	}
	c, loop := k.c, k.newLabel("group")
	k.index = c.GP64()
	c.XORQ(k.index, k.index)
	c.Label(loop)
	body(k)
	c.ADDQ(operand.U32(step), k.index)
	branch(c.CMPQ, k.index, operand.U32(block), c.JNE, loop)
	k.index = nil
}

// rest handles less than a block.
func (k *kernel) rest(n reg.GPVirtual, block int) {
	k.some(n, block, func(step int) {
		k.parameters()
		k.op.body(k)
		k.advance(step, false)
	})
}

// some handles less than a block, a step at a time: a vector under a mask, or,
// where there are no masks, a group, the last of which may begin with elements
// that were handled before.
func (k *kernel) some(n reg.GPVirtual, block int, body func(step int)) {
	c, group := k.c, k.group
	step := group * k.lanes
	if k.isa.masks {
		step, k.group = k.lanes, 1
	} else if step == block && !k.repeats {
		return
	}
	loop, done := k.newLabel("some"), k.newLabel("done")
	c.Label(loop)
	branch(c.TESTQ, n, n, c.JLE, done)
	if k.isa.masks {
		k.maskTail(n)
	}
	if k.repeats {
		k.stepBack(n, step)
	}
	body(step)
	c.SUBQ(operand.U32(step), n)
	c.JMP(operand.LabelRef(loop))
	c.Label(done)
	k.group, k.tail = group, nil
}

// stepBack moves back to a whole step, where n is less. Accumulators move along.
func (k *kernel) stepBack(n reg.GPVirtual, step int) {
	c, whole := k.c, k.newLabel("whole")
	if k.op.sums > 0 {
		k.left = k.vector()
		c.VMOVQ(n, k.left.AsX())
		k.emit(either(k.double(), "VPBROADCASTQ", "VPBROADCASTD"), k.left.AsX(), k.left)
	}
	branch(c.CMPQ, n, operand.U32(step), c.JGE, whole)
	c.SUBQ(operand.U32(step), n)
	back := func(name string, size int) {
		c.LEAQ(operand.Mem{Base: k.ptr[name], Index: n, Scale: uint8(size)}, k.ptr[name])
	}
	k.forData(func(name string, t *storage) { back(name, t.size) })
	k.forSums(func(name string) { back(name, k.compute.size) })
	c.MOVQ(operand.U32(step), n)
	c.Label(whole)
}

// row begins a row of elements.
func (k *kernel) row() {
	k.c.Label("row")
	k.noteRow()
}

// noteRow notes where a row begins.
func (k *kernel) noteRow() {
	k.forData(func(name string, _ *storage) { k.c.MOVQ(k.ptr[name], k.field(name+"Row")) })
}

// leaveRow moves on to where the next one does.
func (k *kernel) leaveRow() {
	k.forData(func(name string, _ *storage) {
		k.c.MOVQ(k.field(name+"Row"), k.ptr[name])
		k.c.ADDQ(k.field(name+"Step"), k.ptr[name])
	})
}

// nextRow goes back to row if there are more rows.
func (k *kernel) nextRow(n reg.GPVirtual) {
	k.c.DECQ(k.field("rows"))
	k.c.JLE(operand.LabelRef("last"))
	k.leaveRow()
	for _, name := range k.paramNames() {
		k.c.MOVQ(k.field(name), k.ptr[name])
	}
	k.c.Load(k.c.Param("n"), n)
	k.c.JMP(operand.LabelRef("row"))
	k.c.Label("last")
}

// maskTail makes the next group a tail of n elements, or a whole vector if there
// are more: of n, less than 256, the lowest byte counts.
func (k *kernel) maskTail(n reg.GPVirtual) {
	k.tail = k.c.K()
	bits := k.c.GP64()
	k.c.MOVQ(operand.I64(-1), bits)
	k.c.BZHIQ(n, bits, bits)
	k.c.KMOVW(bits.As32(), k.tail)
}

// pointers loads the addresses of the operands in use.
func (k *kernel) pointers() {
	load := func(name string) {
		k.ptr[name] = k.c.GP64()
		k.c.MOVQ(k.field(name), k.ptr[name])
	}
	k.forData(func(name string, _ *storage) { load(name) })
	for _, name := range k.paramNames() {
		load(name)
	}
	k.forSums(load)
	if k.codes != nil {
		load("float8")
	}
}

// forSums ranges over the sets of accumulators.
func (k *kernel) forSums(body func(name string)) {
	for i := range k.op.sums {
		body(fmt.Sprintf("sum%d", i))
	}
}

// forInputs ranges over the data inputs.
func (k *kernel) forInputs(body func(name string, t *storage)) {
	for i, t := range k.in {
		if t != nil {
			body(fmt.Sprintf("in%d", i), t)
		}
	}
}

// forData ranges over the data operands.
func (k *kernel) forData(body func(name string, t *storage)) {
	k.forInputs(body)
	if k.out != nil {
		body("out", k.out)
	}
}

// advanceData moves the pointers to data operands on.
func (k *kernel) advanceData(elements int) {
	k.forData(func(name string, t *storage) { k.c.ADDQ(operand.I32(elements*t.size), k.ptr[name]) })
}

func (k *kernel) paramNames() []string { return []string{"scale", "zero"}[:k.op.params] }

// uniform fills the registers of parameters with the first of each, which
// holds for all elements unless there is one for each.
func (k *kernel) uniform() {
	for _, name := range k.paramNames() {
		first := k.ptr[name]
		if k.param[name] != nil { // the pointer has moved on
			first = k.c.GP64()
			k.c.MOVQ(k.field(name), first)
		}
		for _, r := range k.registersOf(name, k.group) {
			k.emit(k.broadcast(), operand.Mem{Base: first}, r)
		}
	}
	if k.op.bounds {
		k.bounds()
	}
}

// bounds fills the registers of the codes' bounds.
func (k *kernel) bounds() {
	for _, name := range []string{"lo", "hi"} {
		k.emit(k.broadcast(), k.field(name), k.registersOf(name, 1)[0])
	}
}

// registersOf returns the registers of a parameter, new ones if it has none yet.
func (k *kernel) registersOf(name string, group int) value {
	for len(k.param[name]) < group {
		k.param[name] = append(k.param[name], k.vector())
	}
	return k.param[name]
}

func (k *kernel) broadcast() string {
	if k.double() {
		return "VBROADCASTSD"
	}
	return "VBROADCASTSS"
}

// parameters loads those of the current group, where there is one for each
// element.
func (k *kernel) parameters() {
	for _, name := range k.paramNames() {
		k.parameter(name)
	}
}

// parameter loads one of them.
func (k *kernel) parameter(name string) {
	loaded := k.newLabel("loaded")
	k.jumpUnless(name+"s", loaded)
	for i := range k.group {
		k.fetch(k.ps("VMOVU"), k.pointer(name, i, k.compute.size), k.param[name][i])
	}
	k.c.Label(loaded)
}

// prefetch asks for what lies a distance behind the data inputs of a block.
func (k *kernel) prefetch(block int) {
	skip, ahead := k.newLabel("near"), k.c.GP64()
	k.c.MOVQ(k.field("ahead"), ahead)
	branch(k.c.TESTQ, ahead, ahead, k.c.JEQ, skip)
	for i, t := range k.in {
		if t == nil {
			continue
		}
		for at := 0; at < block*t.size; at += 64 {
			k.c.PREFETCHT1(operand.Mem{Base: k.ptr[fmt.Sprintf("in%d", i)], Index: ahead, Scale: 1, Disp: at})
		}
	}
	k.c.Label(skip)
}

// advance moves the pointers on. Accumulators of a stripe come round after a
// whole block.
func (k *kernel) advance(elements int, block bool) {
	c := k.c
	add := func(name string, size int) { c.ADDQ(operand.U32(elements*size), k.ptr[name]) }
	k.advanceData(elements)
	for _, name := range k.paramNames() {
		add(name, k.compute.size)
	}
	if k.op.sums == 0 || k.held != nil {
		return
	}
	stay := k.newLabel("stay")
	if block {
		k.jumpUnless("wide", stay)
	}
	k.forSums(func(name string) { add(name, k.compute.size) })
	if block {
		c.Label(stay)
	}
}

// while emits a loop that takes a step off n, body for each, as long as there is
// something left, and names its begin and its end.
func while(c *build.Context, n reg.GPVirtual, step int, begin, end string, body func()) {
	c.Label(begin)
	branch(c.TESTQ, n, n, c.JLE, end)
	body()
	if step == 1 {
		c.DECQ(n)
	} else {
		c.SUBQ(operand.Imm(uint64(step)), n)
	}
	c.JMP(operand.LabelRef(begin))
	c.Label(end)
}

// inSteps emits the rest of a function that takes its n elements in steps: body
// for each.
func inSteps(c *build.Context, step int, body func()) {
	while(c, param(c, "n"), step, "next", "done", body)
	endFunction(c)
}
