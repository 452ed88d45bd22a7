package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
)

// fewAdds emits the additions to the input's gradient of images with few positions, of nearest, images and volumes.
func fewAdds(c *build.Context) {
	for _, compute := range []*storage{f32, f64} {
		for _, taps := range []int{1, 4, 8} {
			fewAdd(c, compute, taps)
		}
	}
}

// fewAdd emits those of images none of whose pixels has a full chunk, where positions have so many taps; the weight of
// a single one is 1. A tap outside is added to other memory, of which each tap has a place: a branch would often be
// foreseen wrongly.
func fewAdd(c *build.Context, compute *storage, taps int) {
	name := fmt.Sprintf("gridFewAdd%d%s", taps, compute.name)
	beginFunction(c, name, "func(cells *byte, n int, images int, sums *byte, next int, dy *byte)",
		fmt.Sprintf("%s adds dy times weight to every tap's pixel, for images one after the other, of n", name),
		"positions each; their sums lie next bytes apart.")
	k, size := &kernel{c: c, isa: avx2, compute: compute, group: 1}, compute.size
	cells, sums, dy, i, n := param(c, "cells"), param(c, "sums"), param(c, "dy"), c.GP64(), c.GP64()
	outside, g, term := c.AllocLocal(4*size), c.XMM(), c.XMM()
	c.VXORPS(g, g, g)
	for at := 0; at < 4*size; at += 16 {
		c.VMOVUPS(g, outside.Offset(at))
	}
	c.XORQ(i, i)
	c.Label("image")
	branch(c.CMPQ, place(c, "images"), operand.Imm(0), c.JLE, "done")
	c.MOVQ(place(c, "n"), n)
	while(c, n, 1, "position", "next", func() {
		k.emit(k.scalar("VMOV"), operand.Mem{Base: dy, Index: i, Scale: uint8(size)}, g)
		for tap := range taps {
			at, to, other := c.GP64(), c.GP64(), c.GP64()
			c.MOVLQSX(operand.Mem{Base: cells, Index: i, Scale: 4, Disp: planePair*planeBytes/4*size + (planePlace+tap)*planeBytes}, at)
			c.LEAQ(operand.Mem{Base: sums, Index: at, Scale: uint8(size)}, to)
			c.LEAQ(outside.Offset(tap%4*size), other)
			c.TESTQ(at, at)
			c.CMOVQLT(other, to)
			if taps > 1 {
				w := operand.Mem{Base: cells, Index: i, Scale: uint8(size), Disp: (planeWeight + tap) * planeBytes / 4 * size}
				k.emit(k.scalar("VMUL"), w, g, term)
				k.emit(k.scalar("VADD"), operand.Mem{Base: to}, term, term)
			} else {
				k.emit(k.scalar("VADD"), operand.Mem{Base: to}, g, term)
			}
			k.emit(k.scalar("VMOV"), term, operand.Mem{Base: to})
		}
		c.INCQ(i)
	})
	c.ADDQ(place(c, "next"), sums)
	c.DECQ(place(c, "images"))
	c.JMP(operand.LabelRef("image"))
	c.Label("done")
	c.RET()
}
