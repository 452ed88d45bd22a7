package main

import (
	"math/bits"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// matmulTransposedEarly is the number of columns for which lines ahead are asked for at once.
const matmulTransposedEarly = 4

// askAhead finds out how to ask for columns ahead, one after the other: each square
// asks for as many lines as it has. Where columns are shorter than that, those
// that follow one another are asked for.
func (t *transposed) askAhead(squares reg.GPVirtual) {
	c, by, long := t.c, t.c.GP64(), t.newLabel("long")
	t.left, t.all, t.jump = c.AllocLocal(8), c.AllocLocal(8), c.AllocLocal(8)
	c.MOVQ(squares, by)
	c.SHRQ(operand.Imm(uint64(bits.TrailingZeros(uint(t.lanes)))), by)
	c.MOVQ(by, t.all)
	c.MOVQ(by, t.left)
	c.IMUL3Q(operand.I32(-t.lanes*t.bytes()), by, by)
	c.ADDQ(t.columns.step, by)
	c.MOVQ(by, t.jump)
	branch(c.CMPQ, t.all, operand.Imm(0), c.JNE, long)
	c.MOVQ(operand.U32(1), t.all)
	c.MOVQ(operand.U32(1), t.left)
	c.MOVQ(operand.U32(0), t.jump)
	c.Label(long)
	t.ahead = param(c, "ahead")
}

// ask asks for what lies ahead as columns from the first one on do here.
func (t *transposed) ask(first int) {
	c, near := t.c, t.newLabel("near")
	branch(c.TESTQ, t.ahead, t.ahead, c.JEQ, near)
	for at := first * t.bytes(); at < (first+matmulTransposedEarly)*t.bytes(); at += 64 {
		c.PREFETCHT1(operand.Mem{Base: t.ahead, Disp: at})
	}
	c.Label(near)
}

// asked moves on by what a square asked for.
func (t *transposed) asked() {
	c, same := t.c, t.newLabel("same")
	branch(c.TESTQ, t.ahead, t.ahead, c.JEQ, same)
	c.ADDQ(operand.U32(t.lanes*t.bytes()), t.ahead)
	c.DECQ(t.left)
	c.JNE(operand.LabelRef(same))
	c.ADDQ(t.jump, t.ahead)
	all := c.XMM() // no other register is free
	c.VMOVQ(t.all, all)
	c.VMOVQ(all, t.left)
	c.Label(same)
}
