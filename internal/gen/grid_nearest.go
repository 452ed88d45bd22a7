package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// The kernels of nearest, whose one tap is a copy.

// narrow returns the kernel of 32-bit integers, as many as there are positions
// in a vector of the compute type.
func (k *gridKernel) narrow() *gridKernel {
	if !k.double() {
		return k
	}
	n, isa := *k.kernel, *k.isa
	isa.bytes, n.isa, n.compute = k.isa.bytes/2, &isa, f32
	isa.vector = func(c *build.Context) reg.VecVirtual { return k.half() }
	to := *k
	to.kernel, to.held = &n, map[int]value{}
	return &to
}

// wide returns a mask of integers as one of the compute type's.
func (k *gridKernel) wide(m mask) mask {
	if k.isa.masks || !k.double() {
		return m
	}
	return mask(registers(k.apply("VPMOVSXDQ", m[0])))
}

// hold keeps parameters in registers where these are many.
func (k *gridKernel) hold(load func(number int) value, first, count int) {
	if k.isa.masks {
		for i := range count {
			k.held[first+i] = load(first + i)
		}
	}
}

// holdCoordinates holds those that turn a grid's values into pixels. Those of n
// are held with them.
func (k *gridKernel) holdCoordinates(n *gridKernel, dims int) {
	k.held = map[int]value{}
	n.held = k.held
	for _, first := range []int{paramScale, paramShift, paramFactor} {
		k.hold(k.parameter, first, dims)
	}
}

func (k *gridKernel) locateNearest(dims int) {
	n := k.narrow()
	k.holdCoordinates(n, dims)
	for axis := range dims {
		k.hold(n.integer, paramStep+1<<axis, 1)
	}
	k.hold(n.integer, paramEnd, dims)
	k.forVectors(func() {
		var inside mask
		var places value
		for axis := range dims {
			pixel := k.whole("VCVT", k.padded(axis, false), n) // the nearest, even
			m, distance := n.inside(axis, pixel), n.apply("VPMULLD", n.integer(paramStep+1<<axis), pixel)
			if axis == 0 {
				inside, places = m, distance
			} else {
				inside, places = n.both(inside, m), n.apply("VPADDD", places, distance)
			}
		}
		n.emit("VMOVUPS", n.pick(inside, places, n.number(0xFFFFFFFF))[0], k.integers(planePlace))
		n.storeBits(inside, k.integers(planeOutside))
		k.storePlane(planeWeight, k.float(1))
	})
}

// atMost returns where unsigned integers a are at most b.
func (k *gridKernel) atMost(a, b value) mask {
	if !k.isa.masks {
		return k.same(a, k.apply("VPMINUD", b, a))
	}
	m := k.c.K()
	k.emit("VPCMPUD", 2, b[0], a[0], m)
	return mask{m}
}

// copyTaps copies the taps.
func (k *gridKernel) copyTaps() {
	k.input = param(k.c, "input")
	y := param(k.c, "y")
	k.forVectors(func() {
		to := memory{operand.Mem{Base: y, Index: k.position(), Scale: uint8(k.out.size)}}
		k.eitherEdge(func(edge bool) {
			for i, part := range k.gatheredParts(k.integers(planePlace), edge) {
				k.c.VMOVUPS(part, to.plus(16*i).Mem)
			}
		})
	})
}

// mostNearest is how many channels' upstream gradients are read where they lie.
const mostNearest = 4

// nearestAdds emits the additions to the input's gradient of few channels.
func nearestAdds(c *build.Context) {
	for _, compute := range []*storage{f32, f64} {
		for channels := 1; channels <= mostNearest; channels++ {
			nearestAdd(c, compute, channels)
		}
	}
}

// nearestAdd is tapAdd of a single tap of weight 1. Sums of several channels
// lie side by side in four places.
func nearestAdd(c *build.Context, compute *storage, channels int) {
	name := fmt.Sprintf("gridNearestAdd%d%s", channels, compute.name)
	beginFunction(c, name, "func(pixels *byte, n int, sums *byte, dy *byte, dyStride int, count *uint8, chunks *byte, list *[2]int64, full int) int",
		fmt.Sprintf("%s adds dy, whose channels lie dyStride bytes apart, to every position's", name),
		"pixel. Sums of 256 contributions go to chunks, their pixels and numbers, from full on,",
		"to list; it returns how many there are then.")
	pixels, n, sums, count := param(c, "pixels"), param(c, "n"), param(c, "sums"), param(c, "count")
	dy := rowsApart(c, param(c, "dy"), param(c, "dyStride"), channels)
	k := &kernel{c: c, isa: avx2, compute: compute, group: 1}
	places, move, add := 4, k.ps("VMOVU"), k.ps("VADD")
	if channels == 1 {
		places, move, add = 1, k.scalar("VMOV"), k.scalar("VADD")
	}
	bytes := places * compute.size
	g := tapPieces(c, avx2, bytes)[0]
	i, at, offset := c.GP64(), c.GP64(), c.GP64()
	sum := operand.Mem{Base: sums, Index: offset, Scale: uint8(min(bytes, 8))}
	c.XORQ(i, i)
	c.JMP(operand.LabelRef("more"))
	c.Label("position")
	c.MOVLQSX(operand.Mem{Base: pixels, Index: i, Scale: 4}, at)
	branch(c.TESTQ, at, at, c.JLT, "next")
	c.MOVQ(at, offset)
	if bytes > 8 {
		c.SHLQ(operand.Imm(uint64(bytes/16)), offset)
	}
	k.gradients(dy, i, g)
	k.emit(add, sum, g, g)
	c.ADDB(operand.Imm(1), operand.Mem{Base: count, Index: at, Scale: 1})
	c.JEQ(operand.LabelRef("full"))
	c.Label("store")
	k.emit(move, g, sum)
	c.Label("next")
	c.INCQ(i)
	c.Label("more")
	branch(c.CMPQ, i, n, c.JLT, "position")
	full := c.GP64()
	c.Load(c.Param("full"), full)
	c.Store(full, c.ReturnIndex(0))
	endFunction(c)

	c.Label("full")
	to := c.GP64()
	chunks, list, number := place(c, "chunks"), place(c, "list"), place(c, "full")
	c.MOVQ(chunks, to)
	k.emit(move, g, operand.Mem{Base: to})
	k.emit("VPXOR", g, g, g)
	c.ADDQ(operand.U32(bytes), chunks)
	c.MOVQ(list, to)
	c.MOVQ(at, operand.Mem{Base: to})
	c.MOVQ(number, at)
	c.MOVQ(at, operand.Mem{Base: to, Disp: 8})
	c.ADDQ(operand.Imm(16), list)
	c.INCQ(number)
	c.JMP(operand.LabelRef("store"))
}

// gradients loads the upstream gradients of position i, zeros in places without a channel.
func (k *kernel) gradients(dy []reg.GPVirtual, i reg.GPVirtual, g reg.VecVirtual) {
	from := func(channel int) operand.Mem {
		return operand.Mem{Base: dy[channel], Index: i, Scale: uint8(k.compute.size)}
	}
	x := g.AsX()
	k.emit(k.scalar("VMOV"), from(0), x)
	if !k.double() {
		for channel := 1; channel < len(dy); channel++ {
			k.c.VINSERTPS(operand.Imm(uint64(channel<<4)), from(channel), x, x)
		}
		return
	}
	if len(dy) > 1 {
		k.c.VMOVHPD(from(1), x, x)
	}
	if len(dy) > 2 {
		high := k.c.XMM()
		k.c.VMOVSD(from(2), high)
		if len(dy) > 3 {
			k.c.VMOVHPD(from(3), high, high)
		}
		k.c.VINSERTF128(operand.Imm(1), high, g, g)
	}
}
