package main

import (
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
)

// outside emits the search for indices that name no row: of 64 and of 32 bits.
func outside(c *build.Context) {
	for _, t := range []struct {
		bits      string
		size      int
		broadcast func(...operand.Op)
		sub       func(...operand.Op)
	}{{"64", 8, c.VPBROADCASTQ, c.VPSUBQ}, {"32", 4, c.VPBROADCASTD, c.VPSUBD}} {
		name := "outsideAVX2I" + t.bits
		beginFunction(c, name, "func(indices *int"+t.bits+", n int, last int"+t.bits+") bool",
			name+" reports whether one of n indices, a multiple of 32, is negative or more than the last, which is -1 at least.")
		indices, first, last, signs := param(c, "indices"), c.XMM(), c.YMM(), c.YMM()
		c.VMOVQ(param(c, "last"), first)
		t.broadcast(first, last)
		c.VPXOR(signs, signs, signs)
		n := param(c, "n")
		c.Label("next")
		c.TESTQ(n, n)
		c.JLE(operand.LabelRef("done"))
		for at := 0; at < 32*t.size; at += 32 {
			index, left := c.YMM(), c.YMM()
			c.VMOVDQU(operand.Mem{Base: indices, Disp: at}, index)
			t.sub(index, last, left)
			c.VPOR(index, left, left)
			c.VPOR(left, signs, signs)
		}
		c.ADDQ(operand.U32(32*t.size), indices)
		c.SUBQ(operand.Imm(32), n)
		c.JMP(operand.LabelRef("next"))
		c.Label("done")
		found, sign := c.GP32(), c.GP8()
		if t.size == 8 {
			c.VMOVMSKPD(signs, found)
		} else {
			c.VMOVMSKPS(signs, found)
		}
		c.VZEROUPPER()
		c.TESTL(found, found)
		c.SETNE(sign)
		c.Store(sign, c.ReturnIndex(0))
		c.RET()
	}
}

// widen emits the conversion of indices of 32 bits to 64.
func widen(c *build.Context) {
	beginFunction(c, "widenAVX2", "func(to *int64, from *int32, n int)",
		"widenAVX2 converts n indices, a multiple of 16.")
	to, from, n := param(c, "to"), param(c, "from"), param(c, "n")
	c.Label("next")
	c.TESTQ(n, n)
	c.JLE(operand.LabelRef("done"))
	for at := 0; at < 16; at += 4 {
		index := c.YMM()
		c.VPMOVSXDQ(operand.Mem{Base: from, Disp: 4 * at}, index)
		c.VMOVDQU(index, operand.Mem{Base: to, Disp: 8 * at})
	}
	c.ADDQ(operand.Imm(64), from)
	c.ADDQ(operand.U32(128), to)
	c.SUBQ(operand.Imm(16), n)
	c.JMP(operand.LabelRef("next"))
	c.Label("done")
	c.VZEROUPPER()
	c.RET()
}
