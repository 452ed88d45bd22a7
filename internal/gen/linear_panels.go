package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// The kernels of a quantized linear layer for many rows: 32, 16 or 8 rows of x lie packed in a panel, 4, 8 or 16 codes of
// each row after those of the row before. These meet as many codes of a row of w, in all parts of two vectors.

const panelColumns = 8

// panels emits the kernels.
func panels(c *build.Context) {
	for _, rows := range []int{8, 16, 32} {
		name := fmt.Sprintf("dotPanel%dVNNI", rows)
		beginFunction(c, name, "func(x *int8, k int, w *int8, wStride int, columns int, ahead int, acc *int32, accStride int)",
			name+" is acc[i][j] = start[i] + sum over k of x[i][k] * (w[j][k] + 128) of a panel x, which begins with start; columns, of w,",
			"are a multiple of 8. ahead is how many bytes later the next 8 columns begin, or 0.")
		newPanel(c, 32/rows).function()
	}
}

// panel is a kernel under construction.
type panel struct {
	c                 *build.Context
	fours             int // how many times four codes of a row lie side by side
	flip              reg.VecVirtual
	x                 [2]reg.VecVirtual
	sums              [panelColumns][2]reg.VecVirtual
	at, k, ahead, out reg.GPVirtual
	near, far         fourRows // of w
	column, wStride   reg.GPVirtual
	columns, acc      operand.Mem
}

func newPanel(c *build.Context, fours int) *panel {
	p := &panel{c: c, fours: fours, flip: flipped(c), at: c.GP64(), k: c.GP64(), ahead: c.GP64(), out: c.GP64()}
	p.column, p.wStride = param(c, "w"), param(c, "wStride")
	p.near = newFourRows(c, p.wStride)
	p.far = fourRows{c.GP64(), p.near.stride, p.near.stride3}
	p.columns, p.acc = place(c, "columns"), place(c, "acc")
	for i := range p.x {
		p.x[i] = c.ZMM()
		for j := range p.sums {
			p.sums[j][i] = c.ZMM()
		}
	}
	return p
}

// codes is how many codes of a row lie side by side.
func (p *panel) codes() int { return 4 * p.fours }

// row is where codes of a row of w are, some bytes on.
func (p *panel) row(j, bytes int) operand.Mem {
	rows := p.near
	if j >= 4 {
		rows = p.far
	}
	m := rows.row(j % 4)
	m.Disp = bytes
	return m
}

// multiply multiplies the codes that come after so many steps; load reads those of w.
func (p *panel) multiply(after int, load func(from operand.Mem, to reg.VecVirtual)) {
	for i, x := range p.x {
		p.c.VMOVDQU8(operand.Mem{Base: p.at, Disp: 64 * (2*after + i)}, x)
	}
	for j, sums := range p.sums {
		w := p.c.ZMM()
		load(p.row(j, p.codes()*after), w)
		for i, sum := range sums {
			vpdpbusd(p.c, p.x[i], w, sum)
		}
	}
}

// whole reads as many codes as lie side by side.
func (p *panel) whole(from operand.Mem, to reg.VecVirtual) {
	switch p.fours {
	case 1:
		p.c.VPXORD_BCST(from, p.flip, to)
	case 2:
		p.c.VPXORQ_BCST(from, p.flip, to)
	case 4:
		p.c.VBROADCASTI32X4(from, to)
		p.c.VPXORD(p.flip, to, to)
	}
}

// some returns what reads the last codes, k of them.
func (p *panel) some() func(from operand.Mem, to reg.VecVirtual) {
	mask := tailMask(p.c, p.k)
	return func(from operand.Mem, to reg.VecVirtual) {
		p.c.VMOVDQU8_Z(from, mask, to.AsX())
		switch p.fours {
		case 1:
			p.c.VPBROADCASTD(to.AsX(), to)
		case 2:
			p.c.VPBROADCASTQ(to.AsX(), to)
		case 4:
			p.c.VSHUFI32X4(operand.Imm(0), to, to, to)
		}
		p.c.VPXORD(p.flip, to, to)
	}
}

// step goes on by so many times the codes that lie side by side.
func (p *panel) step(times int) {
	p.c.ADDQ(operand.I32(128*times), p.at)
	for _, rows := range []fourRows{p.near, p.far} {
		p.c.ADDQ(operand.Imm(uint64(p.codes()*times)), rows.at)
	}
	p.c.SUBQ(operand.Imm(uint64(p.codes()*times)), p.k)
}

func (p *panel) function() {
	const together = 4
	c := p.c
	c.Label("columns")
	p.begin()
	c.SUBQ(operand.Imm(uint64(together*p.codes())), p.k)
	c.JLT(operand.LabelRef("rest"))
	c.Label("block")
	branch(c.TESTQ, p.ahead, p.ahead, c.JEQ, "multiply")
	for line := range together * p.codes() * panelColumns / 64 {
		c.PREFETCHT1(operand.Mem{Base: p.ahead, Disp: 64 * line})
	}
	c.ADDQ(operand.U32(uint32(together*p.codes()*panelColumns)), p.ahead)
	c.Label("multiply")
	for i := range together {
		p.multiply(i, p.whole)
	}
	p.step(together)
	c.JGE(operand.LabelRef("block"))
	c.Label("rest")
	c.ADDQ(operand.Imm(uint64((together-1)*p.codes())), p.k)
	c.JLT(operand.LabelRef("last"))
	c.Label("one")
	p.multiply(0, p.whole)
	p.step(1)
	c.JGE(operand.LabelRef("one"))
	c.Label("last")
	c.ADDQ(operand.Imm(uint64(p.codes())), p.k)
	c.JEQ(operand.LabelRef("done"))
	p.multiply(0, p.some())
	c.Label("done")
	c.MOVQ(p.acc, p.out)
	for i := range p.x {
		p.store(p.fold(i))
	}
	c.LEAQ(operand.Mem{Base: p.column, Index: p.wStride, Scale: 8}, p.column)
	c.ADDQ(operand.Imm(4*panelColumns), p.acc)
	c.SUBQ(operand.Imm(panelColumns), p.columns)
	c.JNE(operand.LabelRef("columns"))
	endFunction(c)
}

// begin goes to the first codes of the next columns.
func (p *panel) begin() {
	c := p.c
	c.MOVQ(place(c, "x"), p.at)
	for i := range p.x {
		c.VMOVDQU32(operand.Mem{Base: p.at, Disp: 64 * i}, p.sums[0][i])
		for _, sums := range p.sums[1:] {
			c.VMOVDQA32(p.sums[0][i], sums[i])
		}
	}
	c.ADDQ(operand.I32(128), p.at)
	c.MOVQ(p.column, p.near.at)
	c.LEAQ(operand.Mem{Base: p.column, Index: p.wStride, Scale: 4}, p.far.at)
	c.MOVQ(place(c, "k"), p.k)
	c.MOVQ(place(c, "ahead"), p.ahead)
	branch(c.TESTQ, p.ahead, p.ahead, c.JEQ, "begun")
	c.ADDQ(p.column, p.ahead)
	c.Label("begun")
}

// fold adds up the sums of a vector's rows. It returns registers for the first four columns and for the other four: a
// quarter of each has those columns of one row, and the same quarter of the next register those of the next row.
func (p *panel) fold(i int) (halves [2][]reg.VecVirtual) {
	c := p.c
	for half := range halves {
		var y [4]reg.VecVirtual
		for j := range y {
			y[j] = p.sums[4*half+j][i]
		}
		free := c.ZMM()
		switch p.fours {
		case 1: // a transposition
			low, high := p.zip(c.VPUNPCKLDQ, c.VPUNPCKHDQ, y[0], y[1]), p.zip(c.VPUNPCKLDQ, c.VPUNPCKHDQ, y[2], y[3])
			for j := range 2 {
				rows := p.zip(c.VPUNPCKLQDQ, c.VPUNPCKHQDQ, low[j], high[j])
				halves[half] = append(halves[half], rows[:]...)
			}
		case 2: // pairs of sums
			low, high := p.zip(c.VPUNPCKLQDQ, c.VPUNPCKHQDQ, y[0], y[1]), p.zip(c.VPUNPCKLQDQ, c.VPUNPCKHQDQ, y[2], y[3])
			for j := range 2 {
				c.VSHUFPS(operand.Imm(0xdd), high[j], low[j], free)
				c.VSHUFPS(operand.Imm(0x88), high[j], low[j], low[j])
				c.VPADDD(free, low[j], low[j])
				halves[half] = append(halves[half], low[j])
			}
		case 4:
			foldRows(c, y, free)
			halves[half] = y[:1]
		}
	}
	return halves
}

// zip leaves in a what low makes of two registers, and returns that and what high does.
func (p *panel) zip(low, high func(...operand.Op), a, b reg.VecVirtual) [2]reg.VecVirtual {
	other := p.c.ZMM()
	high(b, a, other)
	low(b, a, a)
	return [2]reg.VecVirtual{a, other}
}

// store writes the sums of a vector's rows.
func (p *panel) store(halves [2][]reg.VecVirtual) {
	stride := place(p.c, "accStride")
	for quarter := range 4 {
		for row := range halves[0] {
			for half, y := range halves {
				to := operand.Mem{Base: p.out, Disp: 16 * half}
				if quarter == 0 {
					p.c.VMOVDQU32(y[row].AsX(), to)
				} else {
					p.c.VEXTRACTI32X4(operand.Imm(uint64(quarter)), y[row], to)
				}
			}
			p.c.ADDQ(stride, p.out)
		}
	}
}
