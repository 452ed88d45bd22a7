package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// The kernels of bicubic, of images and volumes: each axis has its own places and
// weights, of which a tap's are the sum and the product
// (cpu/grid_cubic_cells.go). Four neighbours in a row of an image are a window,
// which one load takes; other rows of taps are read tap by tap.

const cubicA = -0.75 // see cpu/grid_cubic.go

// planeOutside says how a vector's rows of taps are read.
const (
	rowsPlain  = iota // windows as they are
	rowsMoved         // windows whose elements are put in order
	rowsByTaps        // each tap by itself
)

// cubicOutside is the offset of a tap outside: so low that with those of other
// axes it stays negative, and one of each axis do not overflow.
func cubicOutside(dims int) uint32 { return -(uint32(1) << (32 - dims)) }

// cubicKernels emits those of every type, on every instruction set.
func cubicKernels(c *build.Context) {
	globals := newTables()
	for _, isa := range isas {
		begin := gatherFunctions(c, globals, isa)
		for dims := 2; dims <= 3; dims++ {
			for _, compute := range []*storage{f32, f64} {
				suffix := fmt.Sprintf("%d%s%s", dims, isa.name, compute.name)
				begin("gridCubicLocate"+suffix, compute, "",
					"gridCubicLocate"+suffix+" fills cells from the coordinates of n positions and the parameters.").locateCubic(dims)
				begin("gridCubicPixels"+suffix, compute, ", pixels *byte, weights *byte",
					"gridCubicPixels"+suffix+" numbers taps within a band of the image, -1 being none, and multiplies weights.").cubicPixels(dims)
				begin("gridCubicCombine"+suffix, compute, "",
					"gridCubicCombine"+suffix+" turns the cells' sums into gradients.").combineCubic(dims)
			}
			for _, t := range floatsRead {
				suffix := fmt.Sprintf("%d%s%s", dims, isa.name, t.name)
				begin("gridCubicSample"+suffix, t, ", input *byte, y *byte",
					"gridCubicSample"+suffix+" samples one channel at n positions.",
					"The last vector of cells is that of the last positions.").sampleCubic(dims)
				begin("gridCubicTerms"+suffix, t, ", input *byte, channelStride int, dy *byte, dyStride int, channels int, terms *byte",
					"gridCubicTerms"+suffix+" adds one group's terms of the grid's gradient, of up to 16 channels, to the",
					"cells' sums. terms is room for 16 times as many vectors as there are sums.").termsCubic(dims)
			}
		}
	}
}

// tapPlane is a plane of an axis at the place that r has among its taps.
func (k *gridKernel) tapPlane(r reg.GPVirtual, number int) memory {
	m := k.plane(number)
	m.Base = r
	return m
}

// offsets is the place of an axis's offsets: of integers, as many as a vector has.
func (k *gridKernel) offsets(r reg.GPVirtual, number int) memory {
	m := k.tapPlane(r, number)
	m.Scale = 4
	return m
}

// atTaps emits a loop over the taps along an axis: r comes to where their planes are.
func (k *gridKernel) atTaps(name string, body func(r reg.GPVirtual)) {
	bytes := planeBytes / 4 * k.compute.size
	loop, r, end := k.newLabel(name), k.c.GP64(), k.c.GP64()
	k.c.MOVQ(k.cells, r)
	k.c.Label(loop)
	body(r)
	k.c.ADDQ(operand.U32(bytes), r)
	k.c.LEAQ(operand.Mem{Base: k.cells, Disp: cubicTaps * bytes}, end)
	branch(k.c.CMPQ, r, end, k.c.JNE, loop)
}

// forRows emits the loops over rows of taps, of volumes those of each plane.
// row gets the row's taps and where its weights along y are; plane, where they
// are along z.
func (k *gridKernel) forRows(dims int, row func(v [cubicTaps]value, y reg.GPVirtual), begin func(), end func(z reg.GPVirtual)) {
	var v [cubicTaps]value
	for tap := range v {
		v[tap] = value{k.vector()}
	}
	if dims == 2 {
		k.atTaps("row", func(y reg.GPVirtual) {
			k.readRow(v, y, nil, y)
			row(v, y)
		})
		return
	}
	window := k.c.GP64()
	k.c.MOVQ(k.cells, window)
	k.atTaps("plane", func(z reg.GPVirtual) {
		begin()
		k.atTaps("row", func(y reg.GPVirtual) {
			k.readRow(v, y, z, window)
			k.c.ADDQ(operand.U32(planeBytes/4*k.compute.size), window)
			row(v, y)
		})
		end(z)
	})
}

// readRow reads a row of taps.
func (k *gridKernel) readRow(v [cubicTaps]value, y, z, window reg.GPVirtual) {
	n := k.narrow()
	plain, moved, done := k.newLabel("plain"), k.newLabel("moved"), k.newLabel("read")
	branch(k.c.CMPL, k.integers(planeOutside).Mem, operand.Imm(rowsMoved), k.c.JLT, plain)
	at := value{loadWhole(n.kernel, k.offsets(y, cubicOffset+cubicTaps))}
	if z != nil {
		at = n.apply("VPADDD", k.offsets(z, cubicOffset+2*cubicTaps), at)
	}
	places := k.offsets(window, cubicWindow)
	tapAt := func(tap int) value { return n.apply("VPADDD", k.offsets(k.cells, cubicOffset+tap), at) }
	k.c.JEQ(operand.LabelRef(moved))
	for tap := range v {
		n.emit("VMOVUPS", tapAt(tap)[0], k.integers(planePlace+tap))
	}
	for tap, gathered := range k.everyTap(len(v), true) {
		k.move(gathered, v[tap])
	}
	k.c.JMP(operand.LabelRef(done))

	k.c.Label(moved)
	windows := k.windows(places)
	for m := range windows {
		windows[m] = k.ordered(windows[m], k.plane(cubicControl+m))
	}
	for tap, transposed := range k.transposeWindows(windows) {
		inside := n.lessThan(n.number(0xFFFFFFFF), tapAt(tap))
		k.move(k.keep(k.wide(inside), transposed), v[tap])
	}
	k.c.JMP(operand.LabelRef(done))

	k.c.Label(plain)
	for tap, transposed := range k.transposeWindows(k.windows(places)) {
		k.move(transposed, v[tap])
	}
	k.c.Label(done)
}

// rowSum sums a row of taps times its weights, or their derivatives, left to
// right. It may be -0 where one from +0 is not: no sum over rows shows it.
func (k *gridKernel) rowSum(v [cubicTaps]value, derivative int) value {
	number := cubicWeight + derivative*cubicTaps
	sum := k.apply(k.ps("VMUL"), k.plane(number), v[0])
	for tap := 1; tap < cubicTaps; tap++ {
		sum = k.add(sum, k.apply(k.ps("VMUL"), k.plane(number+tap), v[tap]))
	}
	return sum
}

// addTimes adds a product with an axis's weights, or their derivatives, to a sum.
func (k *gridKernel) addTimes(to, v value, r reg.GPVirtual, axis, derivative int) {
	weights := k.tapPlane(r, cubicWeight+(2*axis+derivative)*cubicTaps)
	k.move(k.add(to, k.apply(k.ps("VMUL"), weights, v)), to)
}

func (k *gridKernel) sampleCubic(dims int) {
	k.input = param(k.c, "input")
	y := param(k.c, "y")
	k.forVectors(func() {
		sum, plane := value{k.vector()}, value{k.vector()}
		k.clear(sum)
		rows := plane
		if dims == 2 {
			rows = sum
		}
		k.forRows(dims, func(v [cubicTaps]value, y reg.GPVirtual) {
			k.addTimes(rows, k.rowSum(v, 0), y, 1, 0)
		}, func() { k.clear(plane) }, func(z reg.GPVirtual) {
			k.addTimes(sum, plane, z, 2, 0)
		})
		k.storeAt(sum, y, k.position())
	})
}

// termsCubic makes the terms of each axis: sums with its weights' derivatives.
func (k *gridKernel) termsCubic(dims int) {
	k.sums = dims
	k.termsOf(nil, func(g func() value, store func(sum int, v value)) {
		sums, planes := make([]value, dims), make([]value, dims)
		for axis := range dims {
			sums[axis], planes[axis] = value{k.vector()}, value{k.vector()}
			k.clear(sums[axis])
		}
		rows := planes
		if dims == 2 {
			rows = sums
		}
		k.forRows(dims, func(v [cubicTaps]value, y reg.GPVirtual) {
			k.addTimes(rows[0], k.rowSum(v, 1), y, 1, 0)
			row := k.rowSum(v, 0)
			k.addTimes(rows[1], row, y, 1, 1)
			if dims == 3 {
				k.addTimes(rows[2], row, y, 1, 0)
			}
		}, func() {
			for _, plane := range planes {
				k.clear(plane)
			}
		}, func(z reg.GPVirtual) {
			for axis, plane := range planes {
				k.addTimes(sums[axis], plane, z, 2, axis/2)
			}
		})
		dy := g()
		for axis, sum := range sums {
			store(axis, k.mul(dy, sum))
		}
	})
}

func (k *gridKernel) clear(v value) { k.emit(k.bits("VPXOR"), v[0], v[0], v[0]) }
