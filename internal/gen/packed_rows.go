package main

import (
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Rows of an odd number of 4-bit codes, each of which ends with half a byte that is none. A turn takes a row, or as many
// short ones as a vector holds; its last vector is moved by a table that says which byte each of its 16 is
// (cpu/packed_amd64.go). What a turn writes too much the next one writes again.

// codesInRows has their kernels.
func codesInRows(k *kernel) {
	c, halves := k.c, k.table("lowHalves", operand.U16(0x0F0F)).Mem

	beginFunction(c, "unpackRowsAVX2", "func(codes, packed *byte, turns, more, codesTurn, packedTurn int, order, values *[16]byte)",
		"unpackRowsAVX2 takes codes apart, each turn's more+1 vectors of 16; values are what halves of bytes mean.")
	values := c.XMM()
	c.VMOVDQU(operand.Mem{Base: param(c, "values")}, values)
	inTurns(c, "packed", 8, "codes", 16, func(from, to operand.Mem, order reg.VecVirtual) {
		v, upper := c.XMM(), c.XMM()
		c.VPMOVZXBW(from, v)
		c.VPSLLW(operand.Imm(4), v, upper)
		c.VPOR(upper, v, v)
		c.VPAND(halves, v, v)
		if order != nil {
			c.VPSHUFB(order, v, v)
		}
		c.VPSHUFB(v, values, v)
		c.VMOVDQU(v, to)
	})

	beginFunction(c, "packRowsAVX2", "func(packed, codes *byte, turns, more, packedTurn, codesTurn int, order *[16]byte)",
		"packRowsAVX2 puts codes together.")
	weights := k.table("halfWeights", operand.U16(0x1001)).Mem
	inTurns(c, "codes", 16, "packed", 8, func(from, to operand.Mem, order reg.VecVirtual) {
		v := c.XMM()
		c.VMOVDQU(from, v)
		if order != nil {
			c.VPSHUFB(order, v, v)
		}
		c.VPAND(halves, v, v)
		c.VPMADDUBSW(weights, v, v)
		c.VPACKUSWB(v, v, v)
		c.VMOVQ(v, to)
	})
}

// inTurns emits the rest of a function whose turns take vectors from one place to another: move for each, with an order
// for a turn's last.
func inTurns(c *build.Context, from string, fromSize int, to string, toSize int, move func(from, to operand.Mem, order reg.VecVirtual)) {
	order, more := c.XMM(), param(c, "more")
	c.VMOVDQU(operand.Mem{Base: param(c, "order")}, order)
	fromPlace, toPlace, fromTurn, toTurn := param(c, from), param(c, to), param(c, from+"Turn"), param(c, to+"Turn")
	fromNext, toNext, left := c.GP64(), c.GP64(), c.GP64()
	while(c, param(c, "turns"), 1, "turn", "done", func() {
		c.MOVQ(fromPlace, fromNext)
		c.MOVQ(toPlace, toNext)
		c.MOVQ(more, left)
		while(c, left, 1, "vector", "last", func() {
			move(operand.Mem{Base: fromNext}, operand.Mem{Base: toNext}, nil)
			c.ADDQ(operand.Imm(uint64(fromSize)), fromNext)
			c.ADDQ(operand.Imm(uint64(toSize)), toNext)
		})
		move(operand.Mem{Base: fromNext}, operand.Mem{Base: toNext}, order)
		c.ADDQ(fromTurn, fromPlace)
		c.ADDQ(toTurn, toPlace)
	})
	endFunction(c)
}
