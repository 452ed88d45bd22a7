package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
)

// reverseRows emits the copies from the end on, a vector at a time, of elements of 32 and of 64 bits.
func reverseRows(c *build.Context) {
	const vector = 32
	for _, size := range []int{4, 8} {
		lanes := vector / size
		beginFunction(c, fmt.Sprintf("reverse%dAVX2", 8*size), "func(z, x *uint8, n int)",
			fmt.Sprintf("z[i] = x[n-1-i] of %d bits, for n a multiple of %d, not 0.", 8*size, lanes))
		z, x, n := param(c, "z"), param(c, "x"), param(c, "n")
		backwards := c.YMM()
		if size == 4 {
			c.VMOVDQU(words(c, "backwards", 7, 6, 5, 4, 3, 2, 1, 0), backwards)
		}
		c.LEAQ(operand.Mem{Base: x, Index: n, Scale: uint8(size), Disp: -vector}, x)
		c.Label("vector")
		v := c.YMM()
		if size == 4 {
			c.VPERMD(operand.Mem{Base: x}, backwards, v)
		} else {
			c.VPERMQ(operand.Imm(0x1b), operand.Mem{Base: x}, v)
		}
		c.VMOVDQU(v, operand.Mem{Base: z})
		c.SUBQ(operand.Imm(vector), x)
		c.ADDQ(operand.Imm(vector), z)
		c.SUBQ(operand.Imm(uint64(lanes)), n)
		c.JNZ(operand.LabelRef("vector"))
		endFunction(c)
	}
}
