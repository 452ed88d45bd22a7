package main

import (
	"math/bits"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Strands are runs of equal length at equal distances, side by side: a kernel
// takes a block of each in turn. So the processor follows several places in
// memory, which hides how long it looks for the next page of one of them. Many
// runs of each follow in one call, a step each, with a scale, a zero point and
// accumulators of their own: between calls nobody asks for memory. Kernels with
// sums take one strand.

// runParams is the parameters of every run of a call.
var runParams = newStruct("runParams", "is the parameters of many runs.", []field{
	{"scale", "[maxRuns]float64", "as numbers of the compute type, one after the other"},
	{"zero", "[maxRuns]float64", ""},
	{"first", "[maxRuns]float32", "what quick codes are made of"},
	{"last", "[maxRuns]float32", ""},
	{"inverse", "[maxRuns]float32", ""},
	{"rest", "[maxRuns]float32", ""},
})

// maxRuns is how many runs a kernel handles in one call at most.
const maxRuns = 128

// strands handles a call with strands, if this is one: of each step, which is
// a run of every strand, all elements.
func (k *kernel) strands(n reg.GPVirtual, block int, quick, heads bool) {
	c, one, steps := k.c, k.newLabel("one"), k.c.GP64()
	c.MOVQ(k.field("steps"), steps)
	branch(c.TESTQ, steps, steps, c.JEQ, one)
	params := c.GP64()
	c.MOVQ(k.field("params"), params)
	if k.op.bounds && !k.boundsOfRun() {
		k.bounds()
	}
	if k.op.sums == 0 && !k.op.chooses {
		k.oneStrand(n, params, steps, quick, heads)
	}
	if k.op.holdsRuns(k.isa, variant{compute: k.compute}) {
		k.heldRuns(n, params, steps, block)
	}
	step, done := k.newLabel("step"), k.newLabel("steps")
	c.Label(step)
	k.noteRow()
	if k.op.chooses {
		k.choose(n, params, block)
	}
	rest, aligned, some := c.GP64(), k.newLabel("aligned"), k.newLabel("some")
	if heads {
		if k.isa.masks {
			k.head(n, rest, aligned, some)
		} else {
			k.headStep(n, params, block, aligned)
		}
		c.Label(aligned)
	}
	if quick {
		divide := k.newLabel("divide")
		k.jumpUnless("quick", divide)
		k.quick = k.newQuick()
		k.quickly(func() { k.strandBlocks(n, params, block, k.op.quick) })
		c.Label(divide)
	}
	if k.op.body != nil {
		k.strandBlocks(n, params, block, k.op.body)
		c.Label(some)
		k.someOfStrands(n, params, block)
	}
	if heads && k.isa.masks {
		k.endHead(n, rest, aligned)
	}
	c.DECQ(steps)
	c.JEQ(operand.LabelRef(done))
	k.leaveRow()
	k.forSums(func(name string) { c.ADDQ(k.field("sumStep"), k.ptr[name]) })
	c.ADDQ(k.field("paramsStep"), params)
	c.Load(c.Param("n"), n)
	c.JMP(operand.LabelRef(step))
	c.Label(done)
	endFunction(c)
	c.Label(one)
	k.param = map[string]value{}
}

// someOfStrands handles a few elements of each strand.
func (k *kernel) someOfStrands(n, params reg.GPVirtual, block int) {
	c := k.c
	if !k.isa.masks {
		k.endOfStrands(n, params, block)
		return
	}
	k.some(n, block, func(elements int) {
		k.prefetch(elements)
		k.eachStrand(params, func() {
			k.op.body(k)
			k.forData(func(name string, _ *storage) { c.ADDQ(k.field(name+"Visit"), k.ptr[name]) })
		})
		k.forData(func(name string, _ *storage) { c.SUBQ(k.field(name+"Visit"), k.ptr[name]) })
		k.advanceData(elements)
		k.forSums(func(name string) { c.ADDQ(operand.U32(elements*k.compute.size), k.ptr[name]) })
	})
}

// endOfStrands is someOfStrands without masks: of each strand the last elements, one step after the other.
func (k *kernel) endOfStrands(n, params reg.GPVirtual, block int) {
	c, none, left := k.c, k.newLabel("none"), k.c.GP64()
	branch(c.TESTQ, n, n, c.JEQ, none)
	k.repeats = k.op.repeats(k.isa)
	k.eachStrand(params, func() {
		c.MOVQ(n, left)
		k.some(left, block, func(elements int) {
			k.prefetch(elements)
			k.op.body(k)
			k.advanceData(elements)
			k.forSums(func(name string) { c.ADDQ(operand.U32(elements*k.compute.size), k.ptr[name]) })
		})
		k.forData(func(name string, t *storage) { // as if it had been a visit
			bytes := c.GP64()
			c.IMUL3Q(operand.Imm(uint64(t.size)), n, bytes)
			c.ADDQ(k.field(name+"Visit"), k.ptr[name])
			c.SUBQ(bytes, k.ptr[name])
		})
	})
	k.repeats, k.left = false, nil
	c.Label(none)
}

// hasHeads reports whether kernels store around the caches in runs that do not
// begin at a cache line. Sums would have to be rotated to begin there, too.
// Without masks a step is as long as the longest head.
func (o *op) hasHeads(isa *isa, v variant) bool {
	has := o.hasStrands(isa, v) && o.sums == 0 && v.out != nil
	return has && (isa.masks || o.step(isa, v)*v.out.size >= 64)
}

// head makes n the number of elements before the first cache line of a run, which lies
// alike in all strands, rest what comes after, and jumps to what handles some elements.
// Where there is no head, rest is negative.
func (k *kernel) head(n, rest reg.GPVirtual, aligned, some string) {
	c, count := k.c, k.c.GP64()
	c.MOVQ(operand.I32(-1), rest)
	k.jumpUnless("heads", aligned)
	k.beforeLine(count)
	c.CMPQ(count, n)
	c.CMOVQGT(n, count)
	c.SUBQ(count, n)
	c.MOVQ(n, rest)
	c.MOVQ(count, n)
	c.JMP(operand.LabelRef(some))
}

// endHead goes on with what comes after a head, if this was one: its last vector went
// too far, n is below 0 by as much.
func (k *kernel) endHead(n, rest reg.GPVirtual, aligned string) {
	c, whole := k.c, k.newLabel("whole")
	branch(c.TESTQ, rest, rest, c.JL, whole)
	k.forData(func(name string, t *storage) {
		c.LEAQ(operand.Mem{Base: k.ptr[name], Index: n, Scale: uint8(t.size)}, k.ptr[name])
	})
	c.MOVQ(rest, n)
	c.MOVQ(operand.I32(-1), rest)
	c.JMP(operand.LabelRef(aligned))
	c.Label(whole)
}

// headStep handles, without masks, what comes before the first cache line of a run: a whole step, which goes on
// behind that. Runs of less than a block are not stored around the caches.
func (k *kernel) headStep(n, params reg.GPVirtual, block int, aligned string) {
	c, count := k.c, k.c.GP64()
	k.jumpUnless("heads", aligned)
	branch(c.CMPQ, n, operand.U32(block), c.JLT, aligned)
	k.beforeLine(count)
	branch(c.TESTQ, count, count, c.JEQ, aligned)
	c.SUBQ(count, n)
	k.repeats = true
	k.eachStrand(params, func() {
		k.op.body(k)
		k.forData(func(name string, _ *storage) { c.ADDQ(k.field(name+"Visit"), k.ptr[name]) })
	})
	k.repeats = false
	k.forData(func(name string, t *storage) {
		c.SUBQ(k.field(name+"Visit"), k.ptr[name])
		c.LEAQ(operand.Mem{Base: k.ptr[name], Index: count, Scale: uint8(t.size)}, k.ptr[name])
	})
}

// beforeLine counts the elements before the first cache line of the output.
func (k *kernel) beforeLine(count reg.GPVirtual) {
	k.c.MOVQ(k.ptr["out"], count)
	k.c.NEGQ(count)
	k.c.ANDQ(operand.Imm(63), count)
	k.c.SHRQ(operand.Imm(uint64(bits.TrailingZeros(uint(k.out.size)))), count)
}

// strandBlocks handles all whole turns of a step.
func (k *kernel) strandBlocks(n, params reg.GPVirtual, block int, body func(k *kernel)) {
	c, left := k.c, k.c.GP64()
	k.split = k.splits()
	loop, next, done := k.newLabel("turn"), k.newLabel("block"), k.newLabel("turns")
	c.Label(loop)
	branch(c.CMPQ, n, k.field("visit"), c.JLT, done)
	k.eachStrand(params, func() {
		c.MOVQ(k.field("visit"), left)
		k.holding(body, func(body func(k *kernel)) { k.wholeBlocks(next, left, block, body) })
	})
	c.SUBQ(k.field("visit"), n)
	c.JMP(operand.LabelRef(loop))
	c.Label(done)
	k.split = false
}

// wholeBlocks emits a loop over the blocks that are left, one at least.
func (k *kernel) wholeBlocks(next string, left reg.GPVirtual, block int, body func(k *kernel)) {
	k.c.Label(next)
	k.prefetch(block)
	k.eachGroup(block, body)
	k.advanceData(block)
	k.c.SUBQ(operand.U32(block), left)
	k.c.JNE(operand.LabelRef(next))
}

// eachStrand emits what happens to each strand in a turn, after its parameters
// are loaded, and which moves the pointers on by a visit: the call's distances
// take that back, from a strand to the next, and leave it in the end.
func (k *kernel) eachStrand(params reg.GPVirtual, body func()) {
	c, left, of, next := k.c, k.c.GP64(), k.c.GP64(), k.newLabel("strand")
	c.MOVQ(k.field("strands"), left)
	c.MOVQ(params, of)
	c.Label(next)
	k.paramsOfRun(of)
	body()
	k.forData(func(name string, _ *storage) { c.ADDQ(k.field(name+"Apart"), k.ptr[name]) })
	c.ADDQ(operand.U32(k.compute.size), of)
	c.DECQ(left)
	c.JNE(operand.LabelRef(next))
	k.forData(func(name string, _ *storage) { c.SUBQ(k.field(name+"Turn"), k.ptr[name]) })
}

// boundsOfRun reports whether bounds are loaded for each run, to which they become relative: without masks there are no
// registers for both.
func (k *kernel) boundsOfRun() bool { return k.op.relative && !k.isa.masks }

// paramsOfRun fills the registers of parameters with those of a run.
func (k *kernel) paramsOfRun(of reg.GPVirtual) {
	at := func(name string) operand.Mem {
		return operand.Mem{Base: of, Disp: runParams.offset(name)}
	}
	for _, name := range k.paramNames() {
		r := k.vector()
		k.emit(k.broadcast(), at(name), r)
		k.param[name] = nil
		for range k.group {
			k.param[name] = append(k.param[name], r)
		}
	}
	if k.op.relative {
		if k.boundsOfRun() {
			delete(k.param, "lo")
			delete(k.param, "hi")
			k.bounds()
		}
		group := k.group
		k.group = 1
		delete(k.param, "first")
		delete(k.param, "last")
		k.param["first"], k.param["last"] = k.first(), k.last()
		k.group = group
	}
	if q := k.quick; q != nil {
		k.emit("VBROADCASTSS", at("first"), q.first)
		k.emit("VBROADCASTSS", at("last"), q.last)
		k.emit("VBROADCASTSS", at("inverse"), q.inverse)
		k.emit("VBROADCASTSS", at("rest"), q.rest)
		k.makeZeros(k.param["zero"][0])
	}
}
