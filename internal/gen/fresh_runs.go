package main

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Runs of a single strand whose sums begin with 0: accumulators are registers from the first element to the last, and no
// memory is cleared before.

// begins reports whether kernels begin the sums of runs.
func (o *op) begins(isa *isa, v variant) bool {
	return isa.masks && v.code == nil && v.compute == f32 && o.sums > 0 && o.held == nil
}

// prefetchOut asks for what lies a distance behind the output, unless it is stored around the caches: short runs are
// stored in parts of lines, which takes up to 1.15 times as long without.
func (k *kernel) prefetchOut(block int) {
	skip, ahead := k.newLabel("near"), k.c.GP64()
	k.jumpIf("stream", skip)
	k.c.MOVQ(k.field("ahead"), ahead)
	branch(k.c.TESTQ, ahead, ahead, k.c.JEQ, skip)
	for at := 0; at < block*k.out.size; at += lineBytes {
		k.c.PREFETCHT0(operand.Mem{Base: k.ptr["out"], Index: ahead, Scale: 1, Disp: at})
	}
	k.c.Label(skip)
}

// freshRuns handles a call of such runs, if it is one.
func (k *kernel) freshRuns(n, params, steps reg.GPVirtual, block int) {
	c, left, group := k.c, k.c.GP64(), k.group
	other, run, next, rest, done := k.newLabel("other"), k.newLabel("run"), k.newLabel("next"), k.newLabel("rest"), k.newLabel("done")
	k.jumpUnless("fresh", other)
	c.Label(run)
	k.noteRow()
	k.paramsOfRun(params)
	for range k.op.sums {
		v := make(value, stripeLanes/k.lanes)
		for i := range v {
			v[i] = k.vector()
			k.emit("VPXORD", v[i], v[i], v[i])
		}
		k.held = append(k.held, v)
	}
	c.MOVQ(n, left)
	c.Label(next)
	k.prefetch(block)
	k.prefetchOut(block)
	branch(c.CMPQ, left, operand.U32(block), c.JLT, rest)
	k.eachGroup(block, k.op.body)
	k.advanceData(block)
	c.SUBQ(operand.U32(block), left)
	c.JMP(operand.LabelRef(next))
	c.Label(rest)
	k.group, k.remain = 1, left
	for ; k.at < block; k.at += k.lanes {
		branch(c.TESTQ, left, left, c.JLE, done)
		k.maskTail(left)
		k.op.body(k)
		c.SUBQ(operand.Imm(uint64(k.lanes)), left)
	}
	k.group, k.remain, k.tail, k.at = group, nil, nil, 0
	c.Label(done)
	k.release()
	k.forSums(func(name string) { c.ADDQ(operand.U32(2*stripeLanes*k.compute.size), k.ptr[name]) })
	k.leaveRow()
	c.ADDQ(operand.U32(k.compute.size), params)
	c.DECQ(steps)
	c.JNE(operand.LabelRef(run))
	endFunction(c)
	c.Label(other)
}
