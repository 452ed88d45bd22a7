package main

import (
	"math/bits"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Runs of any length that follow one another, stored around the caches without masks: all whole lines are. A line that
// ends a run and begins the next is put together in memory that stays in the first cache. So a run is taken in three legs:
// a step for its first part of a line, whole lines, and a step for its last part, which begins with elements that were
// mapped before. What the call's first and last runs share with others is stored as usual.

// sharedLines emits what a loop over the steps of such runs does between legs, all of it aside.
type sharedLines struct {
	*kernel
	n, last, steps reg.GPVirtual // as in runsInSteps; in the first leg last is negative, in the last one stream is unset
	step           int
	next, done     string
	room           operand.Mem // the line, with room for a step before and after
}

func (k *kernel) sharedLines(n, last, steps reg.GPVirtual, step int, next, done string) *sharedLines {
	l := &sharedLines{k, n, last, steps, step, next, done, operand.Mem{}}
	if k.shares {
		if step*k.out.size > lineBytes {
			panic("a step is more than a line: " + k.op.name)
		}
		l.room = k.roomForEnd("line", 3*lineBytes)
	}
	return l
}

// begin begins a run, with the first leg if it begins within a line.
func (l *sharedLines) begin() {
	if !l.shares {
		return
	}
	c, share, begun := l.c, l.newLabel("share"), l.newLabel("begun")
	l.jumpIf("shares", share)
	c.Label(begun)
	l.aside = append(l.aside, func() {
		c.Label(share)
		within := l.withinLine(l.ptr["out"])
		c.JEQ(operand.LabelRef(begun))
		c.MOVQ(operand.I32(-1), l.last)
		l.away()
		l.jumpUnless("begun", begun)
		l.toRoom(within)
		c.JMP(operand.LabelRef(begun))
	})
}

// goOn goes on with the next leg, or the next run.
func (l *sharedLines) goOn() {
	if !l.shares {
		return
	}
	c, leg := l.c, l.newLabel("leg")
	l.jumpIf("shares", leg)
	l.aside = append(l.aside, func() {
		first, rest, last := l.newLabel("first"), l.newLabel("rest"), l.newLabel("last")
		c.Label(leg)
		branch(c.TESTQ, l.last, l.last, c.JL, first)
		l.jumpUnless("stream", last)
		c.Label(rest)
		l.lastLeg()
		c.Label(first)
		l.endFirst()
		c.JMP(operand.LabelRef(rest))
		c.Label(last)
		l.back()
		c.JMP(operand.LabelRef(l.done))
	})
}

// lastLeg begins the last leg, unless the run ends with a line. In the call's last run results go where they belong.
func (l *sharedLines) lastLeg() {
	c := l.c
	branch(c.CMPQ, l.index, l.n, c.JEQ, l.done)
	c.MOVQ(l.last, l.index)
	l.away()
	branch(c.CMPQ, l.steps, operand.Imm(1), c.JEQ, l.next)
	c.MOVB(operand.U8(1), l.field("begun"))
	end, bytes := c.GP64(), c.GP64()
	c.MOVQ(l.n, bytes)
	c.SHLQ(l.shift(), bytes)
	c.LEAQ(operand.Mem{Base: l.ptr["out"], Index: bytes, Scale: 1}, end)
	l.toRoom(l.withinLine(end))
	c.SUBQ(bytes, l.ptr["out"])
	c.JMP(operand.LabelRef(l.next))
}

// endFirst ends the first leg, stores the line if the run before has begun it, and begins the second leg, if there is one.
func (l *sharedLines) endFirst() {
	c, alone := l.c, l.newLabel("alone")
	l.back()
	c.LEAQ(operand.Mem{Base: l.n, Disp: -l.step}, l.last)
	within := l.withinLine(l.ptr["out"])
	c.MOVQ(operand.U32(lineBytes), l.index)
	c.SUBQ(within, l.index)
	c.SHRQ(l.shift(), l.index)
	l.jumpUnless("begun", alone)
	c.MOVB(operand.U8(0), l.field("begun"))
	line := c.GP64()
	c.MOVQ(l.ptr["out"], line)
	c.SUBQ(within, line)
	for at := 0; at < lineBytes; at += l.isa.bytes {
		v := l.vector()
		l.emit("VMOVDQU", l.room.Offset(lineBytes+at), v)
		l.emit("VMOVNTDQ", v, operand.Mem{Base: line, Disp: at})
	}
	c.Label(alone)
	branch(c.CMPQ, l.index, l.last, c.JLE, l.next)
}

// withinLine returns how many bytes of a line lie before an address. Flags say whether there are any.
func (k *kernel) withinLine(at reg.Register) reg.GPVirtual {
	within := k.c.GP64()
	k.c.MOVQ(at, within)
	k.c.ANDQ(operand.Imm(lineBytes-1), within)
	return within
}

// toRoom has what would be stored so many bytes within a line be stored there in the room.
func (l *sharedLines) toRoom(within reg.GPVirtual) {
	l.c.LEAQ(l.room.Offset(lineBytes), l.ptr["out"])
	l.c.ADDQ(within, l.ptr["out"])
}

// away begins a leg whose results are stored as usual, maybe in the room: it notes where the run is.
func (l *sharedLines) away() {
	l.c.MOVB(operand.U8(0), l.field("stream"))
	l.c.MOVQ(l.ptr["out"], l.field("outRow"))
}

// back ends such a leg.
func (l *sharedLines) back() {
	l.c.MOVQ(l.field("outRow"), l.ptr["out"])
	l.c.MOVB(operand.U8(1), l.field("stream"))
}

// shift makes bytes of elements of the output, or elements of bytes.
func (k *kernel) shift() operand.Op {
	return operand.Imm(uint64(bits.TrailingZeros(uint(k.out.size))))
}
