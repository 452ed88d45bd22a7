package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// The kernels of the input's gradient.

// pixels numbers the taps' pixels from those of the pairs.
func (k *gridKernel) pixels() {
	word := func(number int) value {
		v := k.vector()
		k.emit("VPBROADCASTD", k.word(number), v)
		return value{v}
	}
	one := k.number(1)
	k.forVectors(func() {
		pitch, first := word(paramPitch), word(paramFirst)
		pair := k.apply("VPSUBD", first, k.loadPlane(planePair))
		// Steps from the pair's first element to the near and the far tap.
		var step [2][2]value
		for axis, unit := range []value{one, pitch} {
			near, far := k.maskPlane(planeSwap+2*axis), k.maskPlane(planeSwap+2*axis+1)
			step[axis] = [2]value{k.keep(near, unit), k.pick(far, k.zero(), unit)}
		}
		count := word(paramPixels)
		for tap := range 4 {
			pixel := k.apply("VPADDD", step[0][tap&1], k.apply("VPADDD", step[1][tap>>1], pair))
			pixel = k.pick(k.maskPlane(planeInside+tap), pixel, k.number(0xFFFFFFFF))
			k.storePlane(planePixel+tap, k.pick(k.lessThan(pixel, count), pixel, k.number(0xFFFFFFFF)))
		}
	})
}

// lessThan returns where signed integers a are less than b.
func (k *gridKernel) lessThan(a, b value) mask {
	if k.isa.masks {
		m := k.c.K()
		k.emit("VPCMPGTD", a[0], b[0], m)
		return mask{m}
	}
	m := k.vector()
	k.emit("VPCMPGTD", a[0], b[0], m)
	return mask{m}
}

// maxAddChannels is how many channels are added at once: they share pixels
// and weights.
const maxAddChannels = 4

// gridAdd emits the additions of the input's gradient: g * w to every tap's
// pixel, in the order of positions, then taps.
func gridAdd(c *build.Context, channels int) {
	name := fmt.Sprintf("gridAdd%d", channels)
	c.Function(name)
	c.Doc(fmt.Sprintf("%s adds dy times weight to every tap's pixel, for each of %d channels.", name, channels))
	c.Attributes(attr.NOSPLIT)
	c.Pragma("noescape")
	c.SignatureExpr("func(cells *byte, n int, plane *float32, planeStride int, dy *float32, dyStride int)")
	rows := func(base, stride string) (rows []reg.GPVirtual) {
		rows = append(rows, param(c, base))
		step := param(c, stride)
		for i := 1; i < channels; i++ {
			r := c.GP64()
			c.LEAQ(operand.Mem{Base: rows[i-1], Index: step, Scale: 1}, r)
			rows = append(rows, r)
		}
		return rows
	}
	planes, dy := rows("plane", "planeStride"), rows("dy", "dyStride")
	cells, n := param(c, "cells"), param(c, "n")
	c.Label("position")
	c.TESTQ(n, n)
	c.JLE(operand.LabelRef("done"))
	var g []reg.VecVirtual
	for _, r := range dy {
		x := c.XMM()
		c.VMOVSS(operand.Mem{Base: r}, x)
		c.ADDQ(operand.Imm(4), r)
		g = append(g, x)
	}
	for tap := range 4 {
		skip := fmt.Sprintf("skip%d", tap)
		at := c.GP64()
		c.MOVLQSX(operand.Mem{Base: cells, Disp: (planePixel + tap) * planeBytes}, at)
		c.TESTQ(at, at)
		c.JLT(operand.LabelRef(skip))
		w := c.XMM()
		c.VMOVSS(operand.Mem{Base: cells, Disp: (planeWeight + tap) * planeBytes}, w)
		for i, p := range planes {
			place, term := operand.Mem{Base: p, Index: at, Scale: 4}, c.XMM()
			c.VMULSS(w, g[i], term)
			c.VADDSS(place, term, term)
			c.VMOVSS(term, place)
		}
		c.Label(skip)
	}
	c.ADDQ(operand.Imm(4), cells)
	c.DECQ(n)
	c.JMP(operand.LabelRef("position"))
	c.Label("done")
	c.RET()
}
