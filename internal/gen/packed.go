package main

import (
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
)

// packedCodes is how many 4-bit codes the kernels handle at a time.
const packedCodes = 32

// packed has the kernels of 4-bit codes: bits are moved, so that AVX2 is
// enough for all.
func packed(c *build.Context) {
	k := &kernel{c: c, globals: newTables(), isa: avx2}
	words := func(w uint16) memory {
		return k.table(map[uint16]string{0x0F0F: "lowHalves", 0x00FF: "lowBytes", 0x0808: "signs"}[w], operand.U16(w))
	}
	for _, signed := range []bool{true, false} {
		name := either(signed, "unpackS4", "unpackU4")
		beginFunction(c, name, "func(codes *int8, packed *byte, n int)", name+" takes n codes, a multiple of 32, apart.")
		to, from := param(c, "codes"), param(c, "packed")
		inSteps(c, packedCodes, func() {
			v, upper := c.YMM(), c.YMM()
			c.VPMOVZXBW(operand.Mem{Base: from}, v)
			c.VPSLLW(operand.Imm(4), v, upper)
			c.VPOR(upper, v, v)
			c.VPAND(words(0x0F0F).Mem, v, v)
			if signed {
				c.VPXOR(words(0x0808).Mem, v, v)
				c.VPSUBB(words(0x0808).Mem, v, v)
			}
			c.VMOVDQU(v, operand.Mem{Base: to})
			c.ADDQ(operand.Imm(packedCodes/2), from)
			c.ADDQ(operand.Imm(packedCodes), to)
		})
	}
	beginFunction(c, "pack4", "func(packed *byte, codes *int8, n int)", "pack4 puts n codes, a multiple of 32, together.")
	to, from := param(c, "packed"), param(c, "codes")
	inSteps(c, packedCodes, func() {
		v, upper := c.YMM(), c.YMM()
		c.VMOVDQU(operand.Mem{Base: from}, v)
		c.VPAND(words(0x0F0F).Mem, v, v)
		c.VPSRLW(operand.Imm(4), v, upper)
		c.VPOR(upper, v, v)
		c.VPAND(words(0x00FF).Mem, v, v)
		c.VPACKUSWB(v, v, v)
		c.VPERMQ(operand.Imm(0x08), v, v)
		c.VMOVDQU(v.AsX(), operand.Mem{Base: to})
		c.ADDQ(operand.Imm(packedCodes), from)
		c.ADDQ(operand.Imm(packedCodes/2), to)
	})
	codesInRows(k)
}
