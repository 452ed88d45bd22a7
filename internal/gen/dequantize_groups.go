package main

import (
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
)

// dequantizeGroups are the kernels that make weights of codes: groups one after
// the other, each with a scale and a zero point.
func dequantizeGroups(c *build.Context) {
	for _, isa := range isas {
		for _, t := range []struct{ name, widen string }{{"S8", "VPMOVSXBD"}, {"U8", "VPMOVZXBD"}} {
			name := "dequantizeGroups" + isa.name + t.name
			beginFunction(c, name, "func(q *byte, groups int, size int, scale *float32, zero *float32, w *float32)",
				name+" stores (q - zero) * scale of so many groups of a size, a multiple of 16 elements.")
			k := &kernel{c: c, isa: isa, compute: f32, lanes: isa.bytes / 4, group: 16 / (isa.bytes / 4)}
			q, groups, scale, zero, w := param(c, "q"), param(c, "groups"), param(c, "scale"), param(c, "zero"), param(c, "w")
			size, left, s, z := param(c, "size"), c.GP64(), k.vector(), k.vector()
			while(c, groups, 1, "group", "done", func() {
				k.emit("VBROADCASTSS", operand.Mem{Base: scale}, s)
				k.emit("VBROADCASTSS", operand.Mem{Base: zero}, z)
				c.MOVQ(size, left)
				c.Label("sixteen")
				for i := range k.group {
					v := k.vector()
					k.emit(t.widen, operand.Mem{Base: q, Disp: i * k.lanes}, v)
					k.emit("VCVTDQ2PS", v, v)
					k.emit("VSUBPS", z, v, v)
					k.emit("VMULPS", s, v, v)
					k.emit("VMOVUPS", v, operand.Mem{Base: w, Disp: i * isa.bytes})
				}
				c.ADDQ(operand.Imm(16), q)
				c.ADDQ(operand.Imm(64), w)
				c.SUBQ(operand.Imm(16), left)
				c.JG(operand.LabelRef("sixteen"))
				c.ADDQ(operand.Imm(4), scale)
				c.ADDQ(operand.Imm(4), zero)
			})
			endFunction(c)
		}
	}
}
