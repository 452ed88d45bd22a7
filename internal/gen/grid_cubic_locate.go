package main

import (
	"math"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Where bicubic's taps are along each axis, and what becomes of them.

// padPlace puts places of the compute type, which it changes, through the
// padding's rule.
func (k *gridKernel) padPlace(axis int, p value) {
	done, border := k.newLabel("padded"), k.newLabel("border")
	k.jumpMode(modeZeros, done)
	k.jumpMode(modeBorder, border)
	k.reflect(axis, p, nil)
	k.c.Label(border)
	k.move(k.keep(k.compare(p, greater, k.zero()), p), p) // +0 for a NaN
	last := k.parameter(paramLast + axis)
	k.move(k.pick(k.compare(p, greaterEqual, last), last, p), p)
	k.c.Label(done)
}

// locateCubic fills cells.
func (k *gridKernel) locateCubic(dims int) {
	n := k.narrow()
	k.holdCoordinates(n, dims)
	moved := k.c.GP32() // positions some of whose taps are not where their places are
	k.forVectors(func() {
		for axis := range dims {
			c := k.add(k.loadPlane(planeCoord+axis), k.float(1))
			c = k.sub(k.mul(c, k.parameter(paramScale+axis)), k.parameter(paramShift+axis))
			c = k.mul(c, k.parameter(paramFactor+axis))
			k.storePlane(planeCoord+axis, c)
			base, t := k.floor(c), value{k.vector()}
			low, high := k.sub(base, k.float(1)), k.add(base, k.float(2))
			bits := k.storeBits(k.both(k.compare(low, greaterEqual, k.zero()), k.compare(high, less, k.parameter(paramSize+axis))), k.integers(planeOutside))
			if axis == 0 {
				k.c.MOVL(bits, moved)
			} else {
				k.c.ORL(bits, moved)
			}
			inside, located := k.newLabel("inside"), k.newLabel("located")
			branch(k.c.TESTL, bits, bits, k.c.JEQ, inside)
			k.move(k.offsetsAlong(n, dims, axis, c), t)
			k.c.JMP(operand.LabelRef(located))
			k.c.Label(inside)
			step := n.integer(paramStep + 1<<axis)
			offset := n.apply("VPMULLD", step, k.whole("VCVTT", low, n))
			for tap := range cubicTaps {
				if tap > 0 {
					offset = n.apply("VPADDD", step, offset)
				}
				n.emit("VMOVUPS", offset[0], k.offsets(k.cells, cubicOffset+axis*cubicTaps+tap))
			}
			k.move(k.sub(c, base), t)
			k.c.Label(located)
			k.weights(axis, t)
		}
		k.locateWindows(n, dims, moved)
	})
}

// weights stores the weights of the taps along an axis, from the coordinates'
// fractions, and their derivatives where these are asked for.
func (k *gridKernel) weights(axis int, t value) {
	store := func(i int, v value) { k.storePlane(cubicWeight+2*cubicTaps*axis+i, v) }
	const a = cubicA
	s := k.sub(k.float(1), t)
	far := [2]value{k.add(t, k.float(1)), k.add(s, k.float(1))}
	near := [2]value{t, s}
	for side := range 2 {
		u := far[side]
		v := k.sub(k.mul(u, k.float(a)), k.float(5*a))
		v = k.add(k.mul(v, u), k.float(8*a))
		store(3*side, k.sub(k.mul(v, u), k.float(4*a)))
		u = near[side]
		v = k.mul(k.sub(k.mul(u, k.float(a+2)), k.float(a+3)), u)
		store(1+side, k.add(k.mul(v, u), k.float(1)))
	}
	skip := k.newLabel("slopes")
	branch(k.c.CMPL, k.word(paramSlopes), operand.Imm(0), k.c.JEQ, skip)
	for side := range 2 {
		u := far[side]
		outer := k.add(k.mul(k.sub(k.mul(u, k.float(3*a)), k.float(10*a)), u), k.float(8*a))
		u = near[side]
		inner := k.mul(k.sub(k.mul(u, k.float(3*(a+2))), k.float(2*(a+3))), u)
		for i, v := range []value{outer, inner} {
			if side == 1 {
				v = k.apply(k.bits("VPXOR"), k.float(math.Copysign(0, -1)), v)
			}
			store(cubicTaps+[2][2]int{{0, 1}, {3, 2}}[side][i], v)
		}
	}
	k.c.Label(skip)
}

// offsetsAlong stores those of the taps along an axis, and returns the
// coordinates' fractions.
func (k *gridKernel) offsetsAlong(n *gridKernel, dims, axis int, c value) value {
	// Without a finite number: the end that it is beyond with border, else 0.
	finite := k.compare(k.sub(c, c), equal, k.zero())
	end := k.keep(k.compare(c, greater, k.zero()), k.parameter(paramBeyond+axis))
	whole, base, padded := k.pick(finite, c, end), value{k.vector()}, k.newLabel("numbers")
	k.move(k.floor(whole), base)
	t := k.sub(whole, base)
	branch(k.c.CMPL, k.word(paramMode), operand.Imm(modeZeros), k.c.JNE, padded)
	k.move(k.floor(c), base) // which has no tap inside
	k.c.Label(padded)
	distance := value{k.vector()}
	k.move(k.float(-1), distance)
	k.atTaps("tap", func(r reg.GPVirtual) {
		p := k.add(base, distance)
		k.padPlace(axis, p)
		place := k.whole("VCVTT", p, n)
		offset := n.apply("VPMULLD", n.integer(paramStep+1<<axis), place)
		offset = n.pick(n.inside(axis, place), offset, n.number(cubicOutside(dims)))
		n.emit("VMOVUPS", offset[0], k.offsets(r, cubicOffset+axis*cubicTaps))
		k.move(k.add(distance, k.float(1)), distance)
	})
	return t
}

// locateWindows says how rows of taps are read.
func (k *gridKernel) locateWindows(n *gridKernel, dims int, outside reg.GPVirtual) {
	c, state := k.c, k.integers(planeOutside)
	byTaps, done := k.newLabel("byTaps"), k.newLabel("stated")
	offset := func(number int) memory { return k.offsets(k.cells, cubicOffset+number) }
	c.MOVL(outside, state.Mem)
	branch(c.CMPL, k.word(paramWindow), operand.Imm(0), c.JLT, byTaps)
	first := value{loadWhole(n.kernel, offset(0))}
	for tap := 1; tap < cubicTaps; tap++ { // that outside is large without a sign
		first = n.apply("VPMINUD", offset(tap), first)
	}
	end := n.apply("VPSUBD", n.number(cubicTaps-1), n.integer(paramEnd))
	first = n.apply("VPMINUD", n.apply("VPMAXSD", n.zero(), end), first)
	last := n.zero()
	rows := func(first value, window reg.GPVirtual) {
		for y := range cubicTaps {
			place := n.apply("VPADDD", offset(cubicTaps+y), first)
			place = n.apply("VPMAXSD", n.zero(), place) // a row outside may be any
			n.emit("VMOVUPS", place[0], k.offsets(window, cubicWindow+y))
			n.emit("VPMAXSD", place[0], last[0], last[0])
		}
	}
	if dims == 2 {
		rows(first, k.cells)
	} else {
		window := c.GP64()
		c.MOVQ(k.cells, window)
		k.atTaps("plane", func(z reg.GPVirtual) {
			rows(n.apply("VPADDD", k.offsets(z, cubicOffset+2*cubicTaps), first), window)
			c.ADDQ(operand.U32(cubicTaps*planeBytes/4*k.compute.size), window)
		})
	}
	branch(c.TESTL, outside, outside, c.JEQ, done) // the state is rowsPlain
	c.MOVL(operand.U32(rowsMoved), state.Mem)
	near := n.atMost(last, n.integer(paramWindow))
	var elements [cubicTaps]value
	for tap := range elements {
		e := n.apply("VPSUBD", first, value{loadWhole(n.kernel, offset(tap))})
		near = n.both(near, n.lessThan(e, n.number(cubicTaps)))
		elements[tap] = n.apply(n.bits("VPAND"), n.number(cubicTaps-1), e)
	}
	for m, v := range k.controls(elements) {
		k.storePlane(cubicControl+m, v)
	}
	n.storeBits(near, state.plus(4))
	branch(c.CMPL, state.plus(4).Mem, operand.Imm(0), c.JEQ, done)
	c.Label(byTaps)
	c.MOVL(operand.U32(rowsByTaps), state.Mem)
	c.Label(done)
}

// cubicPixels numbers taps and multiplies their weights: those along x and y, then z.
func (k *gridKernel) cubicPixels(dims int) {
	pixels, weights := param(k.c, "pixels"), param(k.c, "weights")
	n, pitch := k.narrow(), tapPitch(dims)
	k.forVectors(func() {
		first, count, none := n.integer(paramFirst), n.integer(paramPixels), n.number(0xFFFFFFFF)
		toPixels, toWeights := k.c.GP64(), k.c.GP64()
		k.c.MOVQ(pixels, toPixels)
		k.c.MOVQ(weights, toWeights)
		row := func(y, z reg.GPVirtual) { // z is nil in images
			size := k.compute.size
			for x := range cubicTaps {
				at := value{loadWhole(n.kernel, k.offsets(k.cells, cubicOffset+x))}
				at = n.apply("VPADDD", k.offsets(y, cubicOffset+cubicTaps), at)
				w := k.apply(k.ps("VMUL"), k.tapPlane(y, cubicWeight+2*cubicTaps), k.loadPlane(cubicWeight+x))
				if z != nil {
					at = n.apply("VPADDD", k.offsets(z, cubicOffset+2*cubicTaps), at)
					w = k.apply(k.ps("VMUL"), k.tapPlane(z, cubicWeight+4*cubicTaps), w)
				}
				at = n.apply("VPSUBD", first, at)
				in := n.both(n.lessThan(none, at), n.lessThan(at, count))
				n.emit("VMOVUPS", n.pick(in, at, none)[0], operand.Mem{Base: toPixels, Index: k.i, Scale: 4, Disp: x * pitch * 4})
				k.emit(k.ps("VMOVU"), w[0], operand.Mem{Base: toWeights, Index: k.i, Scale: uint8(size), Disp: x * pitch * size})
			}
			k.c.ADDQ(operand.U32(cubicTaps*pitch*4), toPixels)
			k.c.ADDQ(operand.U32(cubicTaps*pitch*size), toWeights)
		}
		if dims == 2 {
			k.atTaps("row", func(y reg.GPVirtual) { row(y, nil) })
			return
		}
		k.atTaps("plane", func(z reg.GPVirtual) { k.atTaps("row", func(y reg.GPVirtual) { row(y, z) }) })
	})
}

// tapPitch is the distance of planes of taps that lie outside of cells: those
// of volumes have a quarter of the positions.
func tapPitch(dims int) int {
	if dims == 3 {
		return 256/4 + 16
	}
	return cellPitch
}

// combineCubic multiplies by the coordinates' derivatives, where a coordinate is
// a finite number and some tap is inside.
func (k *gridKernel) combineCubic(dims int) {
	n := k.narrow()
	k.forVectors(func() {
		var outside value // negative where all of some axis are
		for axis := range dims {
			offset := func(tap int) memory { return k.offsets(k.cells, cubicOffset+axis*cubicTaps+tap) }
			all := value{loadWhole(n.kernel, offset(0))}
			for tap := 1; tap < cubicTaps; tap++ {
				all = n.apply(n.bits("VPAND"), offset(tap), all)
			}
			if axis > 0 {
				all = n.apply(n.bits("VPOR"), outside, all)
			}
			outside = all
		}
		some := k.wide(n.lessThan(n.number(0xFFFFFFFF), outside))
		for axis := range dims {
			c := k.loadPlane(planeCoord + axis)
			live := k.both(some, k.compare(k.sub(c, c), equal, k.zero()))
			k.storePlane(planeGrad+axis, k.keep(live, k.mul(k.loadPlane(planeSums+axis), k.parameter(paramK+axis))))
		}
	})
}
