package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// everySecond emits the copies of every second element of a size. It packs two registers into
// one: each half of it has elements of the same half of both, so that quarters are put in order last.
func everySecond(c *build.Context, size int) {
	name := fmt.Sprintf("everySecond%dAVX2", 8*size)
	beginFunction(c, name, "func(to *byte, from *byte, size int)",
		fmt.Sprintf("%s copies every second element of %d bits: size bytes of them, a multiple of 32, of twice as many.", name, 8*size))
	to, from, left := param(c, "to"), param(c, "from"), param(c, "size")
	var low reg.VecVirtual // which bits of a pair are its first element's
	if size < 4 {
		low = c.YMM()
		c.VPCMPEQD(low, low, low)
		if size == 1 {
			c.VPSRLW(operand.Imm(8), low, low)
		} else {
			c.VPSRLD(operand.Imm(16), low, low)
		}
	}
	while(c, left, 32, "next", "done", func() {
		v := [2]reg.VecVirtual{c.YMM(), c.YMM()}
		for i := range v {
			at := operand.Mem{Base: from, Disp: 32 * i}
			if low != nil {
				c.VPAND(at, low, v[i])
			} else {
				c.VMOVDQU(at, v[i])
			}
		}
		switch size {
		case 1:
			c.VPACKUSWB(v[1], v[0], v[0])
		case 2:
			c.VPACKUSDW(v[1], v[0], v[0])
		case 4:
			c.VSHUFPS(operand.Imm(0x88), v[1], v[0], v[0])
		case 8:
			c.VUNPCKLPD(v[1], v[0], v[0])
		}
		c.VPERMQ(operand.Imm(0xd8), v[0], v[0])
		c.VMOVDQU(v[0], operand.Mem{Base: to})
		c.ADDQ(operand.Imm(64), from)
		c.ADDQ(operand.Imm(32), to)
	})
	endFunction(c)
}

// repeatEach emits the copies of each element of a size.
func repeatEach(c *build.Context, size int) {
	name := fmt.Sprintf("repeatEach%dAVX2", 8*size)
	beginFunction(c, name, "func(to *byte, from *byte, step int, count int, size int)",
		fmt.Sprintf("%s stores copies of each of count elements of %d bits, which lie step bytes apart: size bytes of them, at least 32.", name, 8*size))
	to, from, step, count, bytes := param(c, "to"), param(c, "from"), param(c, "step"), param(c, "count"), param(c, "size")
	all, left := c.YMM(), c.GP64()
	while(c, count, 1, "next", "done", func() {
		at := operand.Mem{Base: from}
		switch size {
		case 1:
			c.VPBROADCASTB(at, all)
		case 2:
			c.VPBROADCASTW(at, all)
		case 4:
			c.VPBROADCASTD(at, all)
		case 8:
			c.VPBROADCASTQ(at, all)
		}
		c.MOVQ(bytes, left)
		for _, vectors := range []int{4, 1} {
			short := operand.Imm(uint64(32*vectors - 1))
			c.SUBQ(short, left) // what is left is enough while this is above 0
			while(c, left, 32*vectors, fmt.Sprint("vectors", vectors), fmt.Sprint("done", vectors), func() {
				for i := range vectors {
					c.VMOVDQU(all, operand.Mem{Base: to, Disp: 32 * i})
				}
				c.ADDQ(operand.Imm(uint64(32*vectors)), to)
			})
			c.ADDQ(short, left)
		}
		c.ADDQ(left, to)
		c.VMOVDQU(all, operand.Mem{Base: to, Disp: -32}) // covers others
		c.ADDQ(step, from)
	})
	endFunction(c)
}
