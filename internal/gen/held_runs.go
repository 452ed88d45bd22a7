package main

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Runs of a single strand whose sums are held in registers from the first element to the last. Sums begin with 0, or with
// what accumulators hold. In the end they are folded, or accumulators hold them, turned: the lane that the next element
// falls to comes first, so that the group's next run begins there.

// holdsRuns reports whether kernels hold the sums of runs.
func (o *op) holdsRuns(isa *isa, v variant) bool {
	return isa.masks && v.code == nil && v.compute == f32 && o.sums > 0 && o.held == nil
}

// askForRun asks for what lies a distance behind some elements and, unless it is stored around the caches, behind their
// results: short runs are stored in parts of lines, which takes up to 1.15 times as long without.
func (k *kernel) askForRun(elements int) {
	skip, ahead := k.newLabel("near"), k.c.GP64()
	k.c.MOVQ(k.field("ahead"), ahead)
	branch(k.c.TESTQ, ahead, ahead, k.c.JEQ, skip)
	lines := func(name string, t *storage, ask func(operand.Op)) {
		for at := 0; at < elements*t.size; at += lineBytes {
			ask(operand.Mem{Base: k.ptr[name], Index: ahead, Scale: 1, Disp: k.at*t.size + at})
		}
	}
	k.forInputs(func(name string, t *storage) { lines(name, t, k.c.PREFETCHT1) })
	k.jumpIf("stream", skip)
	lines("out", k.out, k.c.PREFETCHT0)
	k.c.Label(skip)
}

// heldRuns handles a call of such runs, if it is one.
func (k *kernel) heldRuns(n, params, steps reg.GPVirtual, block int) {
	c, left, group := k.c, k.c.GP64(), k.group
	other, run, next, rest, done := k.newLabel("other"), k.newLabel("run"), k.newLabel("next"), k.newLabel("rest"), k.newLabel("done")
	turn, over := k.newLabel("turn"), k.newLabel("over")
	k.jumpUnless("held", other)
	k.runsOfVectors(n, params, steps, run)
	c.Label(run)
	k.noteRow()
	k.paramsOfRun(params)
	k.beginSums()
	c.MOVQ(n, left)
	c.Label(next)
	branch(c.CMPQ, left, operand.U32(block), c.JLT, rest)
	k.askForRun(block)
	k.eachGroup(block, k.op.body)
	k.advanceData(block)
	c.SUBQ(operand.U32(block), left)
	c.JMP(operand.LabelRef(next))
	c.Label(rest)
	few := k.newLabel("few")
	k.group = 2
	branch(c.CMPQ, left, operand.Imm(uint64(2*k.lanes)), c.JLT, few)
	k.askForRun(2 * k.lanes)
	k.op.body(k)
	c.SUBQ(operand.Imm(uint64(2*k.lanes)), left)
	k.restOfRun(2*k.lanes, left, done)
	c.JMP(operand.LabelRef(done))
	c.Label(few)
	k.restOfRun(0, left, done)
	k.group = group
	c.Label(done)
	k.jumpUnless("folds", turn)
	k.foldSums()
	c.JMP(operand.LabelRef(over))
	c.Label(turn)
	k.turnSums()
	c.Label(over)
	k.held = nil
	k.forSums(func(name string) { c.ADDQ(operand.U32(2*stripeLanes*k.compute.size), k.ptr[name]) })
	k.leaveRow()
	c.ADDQ(operand.U32(k.compute.size), params)
	c.DECQ(steps)
	c.JNE(operand.LabelRef(run))
	endFunction(c)
	c.Label(other)
}

// runsOfVectors handles runs of a vector each, or less, whose sums begin with 0 and are folded, if these are such.
func (k *kernel) runsOfVectors(n, params, steps reg.GPVirtual, other string) {
	c, group, next, zero := k.c, k.group, k.newLabel("vector"), k.vector()
	branch(c.CMPQ, n, operand.Imm(uint64(k.lanes)), c.JGT, other)
	k.jumpUnless("folds", other)
	k.jumpUnless("fresh", other)
	k.emit("VPXORD", zero, zero, zero)
	k.maskTail(n)
	k.group, k.remain = 1, n
	c.Label(next)
	k.paramsOfRun(params)
	for range k.op.sums {
		v := k.vector()
		k.emit("VMOVDQA64", zero, v)
		k.held = append(k.held, value{v})
	}
	k.askForRun(k.lanes)
	k.op.body(k)
	k.foldSums()
	k.forData(func(name string, _ *storage) { c.ADDQ(k.field(name+"Step"), k.ptr[name]) })
	c.ADDQ(operand.U32(k.compute.size), params)
	c.DECQ(steps)
	c.JNE(operand.LabelRef(next))
	endFunction(c)
	k.group, k.remain, k.tail, k.held = group, nil, nil, nil
}

// restOfRun handles what is left of a run, less than two vectors, from an element on.
func (k *kernel) restOfRun(from int, left reg.GPVirtual, done string) {
	group := k.group
	k.group, k.remain = 1, left
	for k.at = from; k.at < from+2*k.lanes; k.at += k.lanes {
		branch(k.c.TESTQ, left, left, k.c.JLE, done)
		k.askForRun(k.lanes)
		k.maskTail(left)
		k.op.body(k)
		k.c.SUBQ(operand.Imm(uint64(k.lanes)), left)
	}
	k.group, k.remain, k.tail, k.at = group, nil, nil, 0
}

// beginSums takes the sums of a run into registers.
func (k *kernel) beginSums() {
	kept, begun := k.newLabel("kept"), k.newLabel("begun")
	for range k.op.sums {
		v := make(value, stripeLanes/k.lanes)
		for i := range v {
			v[i] = k.vector()
		}
		k.held = append(k.held, v)
	}
	each := func(emit func(sum, i int, r reg.VecVirtual)) {
		for sum, v := range k.held {
			for i, r := range v {
				emit(sum, i, r)
			}
		}
	}
	k.jumpUnless("fresh", kept)
	each(func(_, _ int, r reg.VecVirtual) { k.emit("VPXORD", r, r, r) })
	k.c.JMP(operand.LabelRef(begun))
	k.c.Label(kept)
	each(func(sum, i int, r reg.VecVirtual) { k.emit("VMOVUPS", k.sum(sum, i), r) })
	k.c.Label(begun)
}

// turnSums stores the sums so that a lane comes first: turn is its number within a vector, turnTo where the vector with
// number 0 goes, in bytes.
func (k *kernel) turnSums() {
	c, order, to := k.c, k.vector(), k.c.GP64()
	k.emit("VMOVDQU32", k.laneNumbers(), order)
	c.VPADDD_BCST(k.field("turn"), order, order)
	c.MOVQ(k.field("turnTo"), to)
	for i := range k.held[0] {
		for sum, v := range k.held {
			turned := k.vector()
			k.emit("VMOVDQA64", order, turned)
			k.emit("VPERMI2PS", v[(i+1)%len(v)], v[i], turned)
			m := k.sum(sum, 0).Mem
			m.Index, m.Scale = to, 1
			k.emit("VMOVUPS", turned, m)
		}
		c.ADDQ(operand.U32(k.isa.bytes), to)
		c.ANDQ(operand.U32(stripeLanes*k.compute.size-1), to)
	}
}

// foldSums folds both sums by halves, in the end side by side, and stores what they are.
func (k *kernel) foldSums() {
	c := k.c
	var whole [2]reg.VecVirtual
	for sum, v := range k.held {
		for half := len(v) / 2; half > 0; half /= 2 {
			for i := range half {
				k.emit("VADDPS", v[i+half], v[i], v[i])
			}
		}
		whole[sum] = v[0]
	}
	low, high := k.vector(), k.vector()
	k.emit("VINSERTF64X4", 1, whole[1].AsY(), whole[0], low)
	k.emit("VSHUFF64X2", 0xEE, whole[1], whole[0], high)
	k.emit("VADDPS", high, low, low) // of each sum eight lanes
	k.emit("VSHUFF64X2", 0xB1, low, low, high)
	k.emit("VADDPS", high, low, low)
	k.emit("VPERMILPS", 0x4E, low, high)
	k.emit("VADDPS", high, low, low)
	k.emit("VPERMILPS", 0xB1, low, high)
	k.emit("VADDPS", high, low, low)
	upper := c.YMM()
	k.emit("VEXTRACTF64X4", 1, low, upper)
	for i, total := range []reg.VecVirtual{low, upper} {
		name, to := []string{"total0", "total1"}[i], c.GP64()
		c.MOVQ(k.field(name), to)
		c.VMOVSS(total.AsX(), operand.Mem{Base: to})
		c.ADDQ(operand.U32(k.compute.size), k.field(name))
	}
}
