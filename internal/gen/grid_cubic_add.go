package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// The kernels of the input's gradient with bicubic.

// cubicPixels numbers the taps' pixels from the places of windows, and
// multiplies the weights of columns and rows.
func (k *gridKernel) cubicPixels() {
	word := func(number int) value {
		v := k.vector()
		k.emit("VPBROADCASTD", k.word(number), v)
		return value{v}
	}
	k.forVectors(func() {
		first, count, none := word(paramFirst), word(paramPixels), k.number(0xFFFFFFFF)
		for row := range cubicTaps {
			place := k.apply("VPSUBD", first, k.loadPlane(cubicPlace+row))
			inside, weight := k.loadPlane(cubicRows+row), k.loadPlane(cubicWeight+8+row)
			for column := range cubicTaps {
				tap := row*cubicTaps + column
				pixel := k.apply("VPADDD", k.plane(cubicSelect+column), place)
				outside := k.apply(k.bits("VPXOR"), none, k.apply(k.bits("VPAND"), k.plane(cubicColumns+column), inside))
				pixel = k.apply(k.bits("VPOR"), outside, pixel)
				k.storePlane(cubicPixel+tap, k.pick(k.lessThan(pixel, count), pixel, none))
				k.storePlane(cubicProduct+tap, k.apply("VMULPS", k.plane(cubicWeight+column), weight))
			}
		}
	})
}

// cubicAdd emits the additions of the input's gradient for channels that lie
// side by side: g * w to every tap's pixel, in the order of positions, then
// taps. A pixel's sum is put away with its 256th contribution.
func cubicAdd(c *build.Context, isa *isa, width int) {
	name := fmt.Sprintf("gridCubicAdd%d", width)
	if width == 16 {
		name += isa.name
	}
	beginFunction(c, name, "func(cells *byte, n int, sums *float32, dy *float32, count *uint8, chunks *float32, list *[2]int64, full int) int",
		fmt.Sprintf("%s adds dy times weight to every tap's pixel, for %d channels that lie side by", name, width),
		"side. Sums of 256 contributions go to chunks, their pixels and numbers, from full on,",
		"to list; it returns how many there are then.")
	cells, n, sums, dy, count := param(c, "cells"), param(c, "n"), param(c, "sums"), param(c, "dy"), param(c, "count")
	chunks, list, full := param(c, "chunks"), param(c, "list"), param(c, "full")
	k := &kernel{c: c, isa: isa, compute: f32, group: 1}
	pieces := cubicPieces(c, isa, width)
	g := cubicPieces(c, isa, width)
	each := func(f func(i, disp int)) {
		disp := 0
		for i, p := range pieces {
			f(i, disp)
			disp += int(p.Size())
		}
	}
	c.Label("position")
	c.TESTQ(n, n)
	c.JLE(operand.LabelRef("done"))
	each(func(i, disp int) { c.VMOVUPS(operand.Mem{Base: dy, Disp: disp}, g[i]) })
	tap, left := c.GP64(), c.GP64()
	c.MOVQ(cells, tap)
	c.MOVQ(operand.U32(cubicTaps*cubicTaps), left)
	c.Label("tap")
	at, place := c.GP64(), c.GP64()
	c.MOVLQSX(operand.Mem{Base: tap, Disp: cubicPixel * planeBytes}, at)
	c.TESTQ(at, at)
	c.JLT(operand.LabelRef("skip"))
	c.IMUL3Q(operand.Imm(uint64(width*4)), at, place)
	c.ADDQ(sums, place)
	w := c.YMM()
	if width == 16 {
		w = k.vector()
	}
	c.VBROADCASTSS(operand.Mem{Base: tap, Disp: cubicProduct * planeBytes}, w)
	each(func(i, disp int) {
		k.emit("VMULPS", sameSize(w, pieces[i]), g[i], pieces[i])
		k.emit("VADDPS", operand.Mem{Base: place, Disp: disp}, pieces[i], pieces[i])
	})
	c.ADDB(operand.Imm(1), operand.Mem{Base: count, Index: at, Scale: 1})
	c.JEQ(operand.LabelRef("full"))
	c.Label("store")
	each(func(i, disp int) { c.VMOVUPS(pieces[i], operand.Mem{Base: place, Disp: disp}) })
	c.Label("skip")
	c.ADDQ(operand.U32(planeBytes), tap)
	c.DECQ(left)
	c.JNE(operand.LabelRef("tap"))
	c.ADDQ(operand.Imm(4), cells)
	c.ADDQ(operand.Imm(uint64(width*4)), dy)
	c.DECQ(n)
	c.JMP(operand.LabelRef("position"))
	c.Label("full")
	each(func(i, disp int) {
		c.VMOVUPS(pieces[i], operand.Mem{Base: chunks, Disp: disp})
		k.emit(k.bits("VPXOR"), pieces[i], pieces[i], pieces[i])
	})
	c.ADDQ(operand.Imm(uint64(width*4)), chunks)
	c.MOVQ(at, operand.Mem{Base: list})
	c.MOVQ(full, operand.Mem{Base: list, Disp: 8})
	c.ADDQ(operand.Imm(16), list)
	c.INCQ(full)
	c.JMP(operand.LabelRef("store"))
	c.Label("done")
	c.Store(full, c.ReturnIndex(0))
	c.VZEROUPPER()
	c.RET()
}

// cubicPieces returns registers for so many elements.
func cubicPieces(c *build.Context, isa *isa, width int) (pieces []reg.VecVirtual) {
	for width > 0 {
		var v reg.VecVirtual
		switch {
		case width == 16 && isa.masks:
			v = c.ZMM()
		case width >= 8:
			v = c.YMM()
		default:
			v = c.XMM()
		}
		pieces = append(pieces, v)
		width -= int(v.Size()) / 4
	}
	return pieces
}

// sameSize returns the part of a register that is as large as another one.
func sameSize(v, as reg.VecVirtual) reg.Register {
	switch as.Size() {
	case 16:
		return v.AsX()
	case 32:
		return v.AsY()
	}
	return v
}
