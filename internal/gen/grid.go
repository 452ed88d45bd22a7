package main

import (
	"math"

	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// The kernels of bilinear grid_sample on images. They share a block of cells:
// planes of 256 32-bit words, one for each position (grid_planes.go, cpu/grid_cells.go).

const planeBytes = cellPitch * 4

// The values of the mode.
const (
	modeZeros = iota
	modeBorder
	modeReflection
)

// gridFunctions returns how functions begin that take a number of cells.
func gridFunctions(c *build.Context, globals *tables, isa *isa) func(name string, t *storage, signature string, doc ...string) *gridKernel {
	return func(name string, t *storage, signature string, doc ...string) *gridKernel {
		beginFunction(c, name, signature, doc...)
		k := &gridKernel{kernel: newKernel(c, globals, isa, t), cells: param(c, "cells"), n: param(c, "n"), i: c.GP64(), sums: 4}
		k.halfKind = k.word(paramHalf)
		return k
	}
}

// gridKernels emits those of every type, on every instruction set.
func gridKernels(c *build.Context) {
	globals := newTables()
	for _, isa := range isas {
		begin := gridFunctions(c, globals, isa)
		begin("gridLocate"+isa.name, f32, "func(cells *byte, n int)",
			"gridLocate"+isa.name+" fills cells from the coordinates of n positions and the parameters.").locate()
		for _, t := range []*storage{f32, anyHalf} {
			name := "gridSample" + isa.name + t.name
			begin(name, t, "func(cells *byte, n int, input *byte, row int, y *byte)",
				name+" samples one channel, whose rows lie row bytes apart, at n positions.",
				"The last vector of cells is that of the last positions.").sample((*gridKernel).tapsAhead)
			name = "gridTerms" + isa.name + t.name
			begin(name, t, "func(cells *byte, n int, input *byte, row int, channelStride int, dy *byte, dyStride int, channels int, terms *byte)",
				name+" adds one group's terms of the grid's gradient, of up to 16 channels, to the",
				"cells' sums. terms is room for 16 times 4 vectors.").terms()
			name = "gridDouble" + isa.name + t.name
			begin(name, t, "func(cells *byte, n int, input *byte, tangent *byte, row int, channelStride int, tangentStride int, dy *byte, dyStride int, y *byte, yStride int, channels int, terms *byte)",
				name+" adds one group's terms of the grid's second gradient, of up to 16 channels, to the",
				"cells' sums, and makes the gradients of dy. terms is room for 16 times 5 vectors.").doubleTerms()
		}
		begin("gridCombine"+isa.name, f32, "func(cells *byte, n int)",
			"gridCombine"+isa.name+" turns the cells' sums into gradients.").combineSums()
		begin("gridBend"+isa.name, f32, "func(cells *byte, n int)",
			"gridBend"+isa.name+" adds the cells' sums of second differences to gradients.").bendPairs()
		framedKernels(isa, begin)
		for _, t := range []*storage{f32, bf16, f16, f64} {
			newKernel(c, globals, isa, t).transposeTile()
		}
	}
	framedCount(c)
	for channels := 1; channels <= maxAddChannels; channels++ {
		framedAdd(c, channels)
		framedRuns(c, channels)
		if channels > 1 {
			framedQuad(c, channels)
		}
	}
	framedTranspose(c)
}

type gridKernel struct {
	*kernel
	cells, n, i  reg.GPVirtual // i: the cell that the current vector begins at
	input, below reg.GPVirtual // a channel, and its second row
	sums         int           // terms that a channel has
	held         map[int]value // parameters that stay in registers
}

func (k *gridKernel) plane(number int) memory {
	size := k.compute.size
	return memory{operand.Mem{Base: k.cells, Index: k.i, Scale: uint8(size), Disp: number * planeBytes / 4 * size}}
}

func (k *gridKernel) loadPlane(number int) value { return value{loadWhole(k.kernel, k.plane(number))} }

func (k *gridKernel) storePlane(number int, v value) { k.emit(k.ps("VMOVU"), v[0], k.plane(number)) }

// maskPlane returns the truth values of a vector of cells: its first bits, or
// a vector of them.
func (k *gridKernel) maskPlane(number int) mask {
	if !k.isa.masks {
		return mask{k.loadPlane(number)[0]}
	}
	m := k.c.K()
	k.emit("KMOVW", k.plane(number), m)
	return mask{m}
}

func (k *gridKernel) storeMask(number int, m mask) {
	if k.isa.masks {
		k.emit("KMOVW", m[0], k.plane(number))
	} else {
		k.emit("VMOVUPS", m[0], k.plane(number))
	}
}

// word is the place of an integer among the parameters.
func (k *gridKernel) word(number int) operand.Mem {
	return operand.Mem{Base: k.cells, Disp: 4 * number}
}

// integer returns one in every lane.
func (k *gridKernel) integer(number int) value {
	if v, ok := k.held[number]; ok {
		return v
	}
	v := k.vector()
	k.emit("VPBROADCASTD", k.word(number), v)
	return value{v}
}

// parameter returns a number of the compute type in every lane.
func (k *gridKernel) parameter(number int) value {
	if v, ok := k.held[number]; ok {
		return v
	}
	v := k.vector()
	k.emit(k.broadcast(), operand.Mem{Base: k.cells, Disp: k.compute.size * number}, v)
	return value{v}
}

func (k *gridKernel) number(bits uint32) value { return value{loadWhole(k.kernel, k.constant(bits))} }

// float is a number of the compute type in every lane.
func (k *gridKernel) float(v float64) value {
	if k.double() {
		return value{loadWhole(k.kernel, k.constant(math.Float64bits(v)))}
	}
	return k.number(math.Float32bits(float32(v)))
}

func (k *gridKernel) zero() value { return k.number(0) }

// forVectors emits a loop over the cells, one vector at a time.
func (k *gridKernel) forVectors(body func()) {
	loop, done := k.newLabel("vector"), k.newLabel("done")
	k.c.XORQ(k.i, k.i)
	k.c.Label(loop)
	branch(k.c.CMPQ, k.i, k.n, k.c.JGE, done)
	body()
	k.c.ADDQ(operand.U32(k.lanes), k.i)
	k.c.JMP(operand.LabelRef(loop))
	k.c.Label(done)
	endFunction(k.c)
}

const (
	notEqual = 4
	less     = 17
	greater  = 30
)

// locate fills cells; distances and slopes are for the grid's gradient.
func (k *gridKernel) locate() {
	k.forVectors(func() {
		var base, near, far [2]value
		var inside [2][2]mask
		for axis := range 2 {
			var floor, next value
			floor, next, near[axis], far[axis] = k.distances(axis, false)
			base[axis] = k.max(k.min(floor, k.parameter(paramPair+axis)), k.zero())
			k.storeMask(planeSwap+2*axis, k.compare(floor, equal, k.parameter(paramLast+axis)))
			k.storeMask(planeSwap+2*axis+1, k.compare(floor, equal, k.float(-1)))
			for i, p := range []value{floor, next} {
				inside[axis][i] = k.both(k.compare(p, greaterEqual, k.zero()), k.compare(p, less, k.parameter(paramSize+axis)))
			}
		}
		x, y := k.apply("VCVTTPS2DQ", base[0]), k.apply("VCVTTPS2DQ", base[1])
		k.storePlane(planePair, k.apply("VPADDD", k.apply("VPMULLD", k.integer(paramPitch), y), x))
		for tap := range 4 {
			m := k.both(inside[0][tap&1], inside[1][tap>>1])
			k.storeMask(planeInside+tap, m)
			weight := [2]value{near[0], near[1]}
			if tap&1 == 1 {
				weight[0] = far[0]
			}
			if tap>>1 == 1 {
				weight[1] = far[1]
			}
			k.storePlane(planeWeight+tap, k.keep(m, k.mul(weight[0], weight[1])))
		}
		all := k.both(k.both(inside[0][0], inside[0][1]), k.both(inside[1][0], inside[1][1]))
		k.storeBits(all, k.plane(planeEdge))
	})
}

// position emits the number of the position that the current vector begins
// at: the last vector is that of the last positions.
func (k *gridKernel) position() reg.GPVirtual {
	at, last := k.c.GP64(), k.c.GP64()
	k.c.MOVQ(k.i, at)
	k.c.LEAQ(operand.Mem{Base: k.n, Disp: -k.lanes}, last)
	k.c.CMPQ(at, last)
	k.c.CMOVQGT(last, at)
	return at
}

// loadFrom loads a vector of elements of the images' type.
func (k *gridKernel) loadFrom(from operand.Mem) value {
	return k.ofType(k.out, func(t *storage) value { return value{t.load(k.kernel, memory{from})} })
}

// storeAt rounds a vector to the storage type and stores it.
func (k *gridKernel) storeAt(v value, base, at reg.GPVirtual) {
	k.storeTo(v, operand.Mem{Base: base, Index: at, Scale: uint8(k.out.size)})
}

func (k *gridKernel) storeTo(v value, to operand.Mem) {
	k.forType(k.out, func(t *storage) {
		if t == bf16 && !k.isa.masks { // rounded by pairs
			k.group = 2
			packed := t.pack(k.kernel, value{v[0], v[0]})
			k.group = 1
			k.emit("VMOVDQU", packed[0].(reg.VecVirtual).AsX(), to)
			return
		}
		k.emit(either(k.isa.masks, "VMOVDQU64", "VMOVDQU"), t.pack(k.kernel, v)[0], to)
	})
}
