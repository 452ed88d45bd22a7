package main

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// What bicubic does at borders, and where its input's gradient goes.

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
		k.emit(k.ps("VMOVMSK"), m[0], bits)
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
