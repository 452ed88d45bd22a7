package main

import (
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
)

// widen emits the conversions of rows of 16-bit floats to f32.
func widen(c *build.Context) {
	for _, t := range []*storage{bf16, f16} {
		name := "widenAVX2" + t.name
		beginFunction(c, name, "func(to *float32, from *byte, n int)", name+" converts n elements: a multiple of 8.")
		to, from, v := param(c, "to"), param(c, "from"), c.YMM()
		inSteps(c, 8, func() {
			if t == bf16 {
				c.VPMOVZXWD(operand.Mem{Base: from}, v)
				c.VPSLLD(operand.Imm(16), v, v)
			} else {
				c.VCVTPH2PS(operand.Mem{Base: from}, v)
			}
			c.VMOVUPS(v, operand.Mem{Base: to})
			c.ADDQ(operand.Imm(32), to)
			c.ADDQ(operand.Imm(16), from)
		})
	}
}
