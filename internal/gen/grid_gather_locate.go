package main

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Where the taps of cells are, in whole numbers.

// inside returns where pixels, whole numbers, are inside along an axis.
func (k *gridKernel) inside(axis int, pixels value) mask {
	return k.atMost(pixels, k.integer(paramEnd+axis))
}

// whole converts to integers, to a negative one where there is none: rounded by
// the instruction VCVT or, towards zero, VCVTT.
func (k *gridKernel) whole(name string, v value, n *gridKernel) value {
	to := n.newValue()
	switch {
	case !k.double():
		name += "PS2DQ"
	case k.isa.masks:
		name += "PD2DQ"
	default:
		name += "PD2DQY"
	}
	k.emit(name, v[0], to[0])
	return to
}

// locateTaps fills cells.
func (k *gridKernel) locateTaps(dims int) {
	n := k.narrow()
	k.holdCoordinates(n, dims)
	if dims == 2 {
		k.hold(n.integer, paramStep+1, 3)
		k.hold(n.integer, paramEnd, 2)
	}
	one := n.number(1)
	k.forVectors(func() {
		var near, far [3]value
		var pixels [3]value
		for axis := range dims {
			var floor value
			floor, _, near[axis], far[axis] = k.distances(axis, true)
			pixels[axis] = k.whole("VCVTT", floor, n)
		}
		side := func(axis, far int) mask {
			if far == 1 {
				return n.inside(axis, n.apply("VPADDD", one, pixels[axis]))
			}
			return n.inside(axis, pixels[axis])
		}
		places := k.firstTaps(n, dims, pixels, side)
		weight := func(axis, side int) value {
			if k.isa.masks {
				return [2]value{near[axis], far[axis]}[side]
			}
			return k.loadPlane([]int{planeS, planeT}[side] + axis) // registers are few
		}
		columns := [2]mask{side(0, 0), side(0, 1)}
		for rest := range 1 << (dims - 1) {
			rows := side(1, rest&1)
			if dims == 3 {
				rows = n.both(rows, side(2, rest>>1))
			}
			for far, column := range columns {
				tap := rest<<1 | far
				inside, at := n.both(column, rows), places
				if tap > 0 {
					at = n.apply("VPADDD", n.integer(paramStep+tap), places)
				}
				n.emit("VMOVUPS", n.pick(inside, at, n.number(0xFFFFFFFF))[0], k.integers(planePlace+tap))
				w := weight(0, far)
				for axis := 1; axis < dims; axis++ {
					w = k.mul(w, weight(axis, tap>>axis&1))
				}
				k.storePlane(planeWeight+tap, k.keep(k.wide(inside), w))
			}
		}
	})
}

// firstTaps returns the places of cells' first taps at some pixels, and stores which
// cells have taps outside and which have some inside; side tells where those on a side
// of an axis are inside.
func (k *gridKernel) firstTaps(n *gridKernel, dims int, pixels [3]value, side func(axis, far int) mask) (places value) {
	var whole, some mask
	for axis := range dims {
		far, near := side(axis, 1), side(axis, 0)
		all, any, distance := n.both(far, near), n.either(far, near), n.apply("VPMULLD", n.integer(paramStep+1<<axis), pixels[axis])
		if axis == 0 {
			whole, some, places = all, any, distance
		} else {
			whole, some, places = n.both(whole, all), n.both(some, any), n.apply("VPADDD", places, distance)
		}
	}
	n.storeBits(whole, k.integers(planeOutside))
	k.storePlane(planeLive, k.keep(k.wide(some), k.float(1)))
	return places
}

// storeBits stores of which lanes a mask does not hold, and returns them.
func (k *gridKernel) storeBits(m mask, to memory) reg.GPVirtual {
	bits := k.maskBits(m)
	k.c.XORL(operand.U32(1<<k.lanes-1), bits)
	k.c.MOVL(bits, to.Mem)
	return bits
}

// maskBits returns a mask as bits.
func (k *gridKernel) maskBits(m mask) reg.GPVirtual {
	bits := k.c.GP32()
	if k.isa.masks {
		k.emit("KMOVW", m[0], bits)
	} else {
		k.emit(k.ps("VMOVMSK"), m[0], bits)
	}
	return bits
}

// ifAll branches where a mask holds for all lanes.
func (k *gridKernel) ifAll(m mask, label string) {
	branch(k.c.CMPL, k.maskBits(m), operand.U32(1<<k.lanes-1), k.c.JEQ, label)
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
