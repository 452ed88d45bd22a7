package main

import (
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// pairProductDouble sums the products of one pair of rows of f64. AVX2 has no registers
// for 64 lanes and what is added to them: they stay in memory.
func pairProductDouble(c *build.Context) {
	beginFunction(c, "pairProductAVX2F64", "func(x, y, later *float64, n int, lanes *[64]float64, to *float64)",
		"pairProductAVX2F64 sums, in Stripe order, the products of n elements of x and y,",
		"and asks for as many from later on.")
	x, y, later, n, lanes, to := param(c, "x"), param(c, "y"), param(c, "later"), param(c, "n"), param(c, "lanes"), param(c, "to")
	zero := c.YMM()
	c.VXORPD(zero, zero, zero)
	for v := range stripeLanes / 4 {
		c.VMOVUPD(zero, operand.Mem{Base: lanes, Disp: 32 * v})
	}
	add := func(at int, move, multiply, sum func(...operand.Op), product, lane reg.Register) {
		move(operand.Mem{Base: x, Disp: at}, product)
		multiply(operand.Mem{Base: y, Disp: at}, product, product)
		move(operand.Mem{Base: lanes, Disp: at}, lane)
		sum(product, lane, lane)
		move(lane, operand.Mem{Base: lanes, Disp: at})
	}
	advance := func(elements int, pointers ...reg.Register) {
		for _, p := range pointers {
			c.ADDQ(operand.U32(8*elements), p)
		}
		c.SUBQ(operand.U32(elements), n)
	}

	c.Label("stripe")
	branch(c.CMPQ, n, operand.U32(stripeLanes), c.JLT, "vectors")
	for v := range stripeLanes / 4 {
		if v%2 == 0 {
			c.PREFETCHT0(operand.Mem{Base: later, Disp: 32 * v})
		}
		add(32*v, c.VMOVUPD, c.VMULPD, c.VADDPD, c.YMM(), c.YMM())
	}
	advance(stripeLanes, x, y, later)
	c.JMP(operand.LabelRef("stripe"))

	c.Label("vectors")
	branch(c.CMPQ, n, operand.U32(4), c.JLT, "elements")
	c.PREFETCHT0(operand.Mem{Base: later})
	add(0, c.VMOVUPD, c.VMULPD, c.VADDPD, c.YMM(), c.YMM())
	advance(4, x, y, later, lanes)
	c.JMP(operand.LabelRef("vectors"))

	c.Label("elements")
	branch(c.TESTQ, n, n, c.JLE, "fold")
	add(0, c.VMOVSD, c.VMULSD, c.VADDSD, c.XMM(), c.XMM())
	advance(1, x, y, lanes)
	c.JMP(operand.LabelRef("elements"))

	c.Label("fold")
	c.MOVQ(place(c, "lanes"), lanes)
	v := foldDoubles(c, operand.Mem{Base: lanes})
	sum, upper := v.AsX(), c.XMM()
	c.VEXTRACTF128(operand.Imm(1), v, upper)
	c.VADDPD(upper, sum, sum)
	c.VPERMILPD(operand.Imm(1), sum, upper)
	c.VADDSD(upper, sum, sum)
	c.VMOVSD(sum, operand.Mem{Base: to})
	endFunction(c)
}

// foldDoubles adds the upper half of 64 lanes to the lower one, and so on, until there is one vector.
func foldDoubles(c *build.Context, lanes operand.Mem) reg.VecVirtual {
	v := make([]reg.VecVirtual, stripeLanes/8)
	for i := range v {
		v[i] = c.YMM()
		c.VMOVUPD(lanes.Offset(32*i), v[i])
		c.VADDPD(lanes.Offset(32*(i+len(v))), v[i], v[i])
	}
	for half := len(v) / 2; half > 0; half /= 2 {
		for i := range half {
			c.VADDPD(v[i+half], v[i], v[i])
		}
	}
	return v[0]
}
