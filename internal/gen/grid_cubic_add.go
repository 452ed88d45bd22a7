package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// What bicubic does at borders, and the kernels of its input's gradient.

// moveTaps finds the taps of a vector of positions some of whose are outside:
// with zeros they are left out, with border clipped. Those of coordinates that
// are no finite numbers, and all edges with reflection, are left to Go.
func (k *gridKernel) moveTaps(edge reg.GPVirtual) {
	left := k.newLabel("left")
	k.c.MOVL(edge, k.plane(planeEdge).plus(4).Mem)
	k.jumpMode(modeReflection, left)
	none := k.zero()
	always := k.apply("VPSUBD", k.integer(paramMode), none) // modeBorder is 1
	var finite mask
	for axis := range 2 {
		c := k.loadPlane(planeCoord + axis)
		if m := k.compare(k.sub(c, c), equal, none); axis == 0 {
			finite = m
		} else {
			finite = k.both(finite, m)
		}
	}
	k.storeBits(finite, k.plane(planeEdge).plus(4))
	var start value
	var some [2]value
	for axis := range 2 {
		c := k.loadPlane(planeCoord + axis)
		low := k.sub(k.floor(c), k.float(1))
		low = k.max(k.min(low, k.parameter(paramSize+axis)), k.float(-2*cubicTaps))
		place, last := k.apply("VCVTTPS2DQ", low), k.apply("VCVTTPS2DQ", k.parameter(paramLast+axis))
		if axis == 0 {
			start = k.apply("VPSUBD", k.number(cubicTaps-1), last)
			start = k.apply("VPMAXSD", none, k.apply("VPMINSD", start, place))
		}
		for tap := range cubicTaps {
			if tap > 0 {
				place = k.apply("VPADDD", k.number(1), place)
			}
			clipped := k.apply("VPMAXSD", none, k.apply("VPMINSD", last, place))
			inside := k.apply(k.bits("VPOR"), always, k.allOf(k.same(place, clipped)))
			if tap == 0 {
				some[axis] = inside
			} else {
				some[axis] = k.apply(k.bits("VPOR"), inside, some[axis])
			}
			if axis == 0 {
				k.storePlane(cubicSelect+tap, k.apply("VPSUBD", start, clipped))
				k.storePlane(cubicColumns+tap, inside)
			} else {
				k.storePlane(cubicPlace+tap, k.apply("VPADDD", start, k.apply("VPMULLD", k.integer(paramPitch), clipped)))
				k.storePlane(cubicRows+tap, inside)
			}
		}
	}
	live := k.apply(k.bits("VPAND"), some[0], some[1])
	k.storePlane(cubicLive, live)
	k.storePlane(cubicLive+1, live)
	var elements [cubicTaps]value
	for tap := range elements {
		elements[tap] = k.loadPlane(cubicSelect + tap)
	}
	for m, v := range k.turn(elements) {
		k.storePlane(cubicControl+m, v)
	}
	k.c.Label(left)
}

// storeBits stores of which lanes a mask does not hold, and returns them.
func (k *gridKernel) storeBits(m mask, to memory) reg.GPVirtual {
	bits := k.c.GP32()
	if k.isa.masks {
		k.emit("KMOVW", m[0], bits)
	} else {
		k.emit("VMOVMSKPS", m[0], bits)
	}
	k.c.XORL(operand.U32(1<<k.lanes-1), bits)
	k.c.MOVL(bits, to.Mem)
	return bits
}

// same returns where integers are equal.
func (k *gridKernel) same(a, b value) mask {
	m := mask{k.vector()}
	if k.isa.masks {
		m[0] = k.c.K()
	}
	k.emit("VPCMPEQD", b[0], a[0], m[0])
	return m
}

// allOf returns a mask as words of ones or zeros.
func (k *gridKernel) allOf(m mask) value { return k.keep(m, k.number(0xFFFFFFFF)) }

// cubicPixels numbers the taps' pixels from the places of windows, and
// multiplies the weights of columns and rows.
func (k *gridKernel) cubicPixels() {
	k.forVectors(func() {
		first, count, none := k.integer(paramFirst), k.integer(paramPixels), k.number(0xFFFFFFFF)
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
	w := c.YMM()
	if width == 16 {
		w = k.vector()
	}
	row, left, at, place := c.GP64(), c.GP64(), c.GP64(), c.GP64()
	in := func(disp int) operand.Mem { return operand.Mem{Base: sums, Index: place, Scale: 1, Disp: disp} }
	label := func(name string, column int) string { return fmt.Sprintf("%s%d", name, column) }
	c.MOVQ(cells, row)
	c.MOVQ(operand.U32(cubicTaps), left)
	c.Label("row")
	for column := range cubicTaps {
		c.MOVLQSX(operand.Mem{Base: row, Disp: (cubicPixel + column) * planeBytes}, at)
		c.TESTQ(at, at)
		c.JLT(operand.LabelRef(label("skip", column)))
		c.IMUL3Q(operand.Imm(uint64(width*4)), at, place)
		c.VBROADCASTSS(operand.Mem{Base: row, Disp: (cubicProduct + column) * planeBytes}, w)
		each(func(i, disp int) {
			k.emit("VMULPS", sameSize(w, pieces[i]), g[i], pieces[i])
			k.emit("VADDPS", in(disp), pieces[i], pieces[i])
		})
		c.ADDB(operand.Imm(1), operand.Mem{Base: count, Index: at, Scale: 1})
		c.JEQ(operand.LabelRef(label("full", column)))
		c.Label(label("store", column))
		each(func(i, disp int) { c.VMOVUPS(pieces[i], in(disp)) })
		c.Label(label("skip", column))
	}
	c.ADDQ(operand.U32(cubicTaps*planeBytes), row)
	c.DECQ(left)
	c.JNE(operand.LabelRef("row"))
	c.ADDQ(operand.Imm(4), cells)
	c.ADDQ(operand.Imm(uint64(width*4)), dy)
	c.DECQ(n)
	c.JMP(operand.LabelRef("position"))
	for column := range cubicTaps {
		c.Label(label("full", column))
		each(func(i, disp int) {
			c.VMOVUPS(pieces[i], operand.Mem{Base: chunks, Disp: disp})
			k.emit(k.bits("VPXOR"), pieces[i], pieces[i], pieces[i])
		})
		c.ADDQ(operand.Imm(uint64(width*4)), chunks)
		c.MOVQ(at, operand.Mem{Base: list})
		c.MOVQ(full, operand.Mem{Base: list, Disp: 8})
		c.ADDQ(operand.Imm(16), list)
		c.INCQ(full)
		c.JMP(operand.LabelRef(label("store", column)))
	}
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
