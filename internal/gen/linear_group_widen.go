package main

import (
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// What packs x and w for the kernels of a linear layer of codes in groups with AVX2: differences of 16 bits. Codes are signed,
// those that are not are flipped, and their zero points lower by as much.

// linearGroupWiden emits the kernels.
func linearGroupWiden(c *build.Context) {
	k := &kernel{c: c, isa: avx2, compute: f32, lanes: 8}
	widenGroupRow(k)
	widenGroupPanel(k)
}

// widen loads 16 codes, flipped.
func (k *kernel) widen(from operand.Mem, flip reg.VecVirtual) reg.VecVirtual {
	v := k.vector()
	k.emit("VPXOR", from, flip.AsX(), v.AsX())
	k.emit("VPMOVSXBW", v.AsX(), v)
	return v
}

func widenGroupRow(k *kernel) {
	c := k.c
	beginFunction(c, "widenGroupRowAVX2", "func(from *byte, n int, flip uint32, zero int, to *int16)",
		"widenGroupRowAVX2 makes differences of n codes, a multiple of 16, and zero.")
	from, n, to, flip, zero, number := param(c, "from"), param(c, "n"), param(c, "to"), k.flips(), k.vector(), param(c, "zero")
	k.emit("VMOVD", number.As32(), zero.AsX())
	k.emit("VPBROADCASTW", zero.AsX(), zero)
	while(c, n, 16, "codes", "done", func() {
		v := k.widen(operand.Mem{Base: from}, flip)
		k.emit("VPSUBW", zero, v, v)
		k.emit("VMOVDQU", v, operand.Mem{Base: to})
		c.ADDQ(operand.Imm(16), from)
		c.ADDQ(operand.Imm(32), to)
	})
	endFunction(c)
}

func widenGroupPanel(k *kernel) {
	c := k.c
	beginFunction(c, "widenGroupPanelAVX2", "func(from *byte, steps int, groups int, flip uint32, zero *float32, lo float32, hi float32, offset float32, to *byte)",
		"widenGroupPanelAVX2 makes differences of pairs of codes of 16 columns, so many of each group, and its zero points, from lo to hi, plus offset;",
		"without zero points of the offset alone.")
	from, groups, zero, to, steps, flip := param(c, "from"), param(c, "groups"), param(c, "zero"), param(c, "to"), c.GP64(), k.flips()
	zeros := value{k.vector(), k.vector()}
	pairs := func(z reg.VecVirtual) { // twice the number, as 16 bits
		low := k.vector()
		k.emit("VCVTPS2DQ", z, z)
		k.emit("VPSLLD", 16, z, z)
		k.emit("VPSRLD", 16, z, low)
		k.emit("VPOR", low, z, z)
	}
	lo, hi, offset := k.spreadParam("lo"), k.spreadParam("hi"), k.spreadParam("offset")
	for _, z := range zeros {
		k.emit("VMOVAPS", offset, z)
		pairs(z)
	}
	while(c, groups, 1, "group", "done", func() {
		branch(c.TESTQ, zero, zero, c.JEQ, "begun")
		for j, z := range zeros {
			k.emit("VMAXPS", operand.Mem{Base: zero, Disp: 32 * j}, lo, z)
			k.emit("VMINPS", hi, z, z)
			k.emit("VADDPS", offset, z, z)
			pairs(z)
		}
		c.ADDQ(operand.U32(groupPitch), zero)
		c.Label("begun")
		c.MOVQ(place(c, "steps"), steps)
		c.Label("step")
		for j, z := range zeros {
			v := k.widen(operand.Mem{Base: from, Disp: 16 * j}, flip)
			k.emit("VPSUBW", z, v, v)
			k.emit("VMOVDQU", v, operand.Mem{Base: to, Disp: 32 * j})
		}
		c.ADDQ(operand.Imm(32), from)
		c.ADDQ(operand.Imm(64), to)
		c.DECQ(steps)
		c.JNE(operand.LabelRef("step"))
	})
	endFunction(c)
}
