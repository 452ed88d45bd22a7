package main

import (
	"math"

	"github.com/mmcloughlin/avo/operand"
)

// Coordinates: what a grid's values are in pixels, and what the padding makes of them.

// distances returns the pixels on both sides of the coordinates along an axis,
// and the distances to the other one, which it stores; see slopes.
func (k *gridKernel) distances(axis int, always bool) (floor, next, near, far value) {
	c := k.padded(axis, always)
	floor = k.floor(c)
	next = k.add(floor, k.float(1))
	far, near = k.sub(c, floor), k.sub(next, c)
	k.slopes(always, func() {
		k.storePlane(planeT+axis, far)
		k.storePlane(planeS+axis, near)
	})
	return floor, next, near, far
}

func (k *gridKernel) floor(a value) value { return k.apply(k.ps(k.isa.rint), 9, a) }

// move has a value take another one's.
func (k *gridKernel) move(from, to value) { k.emit(k.ps("VMOVA"), from[0], to[0]) }

// padded returns the padded coordinates along an axis, and stores their
// derivatives where these are not the same for all; see slopes.
func (k *gridKernel) padded(axis int, always bool) value {
	c, slope := k.loadPlane(planeCoord+axis), value{k.vector()}
	mapped := k.add(c, k.float(1))
	mapped = k.sub(k.mul(mapped, k.parameter(paramScale+axis)), k.parameter(paramShift+axis))
	k.move(k.mul(mapped, k.parameter(paramFactor+axis)), c)
	done, border := k.newLabel("padded"), k.newLabel("border")
	k.jumpMode(modeZeros, done)
	k.move(k.parameter(paramK+axis), slope)
	k.jumpMode(modeBorder, border)
	k.reflect(axis, c, slope)
	k.c.Label(border)
	above := k.compare(c, greater, k.zero()) // false for a NaN
	k.move(k.keep(above, c), c)
	k.move(k.keep(above, slope), slope)
	last := k.parameter(paramLast + axis)
	beyond := k.compare(c, greaterEqual, last)
	k.move(k.pick(beyond, last, c), c)
	k.move(k.pick(beyond, k.zero(), slope), slope)
	k.slopes(always, func() { k.storePlane(planeK+axis, slope) })
	k.c.Label(done)
	return c
}

// slopes emits what the grid's gradient needs: always, or where paramSlopes asks for it.
func (k *gridKernel) slopes(always bool, code func()) {
	if always {
		code()
		return
	}
	skip := k.newLabel("skip")
	branch(k.c.CMPL, k.word(paramSlopes), operand.Imm(0), k.c.JEQ, skip)
	code()
	k.c.Label(skip)
}

// reflect folds coordinates at both ends. Distances from the lower one repeat after two spans, to which few vectors
// have to be brought; slope may be nil.
func (k *gridKernel) reflect(axis int, c, slope value) {
	low, span := k.parameter(paramFold+axis), k.parameter(paramSpan+axis)
	sign := k.float(math.Copysign(0, -1))
	distance := k.sub(c, low)
	k.emit(k.bits("VPANDN"), distance[0], sign[0], distance[0])
	near, period := k.newLabel("near"), k.add(span, span)
	k.ifAll(k.compare(distance, less, period), near)
	k.remainder(distance, period)
	k.c.Label(near)
	odd := k.compare(distance, greaterEqual, span)
	if slope != nil { // its sign changes with each flip, and once more below low
		for _, m := range []mask{odd, k.compare(c, less, low)} {
			k.emit(k.bits("VPXOR"), k.keep(m, sign)[0], slope[0], slope[0])
		}
	}
	k.move(k.add(k.pick(odd, k.sub(span, k.sub(distance, span)), distance), low), c)
}

// remainder takes as many periods from a distance as there are. The quotient, rounded, is right or 1 too high; what
// remains is exact. Of 2^22 periods and more, and of NaNs, a NaN remains.
func (k *gridKernel) remainder(distance, period value) {
	periods, rest := k.apply(k.ps(k.isa.rint), 11, k.div(distance, period)), value{k.vector()}
	k.move(distance, rest)
	k.emit(k.ps("VFNMADD231"), period[0], periods[0], rest[0])
	high := k.compare(rest, less, k.zero())
	k.move(k.pick(high, k.add(rest, period), rest), rest)
	few := k.compare(k.pick(high, k.sub(periods, k.float(1)), periods), less, k.float(1<<22)) // false for a NaN
	k.move(k.pick(few, rest, k.float(math.NaN())), distance)
}

// jumpMode branches where the mode is the given one.
func (k *gridKernel) jumpMode(mode int, label string) {
	branch(k.c.CMPL, k.word(paramMode), operand.U32(mode), k.c.JEQ, label)
}
