package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// The kernels of grid_sample that read each tap by itself: of volumes, nearest,
// f64, and images that have no pairs (cpu/grid_gather.go). A tap's place is the
// number of its element in a channel, or -1 for one outside.

// The planes of 32-bit integers of a block of cells, which follow those of the
// compute type.
const (
	planePlace   = 0 // of each tap
	planeOutside = 8 // one for each vector: which positions have a tap outside
)

// gatherKernels emits those of every type, on every instruction set.
func gatherKernels(c *build.Context) {
	globals := newTables()
	for _, isa := range isas {
		begin := func(name string, t *storage, signature string, doc ...string) *gridKernel {
			beginFunction(c, name, signature, doc...)
			k := &kernel{c: c, globals: globals, isa: isa, compute: f32, out: t, group: 1}
			if t == f64 {
				k.compute = f64
			}
			k.lanes = isa.bytes / k.compute.size
			return &gridKernel{kernel: k, i: c.GP64()}
		}
		beginCells := func(name string, t *storage, arguments string, doc ...string) *gridKernel {
			k := begin(name, t, "func(cells *byte, n int"+arguments+")", doc...)
			k.cells, k.n = param(c, "cells"), param(c, "n")
			return k
		}
		for _, compute := range []*storage{f32, f64} {
			for dims := 2; dims <= 3; dims++ {
				suffix := fmt.Sprintf("%d%s%s", dims, isa.name, compute.name)
				begin("gatherSplit"+suffix, compute, "func(from *byte, n int, cells *byte)",
					"gatherSplit"+suffix+" takes the coordinates of n positions apart; n is of whole vectors.").splitTaps(dims)
				beginCells("gatherLocate"+suffix, compute, "",
					"gatherLocate"+suffix+" fills cells from the coordinates of n positions and the parameters.").locateTaps(dims)
				beginCells("gatherNearest"+suffix, compute, "",
					"gatherNearest"+suffix+" is that for the nearest pixel.").locateNearest(dims)
				beginCells("gatherCombine"+suffix, compute, "",
					"gatherCombine"+suffix+" turns the cells' sums into gradients.").combineTaps(dims)
			}
		}
		begin("gatherBand"+isa.name, f32, "func(places *byte, n int, taps int, first int, pixels int)",
			"gatherBand"+isa.name+" numbers taps within a band of so many pixels; others become -1.").band()
		for _, t := range []*storage{f32, f64, bf16, f16} {
			name := "gatherSample" + isa.name + t.name
			beginCells(name, t, ", input *byte, taps int, y *byte",
				name+" samples one channel at n positions.",
				"The last vector of cells is that of the last positions.").sampleTaps()
			for dims := 2; dims <= 3; dims++ {
				name := fmt.Sprintf("gatherTerms%d%s%s", dims, isa.name, t.name)
				beginCells(name, t, ", input *byte, channelStride int, dy *byte, dyStride int, channels int, terms *byte",
					name+" adds one group's terms of the grid's gradient, of up to 16 channels, to the",
					"cells' sums. terms is room for 16 times as many vectors as there are sums.").termsOfTaps(dims)
			}
		}
		for _, t := range []*storage{bf16, f16} {
			begin("widenRow"+isa.name+t.name, t, "func(from *byte, n int, to *byte)",
				"widenRow"+isa.name+t.name+" converts n elements to f32; n is of whole vectors.").convertRow(true)
			begin("narrowRow"+isa.name+t.name, t, "func(from *byte, n int, to *byte)",
				"narrowRow"+isa.name+t.name+" rounds n elements of f32; n is of whole vectors.").convertRow(false)
		}
		for _, t := range []*storage{f32, f64, bf16} {
			name := fmt.Sprintf("gatherCopy%d%s", 8*t.size, isa.name)
			beginCells(name, t, ", input *byte, y *byte",
				fmt.Sprintf("%s is gatherSample of the nearest pixel, for elements of %d bytes.", name, t.size)).copyTaps()
		}
	}
}

// integers is the place of the current cells' integers.
func (k *gridKernel) integers(number int) memory {
	return memory{operand.Mem{Base: k.cells, Index: k.i, Scale: 4, Disp: planePair*planeBytes/4*k.compute.size + number*planeBytes}}
}

// step returns the distance of a tap's place from that of a cell's first tap: a
// number of the compute type, but an integer where that is f32, which would not
// hold it.
func (k *gridKernel) step(tap int) value {
	if k.double() {
		return k.parameter(paramStep + tap)
	}
	return k.integer(paramStep + tap)
}

// stepAlong adds so many steps along an axis to places, none yet for axis 0.
func (k *gridKernel) stepAlong(axis int, places, steps value) value {
	add, distance := "VPADDD", value(nil)
	if k.double() {
		add, distance = "VADDPD", k.mul(steps, k.step(1<<axis))
	} else {
		distance = k.apply("VPMULLD", k.step(1<<axis), k.apply("VCVTTPS2DQ", steps))
	}
	if axis == 0 {
		return distance
	}
	return k.apply(add, places, distance)
}

// storePlace stores the places of a tap, -1 where the mask does not hold.
func (k *gridKernel) storePlace(tap int, inside mask, places value) {
	if !k.double() {
		k.emit("VMOVUPS", k.pick(inside, places, k.number(0xFFFFFFFF))[0], k.integers(planePlace+tap))
		return
	}
	h, name := k.half(), "VCVTTPD2DQY"
	if k.isa.masks {
		name = "VCVTTPD2DQ"
	}
	k.emit(name, k.pick(inside, places, k.float(-1))[0], h)
	k.emit("VMOVUPS", h, k.integers(planePlace+tap))
}

// inside returns where pixels are, along an axis.
func (k *gridKernel) inside(axis int, pixels value) mask {
	return k.both(k.compare(pixels, greaterEqual, k.zero()), k.compare(pixels, less, k.parameter(paramSize+axis)))
}

// locateTaps fills cells. Registers are few: floors wait where sums will be.
func (k *gridKernel) locateTaps(dims int) {
	k.forVectors(func() {
		var whole mask
		var places value
		for axis := range dims {
			floor, next, _, _ := k.distances(axis, true)
			all := k.both(k.compare(floor, greaterEqual, k.zero()), k.compare(next, less, k.parameter(paramSize+axis)))
			if axis > 0 {
				all = k.both(whole, all)
			}
			whole = all
			places = k.stepAlong(axis, places, floor)
			k.storePlane(planeSums+axis, floor)
		}
		k.storeBits(whole, k.integers(planeOutside))
		live := k.float(1)
		for axis := range dims {
			some := k.within(k.loadPlane(planeSums+axis), k.float(-1), k.parameter(paramLast+axis))
			live = k.keep(some, live)
		}
		k.storePlane(planeLive, live)
		side := func(axis, far int) mask {
			pixel := k.loadPlane(planeSums + axis)
			if far == 1 {
				pixel = k.add(pixel, k.float(1))
			}
			return k.inside(axis, pixel)
		}
		columns := [2]mask{side(0, 0), side(0, 1)}
		for rest := range 1 << (dims - 1) {
			rows := side(1, rest&1)
			if dims == 3 {
				rows = k.both(rows, side(2, rest>>1))
			}
			for far, column := range columns {
				tap := rest<<1 | far
				inside, at := k.both(column, rows), places
				if tap > 0 {
					at = k.apply(map[bool]string{false: "VPADDD", true: "VADDPD"}[k.double()], k.step(tap), places)
				}
				k.storePlace(tap, inside, at)
				weight := k.loadPlane([]int{planeS, planeT}[far])
				for axis := 1; axis < dims; axis++ {
					weight = k.mul(weight, k.loadPlane([]int{planeS, planeT}[tap>>axis&1]+axis))
				}
				k.storePlane(planeWeight+tap, k.keep(inside, weight))
			}
		}
	})
}

// gathered returns the elements at some places, +0 for those that are outside
// where there may be such.
func (k *gridKernel) gathered(places memory, edge bool) value {
	parts := k.gatheredParts(places, edge)
	if k.out.size > 2 {
		return value{k.join(parts)}
	}
	words, v := k.words(parts), k.newValue()
	if k.out == f16 {
		k.emit("VCVTPH2PS", words, v[0])
		return v
	}
	k.emit("VPMOVZXWD", words, v[0])
	return k.apply("VPSLLD", 16, v)
}

// words joins elements of 16 bits.
func (k *gridKernel) words(parts []reg.VecVirtual) reg.VecVirtual {
	if len(parts) == 1 {
		return parts[0]
	}
	words := k.c.YMM()
	k.c.VINSERTI128(operand.Imm(1), parts[1], parts[0].AsY(), words)
	return words
}

// gatheredParts returns the elements as they are, in registers of 16 bytes.
// Instructions that gather take three times as long as single loads.
func (k *gridKernel) gatheredParts(places memory, edge bool) []reg.VecVirtual {
	if !edge {
		return k.partsAt(places)
	}
	c := k.c
	return k.parts(func(lane int) operand.Op {
		at := c.GP64()
		c.MOVLQSX(places.plus(4*lane).Mem, at)
		c.TESTQ(at, at)
		c.CMOVQLT(k.none, at)
		e := k.inGeneral(operand.Mem{Base: k.input, Index: at, Scale: uint8(k.out.size)})
		c.CMOVQLT(k.none, e)
		return e
	})
}

// partsAt does so where every place is an element's. Two places are loaded at once.
func (k *gridKernel) partsAt(places memory) []reg.VecVirtual {
	var two reg.GPVirtual
	return k.parts(func(lane int) operand.Op {
		at := two
		if lane%2 == 0 {
			two, at = k.c.GP64(), k.c.GP64()
			k.c.MOVQ(places.plus(4*lane).Mem, two)
			k.c.MOVL(two.As32(), at.As32())
		} else {
			k.c.SHRQ(operand.Imm(32), two)
		}
		return operand.Mem{Base: k.input, Index: at, Scale: uint8(k.out.size)}
	})
}

// inGeneral loads an element into a general register.
func (k *gridKernel) inGeneral(from operand.Mem) reg.GPVirtual {
	e := k.c.GP64()
	switch k.out.size {
	case 2:
		k.c.MOVWQZX(from, e)
	case 4:
		k.c.MOVL(from, e.As32())
	default:
		k.c.MOVQ(from, e)
	}
	return e
}

// parts puts a vector of elements of the images' type together, each of which is
// in memory or in a general register.
func (k *gridKernel) parts(element func(lane int) operand.Op) (parts []reg.VecVirtual) {
	size := k.out.size
	each := 16 / size
	insert := map[int]string{2: "VPINSRW", 4: "VPINSRD", 8: "VPINSRQ"}[size]
	for lane := range k.lanes {
		e := element(lane)
		if m, ok := e.(operand.Mem); ok && size == 2 && lane%each == 0 {
			e = k.inGeneral(m)
		}
		if g, ok := e.(reg.GPVirtual); ok && size < 8 {
			e = g.As32()
		}
		if lane%each > 0 {
			part := parts[len(parts)-1]
			k.emit(insert, lane%each, e, part, part)
			continue
		}
		part := k.c.XMM()
		if parts = append(parts, part); size == 8 {
			k.c.VMOVQ(e, part)
		} else {
			k.c.VMOVD(e, part)
		}
	}
	return parts
}

// eitherEdge emits code for vectors all of whose taps are inside, and for others.
func (k *gridKernel) eitherEdge(code func(edge bool)) {
	edge, done := k.newLabel("edge"), k.newLabel("edgeDone")
	k.c.CMPL(k.integers(planeOutside).Mem, operand.Imm(0))
	k.c.JNE(operand.LabelRef(edge))
	code(false)
	k.c.JMP(operand.LabelRef(done))
	k.c.Label(edge)
	k.none = k.c.GP64()
	k.c.XORQ(k.none, k.none)
	code(true)
	k.c.Label(done)
}
