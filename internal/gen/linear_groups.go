package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/ir"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// The kernels of a linear layer of codes in groups: 1 to 4 rows of x against a panel of w, whose lanes are columns. A step
// has 32 bits of each column and of each row of x: 4 codes, or 2 differences of 16 bits. Steps make pieces, and pieces groups,
// after each of which sums are scaled and added to y.

const (
	groupMostRows = 4
	groupPitch    = 4 * 64 // bytes from row to row of y, and from group to group of scales
)

// groupKernel is one of them under construction.
type groupKernel struct {
	*kernel
	vectors int  // of a panel
	pairs   bool // sums are corrected, after each piece, by a product of pairs of 16 bits
}

// linearGroups emits the kernels.
func linearGroups(c *build.Context) {
	for _, g := range []groupKernel{
		{&kernel{c: c, isa: avx512, compute: f32, lanes: 16}, 4, true},
		{&kernel{c: c, isa: avx2, compute: f32, lanes: 8}, 2, false},
	} {
		for rows := 1; rows <= groupMostRows; rows++ {
			name := fmt.Sprintf("groupSums%d%s", rows, either(g.pairs, "VNNI", "AVX2"))
			beginFunction(c, name, "func(x *byte, xStride int, xPairs *byte, w *byte, wPairs *byte, scale *float32, steps int, pieces int, groups int, xScale *float32, y *float32, acc *int32, keep int)",
				name+" adds float(acc) * (xScale * scale) of some groups to y, of so many rows of x and a panel w.",
				"If keep is odd, acc begins with what is there; from 2 on it stays there, and y as it is.")
			g.sums(rows)
			endFunction(c)
		}
	}
}

// sums emits the sums of some rows of x.
func (g *groupKernel) sums(count int) {
	c := g.c
	x := newFourRows(c, param(c, "xStride"))
	c.Load(c.Param("x"), x.at)
	pairs := fourRows{c.GP64(), x.stride, x.stride3}
	w, wPairs, scale, pieces, left := param(c, "w"), c.GP64(), param(c, "scale"), c.GP64(), c.GP64()
	if g.pairs {
		c.Load(c.Param("xPairs"), pairs.at)
		c.Load(c.Param("wPairs"), wPairs)
	}
	acc := g.newSums(count, g.vectors)
	columns, of := g.newVectors(g.vectors), g.vector()
	c.Label("group")
	g.beginGroup(acc)
	c.MOVQ(place(c, "pieces"), pieces)
	c.Label("piece")
	c.MOVQ(place(c, "steps"), left)
	c.Label("step")
	g.multiply(acc, columns, of, w, x, g.dot)
	c.DECQ(left)
	c.JNE(operand.LabelRef("step"))
	if g.pairs {
		g.multiply(acc, columns, of, wPairs, pairs, func(w, x, sum reg.VecVirtual) { vpdpwssd(c, w, x, sum) })
	}
	c.DECQ(pieces)
	c.JNE(operand.LabelRef("piece"))
	g.endGroup(acc, columns, of, scale)
	c.ADDQ(operand.U32(groupPitch), scale)
	c.DECQ(place(c, "groups"))
	c.JNE(operand.LabelRef("group"))
}

func (g *groupKernel) newVectors(count int) (v value) {
	for range count {
		v = append(v, g.vector())
	}
	return v
}

// multiply takes a step: of all columns with each row of x.
func (g *groupKernel) multiply(acc []value, columns value, of reg.VecVirtual, w reg.GPVirtual, x fourRows, dot func(w, x, sum reg.VecVirtual)) {
	for j, v := range columns {
		g.emit("VMOVUPS", operand.Mem{Base: w, Disp: j * g.isa.bytes}, v)
	}
	for i, sums := range acc {
		g.c.VPBROADCASTD(x.row(i), of)
		for j, sum := range sums {
			dot(columns[j], of, sum)
		}
	}
	g.c.ADDQ(operand.Imm(4), x.at)
	g.c.ADDQ(operand.U32(g.vectors*g.isa.bytes), w)
}

// dot adds products to sums.
func (g *groupKernel) dot(w, x, sum reg.VecVirtual) {
	if g.pairs {
		vpdpbusd(g.c, w, x, sum)
		return
	}
	product := g.vector()
	g.emit("VPMADDWD", w, x, product)
	g.emit("VPADDD", product, sum, sum)
}

// eachAt calls f with the sums of all rows, and where they lie from a pointer on.
func (g *groupKernel) eachAt(acc []value, from reg.GPVirtual, f func(at operand.Mem, v reg.VecVirtual)) {
	for i, sums := range acc {
		for j, v := range sums {
			f(operand.Mem{Base: from, Disp: i*groupPitch + j*g.isa.bytes}, v)
		}
	}
}

// beginGroup sets what sums begin with.
func (g *groupKernel) beginGroup(acc []value) {
	c, from := g.c, g.c.GP64()
	c.Load(c.Param("keep"), from)
	c.ANDQ(operand.Imm(1), from)
	c.JEQ(operand.LabelRef("begin"))
	c.Load(c.Param("acc"), from)
	g.eachAt(acc, from, func(at operand.Mem, v reg.VecVirtual) { g.emit("VMOVUPS", at, v) })
	c.JMP(operand.LabelRef("begun"))
	c.Label("begin")
	g.eachAt(acc, from, func(_ operand.Mem, v reg.VecVirtual) { g.emit("VXORPS", v, v, v) })
	c.Label("begun")
}

// endGroup adds what sums stand for to y, or keeps them.
func (g *groupKernel) endGroup(acc []value, scales value, xScale reg.VecVirtual, scale reg.GPVirtual) {
	c, to, from := g.c, g.c.GP64(), g.c.GP64()
	c.Load(c.Param("keep"), to)
	c.ANDQ(operand.Imm(2), to)
	c.JEQ(operand.LabelRef("scale"))
	c.Load(c.Param("acc"), to)
	g.eachAt(acc, to, func(at operand.Mem, v reg.VecVirtual) { g.emit("VMOVUPS", v, at) })
	c.JMP(operand.LabelRef("kept"))
	c.Label("scale")
	c.Load(c.Param("y"), to)
	c.Load(c.Param("xScale"), from)
	for j, v := range scales {
		g.emit("VMOVUPS", operand.Mem{Base: scale, Disp: j * g.isa.bytes}, v)
	}
	for i, sums := range acc {
		g.emit("VBROADCASTSS", operand.Mem{Base: from, Disp: 4 * i}, xScale)
		for j, sum := range sums {
			both, y := g.vector(), operand.Mem{Base: to, Disp: i*groupPitch + j*g.isa.bytes}
			g.emit("VMULPS", scales[j], xScale, both)
			g.emit("VCVTDQ2PS", sum, sum)
			g.emit("VMULPS", both, sum, sum)
			g.emit("VADDPS", y, sum, sum)
			g.emit("VMOVUPS", sum, y)
		}
	}
	c.Label("kept")
}

// vpdpwssd adds to each 32-bit element of sum two products of 16-bit ones. avo does not have the instruction.
func vpdpwssd(c *build.Context, a, b, sum reg.VecVirtual) {
	c.Instruction(&ir.Instruction{
		Opcode: "VPDPWSSD", Operands: []operand.Op{a, b, sum},
		Inputs: []operand.Op{a, b, sum}, Outputs: []operand.Op{sum}, ISA: []string{"AVX512VNNI"},
	})
}
