package main

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// What is done with taps that were gathered.

// splitTaps puts coordinates that lie side by side into planes.
func (k *gridKernel) splitTaps(dims int) {
	from := param(k.c, "from")
	k.cells, k.n = param(k.c, "cells"), param(k.c, "n")
	size := k.compute.size
	k.forVectors(func() {
		if dims == 2 {
			v := memory{operand.Mem{Base: from}}
			a, b := value{loadWhole(k.kernel, v)}, value{loadWhole(k.kernel, v.plus(k.isa.bytes))}
			for axis := range dims {
				k.storePlane(planeCoord+axis, k.everySecond(a, b, axis))
			}
			k.c.ADDQ(operand.U32(2*k.isa.bytes), from)
			return
		}
		for axis := range dims {
			parts := k.parts(func(lane int) operand.Op {
				return operand.Mem{Base: from, Disp: (lane*dims + axis) * size}
			})
			k.storePlane(planeCoord+axis, value{k.join(parts)})
		}
		k.c.ADDQ(operand.U32(k.lanes*dims*size), from)
	})
}

// convertRow converts elements of 16 bits to f32, or from it.
func (k *gridKernel) convertRow(widen bool) {
	from, to := param(k.c, "from"), param(k.c, "to")
	k.n = param(k.c, "n")
	if k.out == bf16 && k.isa.masks && !widen {
		k.narrowPairs(from, to)
	}
	k.forVectors(func() {
		if widen {
			v := k.out.load(k.kernel, memory{operand.Mem{Base: from, Index: k.i, Scale: 2}})
			k.emit("VMOVUPS", v, operand.Mem{Base: to, Index: k.i, Scale: 4})
		} else {
			k.storeAt(value{loadWhole(k.kernel, memory{operand.Mem{Base: from, Index: k.i, Scale: 4}})}, to, k.i)
		}
	})
}

// narrowPairs rounds two vectors at a time, whose words one instruction puts together.
func (k *gridKernel) narrowPairs(from, to reg.GPVirtual) {
	c, pair, one := k.c, k.newLabel("pair"), k.newLabel("one")
	var names []string
	for _, m := range []memory{k.constant(lastKept), k.constant(halfLess), k.constant(half), k.constant(quietNaN), k.wordNumbers(1)} {
		names = append(names, m.Symbol.Name)
	}
	k.pin(names)
	group := k.group
	k.group = 2
	c.Label(pair)
	branch(c.CMPQ, k.n, operand.U32(2*k.lanes), c.JLT, one)
	v := k.newValue()
	for i := range v {
		k.emit("VMOVUPS", operand.Mem{Base: from, Disp: i * k.isa.bytes}, v[i])
	}
	k.put(packBF16(k.kernel, v), memory{operand.Mem{Base: to}})
	c.ADDQ(operand.U32(2*k.isa.bytes), from)
	c.ADDQ(operand.U32(k.isa.bytes), to)
	c.SUBQ(operand.U32(2*k.lanes), k.n)
	c.JMP(operand.LabelRef(pair))
	c.Label(one)
	k.group = group
}

// sampleTaps sums them.
func (k *gridKernel) sampleTaps() {
	k.input = param(k.c, "input")
	taps, y := param(k.c, "taps"), param(k.c, "y")
	k.forVectors(func() {
		sum := k.newValue()
		k.move(k.zero(), sum)
		k.addTaps(sum, taps)
		k.storeAt(sum, y, k.position())
	})
}

// addTaps adds so many taps times weights to a sum.
func (k *gridKernel) addTaps(sum value, taps operand.Op) {
	weights := k.c.GP64()
	k.c.LEAQ(k.plane(planeWeight).Mem, weights)
	k.eachTap(taps, false, func(v value) {
		k.move(k.add(sum, k.apply(k.ps("VMUL"), memory{operand.Mem{Base: weights}}, v)), sum)
		k.c.ADDQ(operand.U32(planeBytes/4*k.compute.size), weights)
	})
}

// eachTap gathers so many taps of a cell, an even number, one after the other. What
// is in planeOutside tells whether some are outside, unless that is known.
func (k *gridKernel) eachTap(taps operand.Op, outside bool, body func(v value)) {
	c := k.c
	places, left := c.GP64(), c.GP64()
	c.LEAQ(k.integers(planePlace).Mem, places)
	c.MOVQ(taps, left)
	gather := func(edge bool) {
		loop, turn := k.newLabel("taps"), either(k.double(), 2, 1) // a vector of f64 has few loads
		c.Label(loop)
		for range turn {
			body(k.gathered(memory{operand.Mem{Base: places}}, edge))
			c.ADDQ(operand.U32(planeBytes), places)
		}
		c.SUBQ(operand.Imm(uint64(turn)), left)
		c.JNE(operand.LabelRef(loop))
	}
	if outside {
		gather(true)
	} else {
		k.eitherEdge(gather)
	}
}

// termsOfTaps makes the terms of each axis: differences of neighbours.
func (k *gridKernel) termsOfTaps(dims int) {
	k.sums = dims << (dims - 1)
	k.termsOf(nil, func(g func() value, store func(sum int, v value)) {
		v := k.everyTap(1<<dims, false)
		dy, sum := g(), 0
		for axis := range dims {
			for near := range v {
				if near>>axis&1 == 0 {
					store(sum, k.mul(dy, k.sub(v[near|1<<axis], v[near])))
					sum++
				}
			}
		}
	})
}

// everyTap gathers the taps of a cell, by way of the stack, where registers lie at
// multiples of their size.
func (k *gridKernel) everyTap(taps int, outside bool) []value {
	c, bytes, v := k.c, k.isa.bytes, make([]value, taps)
	room, to := c.AllocLocal((taps+1)*bytes), c.GP64()
	c.LEAQ(room.Offset(bytes), to)
	c.ANDQ(operand.I32(-bytes), to)
	k.eachTap(operand.U32(taps), outside, func(tap value) {
		k.emit(k.ps("VMOVU"), tap[0], operand.Mem{Base: to})
		c.ADDQ(operand.Imm(uint64(bytes)), to)
	})
	for tap := range v {
		v[tap] = value{loadWhole(k.kernel, memory{operand.Mem{Base: to, Disp: (tap - taps) * bytes}})}
	}
	return v
}

// combineTaps turns the sums along each axis into gradients.
func (k *gridKernel) combineTaps(dims int) {
	k.forVectors(func() {
		live := k.live()
		for axis := range dims {
			total := func(i int) value { return k.loadPlane(planeSums + axis<<(dims-1) + i) }
			k.storeGradient(axis, live, k.acrossAxis(dims, axis, total))
		}
	})
}

// live returns which cells have a tap inside.
func (k *gridKernel) live() mask {
	return k.compare(k.loadPlane(planeLive), notEqual, k.zero())
}

// acrossAxis weights totals along an axis by the distances along the others.
func (k *gridKernel) acrossAxis(dims, axis int, total func(i int) value) value {
	if dims == 2 {
		return k.between(total(0), total(1), 1-axis)
	}
	if axis < 2 {
		top, bottom := k.between(total(0), total(1), 1-axis), k.between(total(2), total(3), 1-axis)
		return k.between(top, bottom, 2)
	}
	sum := k.zero()
	for i := range 4 {
		x, y := []int{planeS, planeT}[i&1], []int{planeS, planeT}[i>>1]+1
		sum = k.add(sum, k.mul(total(i), k.mul(k.loadPlane(x), k.loadPlane(y))))
	}
	return sum
}

// between weights a near and a far value by the distances along an axis.
func (k *gridKernel) between(near, far value, axis int) value {
	return k.add(k.mul(near, k.loadPlane(planeS+axis)), k.mul(far, k.loadPlane(planeT+axis)))
}

// band takes a band's first pixel from places, a vector of each tap at a time.
func (k *gridKernel) band() {
	c := k.c
	places, n, taps := param(c, "places"), param(c, "n"), param(c, "taps")
	at, none := c.GP64(), k.number(0xFFFFFFFF)
	word := func(name string) value {
		v := k.vector()
		k.emit("VPBROADCASTD", place(c, name), v)
		return value{v}
	}
	first, count := word("first"), word("pixels")
	tap, vector := k.newLabel("tap"), k.newLabel("vector")
	c.Label(tap)
	c.XORQ(at, at)
	c.Label(vector)
	memory := memory{operand.Mem{Base: places, Index: at, Scale: 4}}
	pixel := k.apply("VPSUBD", first, value{loadWhole(k.kernel, memory)})
	in := k.both(k.lessThan(none, pixel), k.lessThan(pixel, count))
	k.emit("VMOVUPS", k.pick(in, pixel, none)[0], memory)
	c.ADDQ(operand.U32(k.lanes), at)
	branch(c.CMPQ, at, n, c.JLT, vector)
	c.ADDQ(operand.U32(planeBytes), places)
	c.DECQ(taps)
	c.JNE(operand.LabelRef(tap))
	endFunction(c)
}
