package main

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// pairsEarly is how many pairs ahead memory is asked for.
const pairsEarly = 12

// rowPairs sums, in Stripe order, the products of pairs of rows: it is the kernel under construction.
type rowPairs struct {
	*kernel
	x, y, at, left reg.GPVirtual // rows, where they are, and what is left of them
	later          reg.GPVirtual // of the rows of y, one of a later pair
	lanesOf        value         // the 64 lanes

	// Without masks, of the elements that are less than a vector: their products, which lanes they go to, and
	// where these lie in the last vector of a row.
	last, lives, places reg.VecVirtual
}

func (p *rowPairs) function() {
	c, name := p.c, "pairProducts"+p.isa.name+p.out.name
	beginFunction(c, name, "func(x *byte, xStride int, y *byte, yStride int, xs, ys *int64, count, n int, to *float32)",
		name+" sums, in Stripe order, the products of n elements, one at least, of row xs[i] and of row ys[i],",
		"which lie xStride and yStride bytes apart, for count pairs.")
	xs, ys, to, pair := param(c, "xs"), param(c, "ys"), param(c, "to"), c.GP64()
	p.group = stripeLanes / p.lanes
	p.lanesOf = p.newValue()
	p.x, p.y, p.at, p.left, p.later = c.GP64(), c.GP64(), c.GP64(), c.GP64(), c.GP64()
	if !p.isa.masks {
		p.findLast()
	}
	c.XORQ(pair, pair)
	eachPair := func(name string, sum func() reg.Register) {
		c.Label(name)
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
		c.VMOVSS(sum(), operand.Mem{Base: to, Index: pair, Scale: 4})
		c.INCQ(pair)
		c.JMP(operand.LabelRef(name))
	}
	if !p.isa.masks {
		branch(c.CMPQ, place(c, "n"), operand.U32(p.lanes), c.JLT, "few")
	}
	eachPair("pair", func() reg.Register {
		p.sum()
		return p.fold()
	})
	if !p.isa.masks {
		p.group = 1
		eachPair("few", p.sumFew)
	}
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
	if !p.isa.masks {
		p.multiplyLast()
	}
	c.Label("stripe")
	branch(c.CMPQ, p.left, operand.U32(stripeLanes), c.JLT, "rest")
	for v := range p.lanesOf {
		p.add(v)
	}
	c.ADDQ(operand.U32(stripeLanes*p.out.size), p.at)
	c.SUBQ(operand.U32(stripeLanes), p.left)
	c.JMP(operand.LabelRef("stripe"))
	c.Label("rest")
	for v := range p.lanesOf {
		p.some(v)
	}
	c.Label("summed")
}

// some is add for less than a stripe.
func (p *rowPairs) some(v int) {
	c := p.c
	branch(c.TESTQ, p.left, p.left, c.JLE, "summed")
	if p.isa.masks {
		p.maskTail(p.left)
	} else {
		whole := p.newLabel("whole")
		branch(c.CMPQ, p.left, operand.U32(p.lanes), c.JGE, whole)
		p.emit("VADDPS", p.last, p.lanesOf[v], p.lanesOf[v])
		c.JMP(operand.LabelRef("summed"))
		c.Label(whole)
	}
	p.add(v)
	p.tail = nil
	c.SUBQ(operand.U32(p.lanes), p.left)
}

// findLast finds which lanes less than a vector goes to, and where the last vector of a row has it.
func (p *rowPairs) findLast() {
	n, count := p.c.GP64(), p.c.XMM()
	p.last, p.lives, p.places = p.vector(), p.vector(), p.vector()
	spread := func(to reg.VecVirtual) {
		p.emit("VMOVQ", n, count)
		p.emit("VPBROADCASTD", count, to)
	}
	p.c.MOVQ(place(p.c, "n"), n)
	spread(p.places)
	p.c.ANDQ(operand.Imm(uint64(p.lanes-1)), n)
	spread(p.lives)
	numbers := p.vector()
	p.emit("VMOVDQU", p.laneNumbers(), numbers)
	p.emit("VPSUBD", p.places, numbers, p.places) // of which the lowest bits count
	p.emit("VPCMPGTD", numbers, p.lives, p.lives)
}

// multiplyLast makes the products of less than a vector, if there are any.
func (p *rowPairs) multiplyLast() {
	none := p.newLabel("none")
	branch(p.c.TESTQ, operand.U32(p.lanes-1), p.left, p.c.JEQ, none)
	p.c.LEAQ(operand.Mem{Base: p.left, Disp: -p.lanes}, p.at)
	p.c.SHLQ(operand.Imm(uint64(p.out.size/2)), p.at)
	p.emit("VPERMPS", p.product(0), p.places, p.last)
	p.emit("VANDPS", p.lives, p.last, p.last)
	p.c.XORQ(p.at, p.at)
	p.c.Label(none)
}

// sumFew sums the products of less than a vector, which only the first lanes have.
func (p *rowPairs) sumFew() reg.Register {
	zero := p.vector()
	x := p.loadFew(p.x)
	p.emit("VMULPS", p.loadFew(p.y), x, x)
	p.c.PREFETCHT0(operand.Mem{Base: p.later})
	p.emit("VXORPS", zero, zero, zero)
	p.emit("VADDPS", zero, x, x)
	return foldHalves(p.c, value{x}, p.c.VADDPS, p.c.VADDSS)
}

// loadFew loads less than a vector, of 16 bits from its end on: what was loaded moves up for what lies before it.
func (p *rowPairs) loadFew(row reg.GPVirtual) reg.VecVirtual {
	c := p.c
	if p.out.size == f32.size {
		v := p.vector()
		p.emit("VMASKMOVPS", memory{operand.Mem{Base: row}}, p.lives, v)
		return v
	}
	x, end := c.XMM(), c.GP64()
	p.emit("VPXOR", x, x, x)
	c.MOVQ(place(c, "n"), p.left)
	c.LEAQ(operand.Mem{Base: row, Index: p.left, Scale: 2}, end)
	part := func(elements int, load func()) {
		none := p.newLabel("none")
		branch(c.TESTQ, operand.U32(elements), p.left, c.JEQ, none)
		c.SUBQ(operand.Imm(uint64(2*elements)), end)
		load()
		c.Label(none)
	}
	part(1, func() { c.VPINSRW(operand.Imm(0), operand.Mem{Base: end}, x, x) })
	part(2, func() {
		c.VPSLLDQ(operand.Imm(4), x, x)
		c.VPINSRD(operand.Imm(0), operand.Mem{Base: end}, x, x)
	})
	part(4, func() {
		c.VPSLLDQ(operand.Imm(8), x, x)
		c.VPINSRQ(operand.Imm(0), operand.Mem{Base: end}, x, x)
	})
	return p.widened(p.out, x)[0]
}

// product multiplies elements so many bytes behind where rows are.
func (p *rowPairs) product(bytes int) reg.VecVirtual {
	load := func(row reg.GPVirtual) reg.VecVirtual {
		return p.out.load(p.kernel, memory{operand.Mem{Base: row, Index: p.at, Scale: 1, Disp: bytes}})
	}
	x := load(p.x)
	p.emit("VMULPS", load(p.y), x, x)
	return x
}

// add adds the products of a vector of a stripe.
func (p *rowPairs) add(v int) {
	bytes := p.lanes * p.out.size
	x := p.product(v * bytes)
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
