package main

import (
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// stripeProducts are the kernels that add products of rows of f32 to lanes:
// lane l takes the products at l, l+64, ... in turn, each rounded before it
// is added.
func stripeProducts(c *build.Context) {
	for _, isa := range isas {
		name := "stripeProducts" + isa.name
		beginFunction(c, name, "func(x *float32, xRow, rows int, w *float32, n int, lanes *float32, lanesRow int)",
			name+" adds the products of n elements, a multiple of 64, of each of some rows of x,",
			"xRow bytes apart, with those of w to the row's 64 lanes, lanesRow bytes apart.")
		k := &kernel{c: c, isa: isa, compute: f32, lanes: isa.bytes / 4}
		p := products{k, param(c, "x"), param(c, "xRow"), param(c, "rows"), param(c, "w"), param(c, "n"), param(c, "lanes"), param(c, "lanesRow")}
		if isa.masks {
			p.rowsOf(4) // 16 accumulators
		}
		p.rowsOf(1)
		c.VZEROUPPER()
		c.RET()
	}
}

type products struct {
	*kernel
	x, xRow, rows, w, n, sums, sumsRow reg.GPVirtual
}

// rowsOf handles a number of rows at a time, while there are as many.
func (p products) rowsOf(count int) {
	c := p.c
	more, done := p.newLabel("rows"), p.newLabel("fewer")
	c.Label(more)
	c.CMPQ(p.rows, operand.U32(count))
	c.JLT(operand.LabelRef(done))
	vectors := stripeLanes / p.kernel.lanes
	x, sums := p.fourRows(p.x, p.xRow), p.fourRows(p.sums, p.sumsRow)
	acc := make([][]reg.VecVirtual, count)
	each := func(f func(row, v int)) {
		for row := range count {
			for v := range vectors {
				f(row, v)
			}
		}
	}
	for row := range acc {
		acc[row] = make([]reg.VecVirtual, vectors)
	}
	each(func(row, v int) {
		acc[row][v] = p.vector()
		p.emit("VMOVUPS", sums.at(row, v*p.isa.bytes), acc[row][v])
	})
	w, left := c.GP64(), c.GP64()
	c.MOVQ(p.w, w)
	c.MOVQ(p.n, left)
	loop, end := p.newLabel("block"), p.newLabel("end")
	c.Label(loop)
	c.TESTQ(left, left)
	c.JLE(operand.LabelRef(end))
	for v := range vectors {
		weight := p.vector()
		p.emit("VMOVUPS", operand.Mem{Base: w, Disp: v * p.isa.bytes}, weight)
		for row := range count {
			product := p.vector()
			p.emit("VMULPS", x.at(row, v*p.isa.bytes), weight, product)
			p.emit("VADDPS", product, acc[row][v], acc[row][v])
		}
	}
	for _, r := range []reg.GPVirtual{w, x.first, x.fourth} {
		c.ADDQ(operand.U32(4*stripeLanes), r)
	}
	c.SUBQ(operand.U32(stripeLanes), left)
	c.JMP(operand.LabelRef(loop))
	c.Label(end)
	each(func(row, v int) { p.emit("VMOVUPS", acc[row][v], sums.at(row, v*p.isa.bytes)) })
	c.SUBQ(operand.U32(count), p.rows)
	for range count {
		c.ADDQ(p.xRow, p.x)
		c.ADDQ(p.sumsRow, p.sums)
	}
	c.JMP(operand.LabelRef(more))
	c.Label(done)
}

// rows are up to four that lie a step apart.
type rows struct{ first, fourth, step reg.GPVirtual }

func (p products) fourRows(first, step reg.GPVirtual) rows {
	r := rows{p.c.GP64(), p.c.GP64(), step}
	p.c.MOVQ(first, r.first)
	p.c.LEAQ(operand.Mem{Base: first, Index: step, Scale: 2}, r.fourth)
	p.c.ADDQ(step, r.fourth)
	return r
}

func (r rows) at(row, offset int) operand.Mem {
	switch row {
	case 0:
		return operand.Mem{Base: r.first, Disp: offset}
	case 3:
		return operand.Mem{Base: r.fourth, Disp: offset}
	}
	return operand.Mem{Base: r.first, Index: r.step, Scale: uint8(row), Disp: offset}
}
