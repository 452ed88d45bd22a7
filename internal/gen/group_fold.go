package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// sumGroups sums the terms of short groups, which lie one after the other, in
// Stripe order.
func sumGroups(c *build.Context) {
	beginFunction(c, "sumGroupsAVX2", "func(terms *float32, n, count int, to *float32)",
		"sumGroupsAVX2 stores sums, in Stripe order, of count groups of n terms, of which", "none is -0: n is 8, 16, 32 or a multiple of 64.")
	terms, n, count, to := param(c, "terms"), param(c, "n"), param(c, "count"), param(c, "to")
	for _, vectors := range []int{1, 2, 4, 8} {
		next, other := fmt.Sprintf("next%d", vectors), fmt.Sprintf("other%d", vectors)
		if vectors < 8 {
			branch(c.CMPQ, n, operand.U32(8*vectors), c.JNE, other)
		}
		c.Label(next)
		v := make([]reg.VecVirtual, vectors)
		for i := range v {
			v[i] = c.YMM()
			c.VMOVUPS(operand.Mem{Base: terms, Disp: 32 * i}, v[i])
		}
		if vectors == 8 {
			lanesInTurn(c, terms, n, v)
		}
		c.ADDQ(operand.U32(32*vectors), terms)
		c.VMOVSS(foldHalves(c, v, c.VADDPS, c.VADDSS), operand.Mem{Base: to})
		c.ADDQ(operand.Imm(4), to)
		c.DECQ(count)
		c.JNE(operand.LabelRef(next))
		endFunction(c)
		c.Label(other)
	}
}

// lanesInTurn adds to 64 lanes the terms that come after the first 64 of n,
// and moves on to the last 64.
func lanesInTurn(c *build.Context, terms, n reg.GPVirtual, lanes []reg.VecVirtual) {
	left := c.GP64()
	c.MOVQ(n, left)
	c.Label("turn")
	c.SUBQ(operand.Imm(64), left)
	c.JLE(operand.LabelRef("turned"))
	c.ADDQ(operand.U32(256), terms)
	for i, l := range lanes {
		c.VADDPS(operand.Mem{Base: terms, Disp: 32 * i}, l, l)
	}
	c.JMP(operand.LabelRef("turn"))
	c.Label("turned")
}

// groupExtremesOfDoubles finds the extremes of short groups of f64: AVX2 has no largest of such bits.
func groupExtremesOfDoubles(c *build.Context) {
	const elements, bytes = 4, 32
	beginFunction(c, "groupExtremesAVX2F64", "func(x *byte, n, count int, lo, hi *byte)",
		"groupExtremesAVX2F64 stores, of count groups of n elements, the smallest and the largest and 0, or NaNs: n is 4 or more.")
	x, n, count, lo, hi := param(c, "x"), param(c, "n"), param(c, "count"), param(c, "lo"), param(c, "hi")
	c.Label("group")
	least, largest, nan, v, isNaN, left, bits := c.YMM(), c.YMM(), c.YMM(), c.YMM(), c.YMM(), c.GP64(), c.GP32()
	for _, r := range []reg.VecVirtual{least, largest, nan} {
		c.VXORPD(r, r, r)
	}
	take := func() {
		c.VMOVUPD(operand.Mem{Base: x}, v)
		c.ADDQ(operand.Imm(bytes), x)
		c.VCMPPD(operand.Imm(unordered), v, v, isNaN)
		c.VORPD(isNaN, nan, nan)
		c.VMINPD(least, v, least) // +0 stays, not -0
		c.VMAXPD(largest, v, largest)
	}
	c.MOVQ(n, left)
	c.Label("vector")
	take()
	c.SUBQ(operand.Imm(elements), left)
	branch(c.CMPQ, left, operand.Imm(elements), c.JGE, "vector")
	branch(c.TESTQ, left, left, c.JEQ, "group_done")
	c.LEAQ(operand.Mem{Base: x, Index: left, Scale: 8, Disp: -bytes}, x) // some a second time
	take()
	c.Label("group_done")
	c.VMOVMSKPD(nan, bits)
	branch(c.TESTL, bits, bits, c.JEQ, "numbers")
	c.VPCMPEQQ(least, least, least) // all bits: a NaN
	c.VMOVAPD(least, largest)
	c.Label("numbers")
	for _, side := range []struct {
		v    reg.VecVirtual
		fold func(...operand.Op)
		to   reg.GPVirtual
	}{{least, c.VMINPD, lo}, {largest, c.VMAXPD, hi}} {
		result, other := side.v.AsX(), c.XMM()
		c.VEXTRACTF128(operand.Imm(1), side.v, other)
		side.fold(other, result, result)
		c.VPERMILPD(operand.Imm(1), result, other)
		side.fold(other, result, result)
		c.VMOVSD(result, operand.Mem{Base: side.to})
		c.ADDQ(operand.Imm(8), side.to)
	}
	c.DECQ(count)
	c.JNE(operand.LabelRef("group"))
	endFunction(c)
}
