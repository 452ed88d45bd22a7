package main

import (
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// pairsEarly is how many pairs ahead memory is asked for.
const pairsEarly = 12

// pairProducts emits the sums, in Stripe order, of the products of pairs of rows.
func pairProducts(c *build.Context) {
	eachKernel(c, []*storage{f32, bf16, f16}, func(k *kernel) { (&rowPairs{kernel: k}).function() })
}

// rowPairs is the kernel under construction.
type rowPairs struct {
	*kernel
	x, y, at, left reg.GPVirtual // rows, where they are, and what is left of them
	later          reg.GPVirtual // of the rows of y, one of a later pair
	lanesOf        value         // the 64 lanes
}

func (p *rowPairs) function() {
	c, name := p.c, "pairProducts"+p.isa.name+p.out.name
	doc := []string{name + " sums, in Stripe order, the products of n elements of row xs[i] and of row ys[i],",
		"which lie xStride and yStride bytes apart, for count pairs."}
	if !p.isa.masks {
		doc = append(doc, "n is a multiple of 8.")
	}
	beginFunction(c, name, "func(x *byte, xStride int, y *byte, yStride int, xs, ys *int64, count, n int, to *float32)", doc...)
	xs, ys, to, pair := param(c, "xs"), param(c, "ys"), param(c, "to"), c.GP64()
	p.group = stripeLanes / p.lanes
	p.lanesOf = p.newValue()
	p.x, p.y, p.at, p.left, p.later = c.GP64(), c.GP64(), c.GP64(), c.GP64(), c.GP64()
	c.XORQ(pair, pair)
	c.Label("pair")
	branch(c.CMPQ, pair, place(p.c, "count"), c.JGE, "end")
	row := func(list, number, to reg.GPVirtual, rows, stride string) {
		c.MOVQ(operand.Mem{Base: list, Index: number, Scale: 8}, to)
		c.IMULQ(place(p.c, stride), to)
		c.ADDQ(place(p.c, rows), to)
	}
	row(xs, pair, p.x, "x", "xStride")
	row(ys, pair, p.y, "y", "yStride")
	c.LEAQ(operand.Mem{Base: pair, Disp: pairsEarly}, p.later)
	c.CMPQ(p.later, place(p.c, "count"))
	c.CMOVQGE(pair, p.later)
	row(ys, p.later, p.later, "y", "yStride")
	p.sum()
	c.VMOVSS(p.fold(), operand.Mem{Base: to, Index: pair, Scale: 4})
	c.INCQ(pair)
	c.JMP(operand.LabelRef("pair"))
	c.Label("end")
	endFunction(c)
}

// sum adds the products of a pair to lanes that were 0.
func (p *rowPairs) sum() {
	c := p.c
	for _, l := range p.lanesOf {
		p.emit(p.bits("VPXOR"), l, l, l)
	}
	c.XORQ(p.at, p.at)
	c.MOVQ(place(p.c, "n"), p.left)
	c.Label("stripe")
	branch(c.CMPQ, p.left, operand.U32(stripeLanes), c.JLT, "rest")
	for v := range p.lanesOf {
		p.add(v)
	}
	c.ADDQ(operand.U32(stripeLanes*p.out.size), p.at)
	c.SUBQ(operand.U32(stripeLanes), p.left)
	c.JMP(operand.LabelRef("stripe"))
	c.Label("rest")
	for v := range p.lanesOf[1:] {
		p.some(v)
	}
	if p.isa.masks { // less than a stripe may end in its last vector
		p.some(len(p.lanesOf) - 1)
	}
	c.Label("summed")
}

// some is add for less than a stripe.
func (p *rowPairs) some(v int) {
	c := p.c
	branch(c.TESTQ, p.left, p.left, c.JLE, "summed")
	if p.isa.masks {
		p.maskTail(p.left)
	}
	p.add(v)
	p.tail = nil
	c.SUBQ(operand.U32(p.lanes), p.left)
}

// add adds the products of a vector of a stripe.
func (p *rowPairs) add(v int) {
	bytes := p.lanes * p.out.size
	load := func(row reg.GPVirtual) reg.VecVirtual {
		return p.out.load(p.kernel, memory{operand.Mem{Base: row, Index: p.at, Scale: 1, Disp: v * bytes}})
	}
	x := load(p.x)
	p.emit("VMULPS", load(p.y), x, x)
	p.emit("VADDPS", x, p.lanesOf[v], p.lanesOf[v])
	if v*bytes%64 == 0 {
		p.c.PREFETCHT0(operand.Mem{Base: p.later, Index: p.at, Scale: 1, Disp: v * bytes})
	}
}

// fold sums the lanes by halves.
func (p *rowPairs) fold() reg.Register {
	c, v := p.c, append(value{}, p.lanesOf...)
	if p.isa.bytes < 64 {
		return foldHalves(c, v, c.VADDPS, c.VADDSS)
	}
	for half := len(v) / 2; half > 0; half /= 2 {
		for i := range half {
			c.VADDPS(v[i+half], v[i], v[i])
		}
	}
	upper, lower := c.YMM(), v[0].AsY()
	c.VEXTRACTF64X4(operand.Imm(1), v[0], upper)
	c.VADDPS(upper, lower, upper)
	return foldHalves(c, value{upper}, c.VADDPS, c.VADDSS)
}
