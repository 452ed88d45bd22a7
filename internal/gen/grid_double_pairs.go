package main

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// grid_sample's second gradients on images that hold pairs, where both tangents
// are there, and both gradients wanted: a channel's taps are read once for both.

const (
	planeMoves = planeSums + 10 // where a coordinate's tangent counts, x, y
	sumOfBends = 4              // behind the sums of the tangent's differences
)

// doubleTerms is terms of the input's tangent and of second differences, and
// makes the gradient of each channel's upstream gradient.
func (k *gridKernel) doubleTerms() {
	c := k.c
	k.below, k.sums = c.GP64(), sumOfBends+1
	tangent, y := c.GP64(), c.GP64()
	k.termsOf(func(at reg.GPVirtual) {
		k.moves()
		c.Load(c.Param("y"), y)
		c.LEAQ(operand.Mem{Base: y, Index: at, Scale: uint8(k.out.size)}, y)
		c.Load(c.Param("tangent"), tangent)
	}, func(g func() value, store func(sum int, v value)) {
		tapsOf := func(image reg.GPVirtual) [4]value {
			input := k.input
			k.input = image
			c.MOVQ(place(c, "row"), k.below)
			c.ADDQ(image, k.below)
			k.prefetchAhead(termsAhead, []int{0})
			v := k.taps()
			k.input = input
			return v
		}
		sum, u := k.zero(), tapsOf(tangent)
		for tap, v := range u {
			sum = k.add(sum, k.mul(v, k.loadPlane(planeWeight+tap)))
		}
		for i, d := range tapDifferences {
			store(i, k.mul(g(), k.sub(u[d[0]], u[d[1]])))
		}
		v := tapsOf(k.input)
		var differences [4]value
		for i, d := range tapDifferences {
			differences[i] = k.sub(v[d[0]], v[d[1]])
		}
		store(sumOfBends, k.mul(g(), k.sub(differences[1], differences[0])))
		for axis := range 2 {
			slope := k.between(differences[2*axis], differences[2*axis+1], 1-axis)
			slope = k.keep(k.maskPlane(planeMoves+axis), k.mul(slope, k.loadPlane(planeK+axis)))
			sum = k.add(sum, k.mul(slope, k.loadPlane(planeTangent+axis)))
		}
		k.storeTo(sum, operand.Mem{Base: y})
		c.ADDQ(place(c, "tangentStride"), tangent)
		c.ADDQ(place(c, "yStride"), y)
	})
}

// moves notes where coordinates have a derivative, and puts that of every mode
// where those of some are.
func (k *gridKernel) moves() {
	any := k.someInside()
	for axis := range 2 {
		one := k.float(1)
		k.storePlane(planeK+axis, k.derivative(axis, one))
		k.storeMask(planeMoves+axis, k.both(any, k.compare(one, notEqual, k.zero())))
	}
}

// bendPairs is combineBends.
func (k *gridKernel) bendPairs() {
	k.forVectors(func() {
		bend := k.loadPlane(planeSums + sumOfBends)
		for axis := range 2 {
			other := 1 - axis
			change := k.mul(k.mul(k.loadPlane(planeTangent+other), k.loadPlane(planeK+other)), bend)
			change = k.add(k.zero(), k.keep(k.maskPlane(planeMoves+other), change))
			change = k.keep(k.maskPlane(planeMoves+axis), k.mul(change, k.loadPlane(planeK+axis)))
			k.storePlane(planeGrad+axis, k.add(k.loadPlane(planeGrad+axis), change))
		}
	})
}
