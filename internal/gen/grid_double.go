package main

import "github.com/mmcloughlin/avo/operand"

// The kernels of grid_sample's second gradients, where each tap is read by itself
// (cpu/grid_double_cells.go). The coordinates' tangents have come to where the
// coordinates were.
const planeTangent = planeCoord

// tangentOfTaps makes the gradient of the upstream gradient of a channel: the
// sample of the input's tangent, if there is one, and the slopes of the input
// times the coordinates' tangents.
func (k *gridKernel) tangentOfTaps(dims int) {
	c := k.c
	input, tangent, y := param(c, "input"), param(c, "tangent"), param(c, "y")
	k.forVectors(func() {
		sum, none := k.newValue(), k.newLabel("none")
		k.move(k.zero(), sum)
		branch(c.TESTQ, tangent, tangent, c.JE, none)
		k.input = tangent
		k.addTaps(sum, operand.U32(1<<dims))
		c.Label(none)
		k.input = input
		v := k.everyTap(1<<dims, false)
		for axis := range dims {
			var differences []value
			for near := range v {
				if near>>axis&1 == 0 {
					differences = append(differences, k.sub(v[near|1<<axis], v[near]))
				}
			}
			slope := k.acrossAxis(dims, axis, func(i int) value { return differences[i] })
			factor := k.derivative(axis, slope)
			slope = k.keep(k.live(), k.mul(slope, factor))
			k.move(k.add(sum, k.mul(slope, k.loadPlane(planeTangent+axis))), sum)
		}
		k.storeAt(sum, y, k.position())
	})
}

// tangentOfNearest does so for the nearest pixel, where slopes are +0, which times
// a tangent may be a NaN.
func (k *gridKernel) tangentOfNearest() {
	c := k.c
	k.input = param(c, "tangent")
	y := param(c, "y")
	k.forVectors(func() {
		sum, none := k.newValue(), k.newLabel("none")
		k.move(k.zero(), sum)
		branch(c.TESTQ, k.input, k.input, c.JE, none)
		k.eitherEdge(func(edge bool) { k.move(k.add(sum, k.gathered(k.integers(planePlace), edge)), sum) })
		c.Label(none)
		for axis := range 3 {
			k.move(k.add(sum, k.mul(k.zero(), k.loadPlane(planeTangent+axis))), sum)
		}
		k.storeAt(sum, y, k.position())
	})
}

// axisPairs are the pairs of axes.
func axisPairs(dims int) [][2]int {
	return [][2]int{{0, 1}, {0, 2}, {1, 2}}[:2*dims-3]
}

// bendsOfTaps makes the terms of each pair of axes: differences of differences.
func (k *gridKernel) bendsOfTaps(dims int) {
	k.sums = len(axisPairs(dims)) << (dims - 2)
	k.termsOf(nil, func(g func() value, store func(sum int, v value)) {
		v := k.everyTap(1<<dims, false)
		dy, sum := g(), 0
		for _, pair := range axisPairs(dims) {
			a, b := 1<<pair[0], 1<<pair[1]
			for near := range v {
				if near&(a|b) == 0 {
					store(sum, k.mul(dy, k.sub(k.sub(v[near|a|b], v[near|b]), k.sub(v[near|a], v[near]))))
					sum++
				}
			}
		}
	})
}

// combineBends adds, to the gradients, how slopes change along the coordinates' tangents.
func (k *gridKernel) combineBends(dims int) {
	bend := func(axis, other int) value {
		if dims == 2 {
			return k.loadPlane(planeSums)
		}
		near := planeSums + 2*(axis+other-1)
		return k.between(k.loadPlane(near), k.loadPlane(near+1), dims-axis-other)
	}
	k.forVectors(func() {
		for axis := range dims {
			sum := k.zero()
			for other := range dims {
				if other != axis {
					shift, b := k.loadPlane(planeTangent+other), bend(axis, other)
					factor := k.derivative(other, shift, b)
					sum = k.add(sum, k.mul(k.mul(shift, factor), b))
				}
			}
			factor := k.derivative(axis, sum)
			change := k.keep(k.live(), k.mul(sum, factor))
			k.storePlane(planeGrad+axis, k.add(k.loadPlane(planeGrad+axis), change))
		}
	})
}

// slopesOfWeights makes the derivatives of weights along the coordinates' tangents.
func (k *gridKernel) slopesOfWeights(dims int) {
	k.forVectors(func() {
		var shifts [3]value
		for axis := range dims {
			v := k.loadPlane(planeTangent + axis)
			factor := k.derivative(axis, v)
			shifts[axis] = k.mul(v, factor)
		}
		for tap := range 1 << dims {
			sum := k.zero()
			for axis := range dims {
				var slope value
				for other := range dims {
					switch distance := []int{planeS, planeT}[tap>>other&1] + other; {
					case other == axis:
					case slope == nil:
						slope = k.loadPlane(distance)
					default:
						slope = k.mul(slope, k.loadPlane(distance))
					}
				}
				if slope = k.mul(slope, shifts[axis]); tap>>axis&1 == 1 {
					sum = k.add(sum, slope)
				} else {
					sum = k.sub(sum, slope)
				}
			}
			k.storePlane(planeWeight+tap, sum)
		}
	})
}
