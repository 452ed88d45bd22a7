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

// reflect folds coordinates at both ends. The quotient of the distance by the
// span, rounded, is right or 1 too high; what remains is exact. Of quotients of
// 2^23 and more, and of NaNs, a NaN remains. slope may be nil.
func (k *gridKernel) reflect(axis int, c, slope value) {
	low, span := k.parameter(paramFold+axis), k.parameter(paramSpan+axis)
	sign, xor := k.float(math.Copysign(0, -1)), k.bits("VPXOR")
	distance := k.sub(c, low)
	k.emit(k.bits("VPANDN"), distance[0], sign[0], distance[0])
	flips := k.apply(k.ps(k.isa.rint), 11, k.div(distance, span))
	extra := value{k.vector()}
	k.move(distance, extra)
	k.emit(k.ps("VFNMADD231"), span[0], flips[0], extra[0])
	high := k.compare(extra, less, k.zero())
	k.move(k.pick(high, k.add(extra, span), extra), extra)
	k.move(k.pick(high, k.sub(flips, k.float(1)), flips), flips)
	half := k.mul(flips, k.float(0.5))
	odd := k.compare(k.floor(half), otherThan, half)
	// The derivative changes sign with each flip, and once more below low.
	if slope != nil {
		turned := k.keep(k.compare(c, less, low), sign)
		k.emit(xor, turned[0], slope[0], slope[0])
		k.emit(xor, k.keep(odd, sign)[0], slope[0], slope[0])
	}
	folded := k.add(k.pick(odd, k.sub(span, extra), extra), low)
	few := k.compare(flips, less, k.float(1<<23)) // false for a NaN
	k.move(k.pick(few, folded, k.float(math.NaN())), c)
}

// jumpMode branches where the mode is the given one.
func (k *gridKernel) jumpMode(mode int, label string) {
	branch(k.c.CMPL, k.word(paramMode), operand.U32(mode), k.c.JEQ, label)
}
