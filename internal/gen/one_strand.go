package main

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Runs of a single strand are taken a step at a time, with little between one and the next, so that short ones pay.
// Without masks the last step of a run ends where that does, and may begin with elements that were mapped before; with
// masks see masked_run.go.

// oneStrand handles a call of such runs, if it is one. Those with heads are left to turns, unless they share lines.
func (k *kernel) oneStrand(n, params, steps reg.GPVirtual, quick, heads bool) {
	other := k.newLabel("other")
	shared := k.newLabel("shared")
	if k.shares = heads; heads {
		k.jumpIf("shares", shared)
	}
	if k.joins() {
		k.jumpIf("joins", shared)
	}
	k.jumpIf("heads", other)
	if k.isa.masks { // turns take whole steps from memory up to 1.2 times as fast
		k.jumpUnless("stream", shared)
		branch(k.c.TESTQ, operand.U32(k.group*k.lanes-1), n, k.c.JEQ, other)
	}
	k.c.Label(shared)
	branch(k.c.CMPQ, k.field("strands"), operand.Imm(1), k.c.JNE, other)
	if quick {
		divide := k.newLabel("divide")
		k.jumpUnless("quick", divide)
		k.quick = k.newQuick()
		k.quickly(func() { k.runsInSteps(n, params, steps, other, k.op.quick) })
		k.c.Label(divide)
	}
	k.runsInSteps(n, params, steps, other, k.op.body)
	k.c.Label(other)
}

// runsInSteps handles all runs. Without masks it leaves those that are shorter than a step, or stored around the caches and
// no whole steps.
func (k *kernel) runsInSteps(n, params, steps reg.GPVirtual, other string, body func(k *kernel)) {
	c, step, last, ahead := k.c, k.group*k.lanes, k.c.GP64(), k.c.GP64()
	near, run := k.newLabel("near"), k.newLabel("run")
	if !k.isa.masks {
		branch(c.CMPQ, n, operand.U32(step), c.JLT, other)
		k.jumpUnless("stream", near)
		if k.shares {
			k.jumpIf("shares", near)
		}
		branch(c.TESTQ, operand.U32(step-1), n, c.JNE, other)
		c.Label(near)
	}
	c.LEAQ(operand.Mem{Base: n, Disp: -step}, last)
	c.MOVQ(k.field("ahead"), ahead)
	begin := map[string]reg.GPVirtual{}
	k.forInputs(func(name string, _ *storage) {
		begin[name] = c.GP64()
		c.MOVQ(k.ptr[name], begin[name])
	})
	k.split, k.setsAside = k.splits(), true
	if k.joins() {
		k.beginLines()
	}
	c.Label(run)
	k.paramsOfRun(params)
	if k.isa.masks {
		k.runUnderMasks(n, last, steps, ahead, body)
	} else {
		k.runInSteps(n, last, steps, ahead, body)
	}
	k.forInputs(func(name string, _ *storage) {
		c.ADDQ(k.field(name+"Step"), begin[name])
		c.MOVQ(begin[name], k.ptr[name])
	})
	c.ADDQ(k.field("outStep"), k.ptr["out"])
	c.ADDQ(operand.U32(k.compute.size), params)
	c.DECQ(steps)
	c.JNE(operand.LabelRef(run))
	if k.joined != nil {
		k.endLines()
	}
	endFunction(c)
	k.emitAside()
	k.index, k.joined, k.split = nil, nil, false
}

// runInSteps handles one of them without masks.
func (k *kernel) runInSteps(n, last, steps, ahead reg.GPVirtual, body func(k *kernel)) {
	c, step, next, done := k.c, k.group*k.lanes, k.newLabel("step"), k.newLabel("done")
	kept := k.keepEnds(last, step)
	k.index = c.GP64()
	c.XORQ(k.index, k.index)
	lines := k.sharedLines(n, last, steps, step, next, done)
	lines.begin()
	c.Label(next)
	k.ask(ahead, step)
	body(k)
	c.ADDQ(operand.U32(step), k.index)
	branch(c.CMPQ, k.index, last, c.JLE, next)
	lines.goOn()
	branch(c.CMPQ, k.index, n, c.JEQ, done)
	c.MOVQ(last, k.index)
	if len(kept) > 0 {
		k.where("replaces", "ends", "end", func() {}, func() { k.toEnds(kept, last) })
	}
	c.JMP(operand.LabelRef(next))
	c.Label(done)
}

// ask is prefetch in a loop over steps, aside: where nothing lies ahead the loop never jumps.
func (k *kernel) ask(ahead reg.GPVirtual, step int) {
	some, done := k.newLabel("some"), k.newLabel("asked")
	branch(k.c.TESTQ, ahead, ahead, k.c.JNE, some)
	k.c.Label(done)
	k.aside = append(k.aside, func() {
		k.c.Label(some)
		k.forInputs(func(name string, t *storage) {
			from := k.c.GP64()
			k.c.LEAQ(operand.Mem{Base: k.ptr[name], Index: ahead, Scale: 1}, from)
			for at := 0; at < step*t.size; at += 64 {
				k.c.PREFETCHT1(operand.Mem{Base: from, Index: k.index, Scale: uint8(t.size), Disp: at})
			}
		})
		k.c.JMP(operand.LabelRef(done))
	})
}

// keepEnds copies the inputs of a run's last step, where results take the place of elements. It returns where to, for
// those that have a result's size: no others may be replaced.
func (k *kernel) keepEnds(last reg.GPVirtual, step int) map[string]operand.Mem {
	kept := map[string]operand.Mem{}
	k.forInputs(func(name string, t *storage) {
		if t.size == k.out.size {
			kept[name] = k.roomForEnd(name, step*t.size)
		}
	})
	if len(kept) == 0 {
		return kept
	}
	k.where("replaces", "keep", "kept", func() {}, func() {
		k.forInputs(func(name string, t *storage) {
			for at := 0; at < step*t.size && t.size == k.out.size; at += k.isa.bytes {
				v := k.vector()
				k.emit("VMOVDQU", operand.Mem{Base: k.ptr[name], Index: last, Scale: uint8(t.size), Disp: at}, v)
				k.emit("VMOVDQU", v, kept[name].Offset(at))
			}
		})
	})
	return kept
}

// roomForEnd returns memory for the last step of an input.
func (k *kernel) roomForEnd(name string, bytes int) operand.Mem {
	room, ok := k.ends[name]
	if !ok {
		room = k.c.AllocLocal(bytes)
		k.ends[name] = room
	}
	return room
}

// toEnds moves inputs to where their copies are a last step further on.
func (k *kernel) toEnds(kept map[string]operand.Mem, last reg.GPVirtual) {
	k.forInputs(func(name string, t *storage) {
		if room, ok := kept[name]; ok {
			before := k.c.GP64()
			k.c.IMUL3Q(operand.I32(-t.size), last, before)
			k.c.LEAQ(room, k.ptr[name])
			k.c.ADDQ(before, k.ptr[name])
		}
	})
}

// where emits what is done where one of the call's flags is set, between two labels, and what is else: in line, or
// aside, behind a loop that never jumps then.
func (k *kernel) where(flag, begin, end string, otherwise, set func()) {
	begin, end = k.newLabel(begin), k.newLabel(end)
	k.jumpIf(flag, begin)
	otherwise()
	if k.setsAside {
		k.c.Label(end)
		k.aside = append(k.aside, func() {
			k.c.Label(begin)
			set()
			k.c.JMP(operand.LabelRef(end))
		})
		return
	}
	k.c.JMP(operand.LabelRef(end))
	k.c.Label(begin)
	set()
	k.c.Label(end)
}

// emitAside emits what was left aside.
func (k *kernel) emitAside() {
	for _, emit := range k.aside {
		emit()
	}
	k.aside, k.setsAside = nil, false
}
