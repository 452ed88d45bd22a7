package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// groupFolds fold the terms of short groups, which lie one after the other,
// into a result each: sums in Stripe order, or the largest bits.
func groupFolds(c *build.Context) {
	for _, f := range []struct {
		name, doc string
		combine   func(...operand.Op)
		scalar    func(...operand.Op)
	}{
		{"sumGroupsAVX2", "sums, in Stripe order,", c.VADDPS, c.VADDSS},
		{"largestBitsAVX2", "the largest bits, as those of unsigned numbers,", c.VPMAXUD, c.VPMAXUD},
	} {
		c.Function(f.name)
		c.Doc(f.name+" stores "+f.doc+" of count groups of n terms, of which", "none is -0: n is 8, 16, 32 or a multiple of 64.")
		c.Attributes(attr.NOSPLIT)
		c.Pragma("noescape")
		c.SignatureExpr("func(terms *float32, n, count int, to *float32)")
		terms, n, count, to := param(c, "terms"), param(c, "n"), param(c, "count"), param(c, "to")
		for _, vectors := range []int{1, 2, 4, 8} {
			next, other := fmt.Sprintf("next%d", vectors), fmt.Sprintf("other%d", vectors)
			if vectors < 8 {
				c.CMPQ(n, operand.U32(8*vectors))
				c.JNE(operand.LabelRef(other))
			}
			c.Label(next)
			v := make([]reg.VecVirtual, vectors)
			for i := range v {
				v[i] = c.YMM()
				c.VMOVUPS(operand.Mem{Base: terms, Disp: 32 * i}, v[i])
			}
			if vectors == 8 {
				lanesInTurn(c, terms, n, v, f.combine)
			}
			c.ADDQ(operand.U32(32*vectors), terms)
			c.VMOVSS(foldHalves(c, v, f.combine, f.scalar), operand.Mem{Base: to})
			c.ADDQ(operand.Imm(4), to)
			c.DECQ(count)
			c.JNE(operand.LabelRef(next))
			c.VZEROUPPER()
			c.RET()
			c.Label(other)
		}
	}
}

// lanesInTurn adds to 64 lanes the terms that come after the first 64 of n,
// and moves on to the last 64.
func lanesInTurn(c *build.Context, terms, n reg.GPVirtual, lanes []reg.VecVirtual, combine func(...operand.Op)) {
	left := c.GP64()
	c.MOVQ(n, left)
	c.Label("turn")
	c.SUBQ(operand.Imm(64), left)
	c.JLE(operand.LabelRef("turned"))
	c.ADDQ(operand.U32(256), terms)
	for i, l := range lanes {
		combine(operand.Mem{Base: terms, Disp: 32 * i}, l, l)
	}
	c.JMP(operand.LabelRef("turn"))
	c.Label("turned")
}
