package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// maxAddChannels is how many channels are added at once: they share pixels
// and weights.
const maxAddChannels = 4

// The kernels of the input's gradient, with sums in a frame.

// framedCount emits the count of positions in each cell.
func framedCount(c *build.Context) {
	beginFunction(c, "gridFramedCount", "func(cells *byte, n int, count *uint8) (bits int)",
		"gridFramedCount counts the positions in each cell but that of number 0, and returns",
		"the union of all the counts' bits.")
	cells, n, count, bits := param(c, "cells"), param(c, "n"), param(c, "count"), c.GP64()
	c.XORQ(bits, bits)
	c.LEAQ(operand.Mem{Base: cells, Index: n, Scale: 4, Disp: planePair * planeBytes}, cells)
	c.NEGQ(n)
	c.JEQ(operand.LabelRef("done"))
	c.Label("position")
	at, v := c.GP64(), c.GP64()
	c.MOVL(operand.Mem{Base: cells, Index: n, Scale: 4}, at.As32())
	c.TESTL(at.As32(), at.As32()) // long runs of positions are there
	c.JEQ(operand.LabelRef("next"))
	c.MOVBLZX(operand.Mem{Base: count, Index: at, Scale: 1}, v.As32())
	c.INCL(v.As32())
	c.MOVB(v.As8(), operand.Mem{Base: count, Index: at, Scale: 1})
	c.ORL(v.As32(), bits.As32())
	c.Label("next")
	c.INCQ(n)
	c.JNE(operand.LabelRef("position"))
	c.Label("done")
	c.Store(bits, c.Return("bits"))
	c.RET()
}

// framedAdd emits what adds to sums with a frame, whose rows lie row bytes apart.
func framedAdd(c *build.Context, channels int) {
	name := fmt.Sprintf("gridFramedAdd%d", channels)
	beginFunction(c, name, "func(cells *byte, n int, plane *float32, row int, planeStride int, dy *float32, dyStride int)",
		fmt.Sprintf("%s adds dy times weight to every tap's pixel, for each of %d channels.", name, channels))
	planes := rowsApart(c, param(c, "plane"), param(c, "planeStride"), channels)
	dy := rowsApart(c, param(c, "dy"), param(c, "dyStride"), channels)
	cells, n, row := param(c, "cells"), param(c, "n"), param(c, "row")
	c.SHRQ(operand.Imm(2), row)
	i := c.GP64()
	c.XORQ(i, i)
	c.JMP(operand.LabelRef("more"))
	c.Label("position")
	at := c.GP64()
	c.MOVL(operand.Mem{Base: cells, Index: i, Scale: 4, Disp: planePair * planeBytes}, at.As32())
	c.TESTL(at.As32(), at.As32()) // beside the band: long runs of positions are
	c.JEQ(operand.LabelRef("next"))
	var g []reg.VecVirtual
	for _, r := range dy {
		x := c.XMM()
		c.VMOVSS(operand.Mem{Base: r, Index: i, Scale: 4}, x)
		g = append(g, x)
	}
	for tap := range 4 {
		if tap == 2 {
			c.ADDQ(row, at)
		}
		w := c.XMM()
		c.VMOVSS(operand.Mem{Base: cells, Index: i, Scale: 4, Disp: (planeWeight + tap) * planeBytes}, w)
		for k, p := range planes {
			place, term := operand.Mem{Base: p, Index: at, Scale: 4, Disp: tap & 1 * 4}, c.XMM()
			c.VMULSS(w, g[k], term)
			c.VADDSS(place, term, term)
			c.VMOVSS(term, place)
		}
	}
	c.Label("next")
	c.INCQ(i)
	c.Label("more")
	branch(c.CMPQ, i, n, c.JLT, "position")
	c.RET()
}

// framedQuad emits framedAdd for sums of which those of a pixel lie side by
// side, in four places.
func framedQuad(c *build.Context, channels int) {
	name := fmt.Sprintf("gridFramedQuad%d", channels)
	beginFunction(c, name, "func(cells *byte, n int, sums *float32, row int, dy *float32, dyStride int)",
		fmt.Sprintf("%s adds dy times weight to every tap's pixel, for %d channels that lie side by side", name, channels),
		"in four places; rows of sums lie row bytes apart.")
	cells, n, sums, row := param(c, "cells"), param(c, "n"), param(c, "sums"), param(c, "row")
	dy := rowsApart(c, param(c, "dy"), param(c, "dyStride"), channels)
	i := c.GP64()
	c.XORQ(i, i)
	c.JMP(operand.LabelRef("more"))
	c.Label("position")
	at, g := c.GP64(), c.XMM()
	c.MOVL(operand.Mem{Base: cells, Index: i, Scale: 4, Disp: planePair * planeBytes}, at.As32())
	c.SHLQ(operand.Imm(4), at)
	c.JEQ(operand.LabelRef("next")) // beside the band: long runs of positions are
	c.ADDQ(sums, at)
	for k, r := range dy {
		from := operand.Mem{Base: r, Index: i, Scale: 4}
		if k == 0 {
			c.VMOVSS(from, g)
		} else {
			c.VINSERTPS(operand.Imm(uint64(k<<4)), from, g, g)
		}
	}
	for tap := range 4 {
		if tap == 2 {
			c.ADDQ(row, at)
		}
		place, term := operand.Mem{Base: at, Disp: tap & 1 * 16}, c.XMM()
		c.VBROADCASTSS(operand.Mem{Base: cells, Index: i, Scale: 4, Disp: (planeWeight + tap) * planeBytes}, term)
		c.VMULPS(term, g, term)
		c.VADDPS(place, term, term)
		c.VMOVUPS(term, place)
	}
	c.Label("next")
	c.INCQ(i)
	c.Label("more")
	branch(c.CMPQ, i, n, c.JLT, "position")
	c.RET()
}

// framedTranspose emits the way of such sums to planes.
func framedTranspose(c *build.Context) {
	beginFunction(c, "gridFramedTranspose", "func(from *float32, n int, to *float32, toStride int, channels int)",
		"gridFramedTranspose moves n sums, a multiple of 4, of 2 to 4 channels to planes that lie",
		"toStride bytes apart.")
	from, n, to, stride, channels := param(c, "from"), param(c, "n"), param(c, "to"), param(c, "toStride"), param(c, "channels")
	third := c.GP64()
	c.LEAQ(operand.Mem{Base: to, Index: stride, Scale: 2}, third)
	while(c, n, 4, "pixels", "done", func() {
		var v, pairs [4]reg.VecVirtual
		for i := range v {
			v[i], pairs[i] = c.XMM(), c.XMM()
			c.VMOVUPS(operand.Mem{Base: from, Disp: 16 * i}, v[i])
		}
		c.VUNPCKLPS(v[1], v[0], pairs[0])
		c.VUNPCKLPS(v[3], v[2], pairs[1])
		c.VUNPCKHPS(v[1], v[0], pairs[2])
		c.VUNPCKHPS(v[3], v[2], pairs[3])
		transposed := c.XMM()
		store := func(high bool, pair int, place operand.Mem) {
			if high {
				c.VUNPCKHPD(pairs[pair+1], pairs[pair], transposed)
			} else {
				c.VUNPCKLPD(pairs[pair+1], pairs[pair], transposed)
			}
			c.VMOVUPS(transposed, place)
		}
		store(false, 0, operand.Mem{Base: to})
		store(true, 0, operand.Mem{Base: to, Index: stride, Scale: 1})
		branch(c.CMPQ, channels, operand.Imm(3), c.JLT, "next")
		store(false, 2, operand.Mem{Base: third})
		c.JEQ(operand.LabelRef("next"))
		store(true, 2, operand.Mem{Base: third, Index: stride, Scale: 1})
		c.Label("next")
		for _, r := range []reg.GPVirtual{to, third} {
			c.ADDQ(operand.Imm(16), r)
		}
		c.ADDQ(operand.Imm(64), from)
	})
	c.RET()
}
