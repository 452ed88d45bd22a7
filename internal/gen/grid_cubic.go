package main

import (
	"math"

	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// The kernels of bicubic grid_sample (cpu/grid_cubic_cells.go). A position's four
// taps in a row of the image are a window of four elements. Where the padding
// has other taps than the window's elements, Go has said which they are.

// The planes of a block of cells, as cpu/grid_cubic_cells.go names them.
const (
	cubicPlace   = planeGrad + 2    // the element that the window begins at, of each row of taps
	cubicSelect  = cubicPlace + 4   // the taps' elements in the window, of each column of taps
	cubicControl = cubicSelect + 4  // the same, by positions: as VPERMILPS wants it
	cubicColumns = cubicControl + 4 // whether a column of taps is inside
	cubicRows    = cubicColumns + 4
	cubicLive    = cubicRows + 4    // whether there is a gradient along x, y
	cubicWeight  = cubicLive + 2    // of the columns, then their derivatives; of the rows
	cubicPixel   = cubicWeight + 16 // of each tap its number in the band, or -1
	cubicProduct = cubicPixel + 16  // of each tap its weight
	cubicSums    = planeSums        // x, y

	cubicTaps = 4     // along an axis
	cubicA    = -0.75 // see cpu/grid_cubic.go
)

// cubicKernels emits those of every type, on every instruction set.
func cubicKernels(c *build.Context) {
	globals := newTables()
	for _, isa := range isas {
		begin := func(name string, t *storage, signature string, doc ...string) *gridKernel {
			beginFunction(c, name, signature, doc...)
			k := &kernel{c: c, globals: globals, isa: isa, compute: f32, out: t, group: 1, lanes: isa.bytes / 4}
			return &gridKernel{kernel: k, cells: param(c, "cells"), n: param(c, "n"), i: c.GP64()}
		}
		begin("gridCubicLocate"+isa.name, f32, "func(cells *byte, n int)",
			"gridCubicLocate"+isa.name+" fills cells from the coordinates of n positions and the parameters.").locateCubic(true)
		begin("gridCubicPlace"+isa.name, f32, "func(cells *byte, n int)",
			"gridCubicPlace"+isa.name+" is gridCubicLocate without what only the grid's gradient needs.").locateCubic(false)
		begin("gridCubicPixels"+isa.name, f32, "func(cells *byte, n int)",
			"gridCubicPixels"+isa.name+" numbers the taps' pixels within a band of the image, and multiplies weights.").cubicPixels()
		begin("gridCubicCombine"+isa.name, f32, "func(cells *byte, n int)",
			"gridCubicCombine"+isa.name+" turns the cells' sums into gradients.").combineCubic()
		for _, t := range []*storage{f32, bf16, f16} {
			name := "gridCubicSample" + isa.name + t.name
			begin(name, t, "func(cells *byte, n int, input *byte, y *byte)",
				name+" samples one channel at n positions.",
				"The last vector of cells is that of the last positions.").sampleCubic()
			name = "gridCubicTerms" + isa.name + t.name
			begin(name, t, "func(cells *byte, n int, input *byte, channelStride int, dy *byte, dyStride int, channels int, terms *byte)",
				name+" adds one group's terms of the grid's gradient, of up to 16 channels, to the",
				"cells' sums. terms is room for 16 times 4 vectors.").termsCubic()
		}
	}
	for _, isa := range isas {
		for width := 4; width <= 16; width += 4 {
			if width == 16 || !isa.masks {
				cubicAdd(c, isa, width)
			}
		}
	}
}

func (k *gridKernel) float(v float32) value { return k.number(math.Float32bits(v)) }

// locateCubic fills cells as if all taps were inside; planeEdge says of which
// positions they are not.
func (k *gridKernel) locateCubic(gradient bool) {
	k.forVectors(func() {
		var plain mask
		var first [2]value
		for axis := range 2 {
			mapped := k.add(k.loadPlane(planeCoord+axis), k.float(1))
			mapped = k.sub(k.mul(mapped, k.parameter(paramScale+axis)), k.parameter(paramShift+axis))
			c := k.mul(mapped, k.parameter(paramFactor+axis))
			k.storePlane(planeCoord+axis, c)
			floor := k.apply(k.isa.rint+"PS", 9, c)
			k.weights(axis, k.sub(c, floor), gradient)
			low, high := k.sub(floor, k.float(1)), k.add(floor, k.float(2))
			inside := k.both(k.compare(low, greaterEqual, k.zero()), k.compare(high, less, k.parameter(paramSize+axis)))
			if axis == 1 {
				inside = k.both(plain, inside)
			}
			plain, first[axis] = inside, k.apply("VCVTTPS2DQ", low)
		}
		pitch := k.vector()
		k.emit("VPBROADCASTD", k.word(paramPitch), pitch)
		place := k.apply("VPADDD", k.apply("VPMULLD", value{pitch}, first[1]), first[0])
		all, control := k.number(math.MaxUint32), value{k.vector()}
		k.emit("VMOVUPS", k.table("window", operand.U32(0), operand.U32(1), operand.U32(2), operand.U32(3)), control[0])
		for tap := range cubicTaps {
			k.storePlane(cubicPlace+tap, place)
			if tap < cubicTaps-1 {
				place = k.apply("VPADDD", value{pitch}, place)
			}
			k.storePlane(cubicSelect+tap, k.number(uint32(tap)))
			k.storePlane(cubicControl+tap, control)
			k.storePlane(cubicColumns+tap, all)
			k.storePlane(cubicRows+tap, all)
		}
		k.storePlane(cubicLive, all)
		k.storePlane(cubicLive+1, all)
		bits := k.c.GP32()
		if k.isa.masks {
			k.emit("KMOVW", plain[0], bits)
		} else {
			k.emit("VMOVMSKPS", plain[0], bits)
		}
		k.c.XORL(operand.U32(1<<k.lanes-1), bits)
		k.c.MOVL(bits, k.plane(planeEdge).Mem)
	})
}

// weights stores the weights of the taps along an axis, and their derivatives.
func (k *gridKernel) weights(axis int, t value, slopes bool) {
	const a = cubicA
	s := k.sub(k.float(1), t)
	far := [2]value{k.add(t, k.float(1)), k.add(s, k.float(1))}
	near := [2]value{t, s}
	for side := range 2 {
		u := far[side]
		v := k.sub(k.mul(u, k.float(a)), k.float(5*a))
		v = k.add(k.mul(v, u), k.float(8*a))
		k.storePlane(cubicWeight+8*axis+3*side, k.sub(k.mul(v, u), k.float(4*a)))
		u = near[side]
		v = k.mul(k.sub(k.mul(u, k.float(a+2)), k.float(a+3)), u)
		k.storePlane(cubicWeight+8*axis+1+side, k.add(k.mul(v, u), k.float(1)))
		if !slopes {
			continue
		}
		u = far[side]
		outer := k.add(k.mul(k.sub(k.mul(u, k.float(3*a)), k.float(10*a)), u), k.float(8*a))
		u = near[side]
		inner := k.mul(k.sub(k.mul(u, k.float(3*(a+2))), k.float(2*(a+3))), u)
		for i, v := range []value{outer, inner} {
			if side == 1 {
				v = k.apply(k.bits("VPXOR"), k.constant(uint32(1<<31)), v)
			}
			k.storePlane(cubicWeight+8*axis+4+[2][2]int{{0, 1}, {3, 2}}[side][i], v)
		}
	}
}

// row emits the loads of one row of taps, whose planes lie at r. Of every four
// positions the windows are turned, so that each tap has a vector.
func (k *gridKernel) row(r reg.GPVirtual, edge bool) (v [cubicTaps]value) {
	var windows [cubicTaps]value
	for m := range windows {
		windows[m] = k.windows(r, m)
		if edge {
			windows[m] = k.apply("VPERMILPS", k.plane(cubicControl+m), windows[m])
		}
	}
	pair := func(name string, a, b value) value { return k.apply(name, b, a) }
	low := [2]value{pair("VUNPCKLPS", windows[0], windows[1]), pair("VUNPCKLPS", windows[2], windows[3])}
	high := [2]value{pair("VUNPCKHPS", windows[0], windows[1]), pair("VUNPCKHPS", windows[2], windows[3])}
	v = [cubicTaps]value{
		pair("VUNPCKLPD", low[0], low[1]), pair("VUNPCKHPD", low[0], low[1]),
		pair("VUNPCKLPD", high[0], high[1]), pair("VUNPCKHPD", high[0], high[1]),
	}
	if edge {
		for tap := range v {
			inside := k.apply(k.bits("VPAND"), k.plane(cubicColumns+tap), value{loadWhole(k.kernel, k.rowPlane(r, cubicRows))})
			v[tap] = k.apply(k.bits("VPAND"), inside, v[tap])
		}
	}
	return v
}

// rowPlane is plane for the row whose planes lie at r.
func (k *gridKernel) rowPlane(r reg.GPVirtual, number int) memory {
	return memory{operand.Mem{Base: r, Index: k.i, Scale: 4, Disp: number * planeBytes}}
}

// windows loads the windows of positions m, m + 4, ... into quarters of 128 bits.
func (k *gridKernel) windows(r reg.GPVirtual, m int) value {
	v := k.vector()
	insert := "VINSERTF128"
	if k.isa.masks {
		insert = "VINSERTF32X4"
	}
	for quarter := range k.lanes / 4 {
		at := k.c.GP64()
		k.c.MOVL(k.rowPlane(r, cubicPlace).plus(4*(4*quarter+m)).Mem, at.As32())
		from := operand.Mem{Base: k.input, Index: at, Scale: uint8(k.out.size)}
		if k.out == f32 {
			if quarter == 0 {
				k.c.VMOVUPS(from, v.AsX())
			} else {
				k.emit(insert, quarter, from, v, v)
			}
			continue
		}
		x := v.AsX().(reg.VecVirtual)
		if quarter > 0 {
			x = k.c.XMM()
		}
		if k.out == f16 {
			k.c.VCVTPH2PS(from, x)
		} else {
			k.c.VPMOVZXWD(from, x)
		}
		if quarter > 0 {
			k.emit(insert, quarter, x, v, v)
		}
	}
	if k.out == bf16 {
		return k.apply("VPSLLD", 16, value{v})
	}
	return value{v}
}

// forRows emits a loop over the rows of taps of a vector of positions: body gets
// the row's values and where its planes lie.
func (k *gridKernel) forRows(body func(v [cubicTaps]value, r reg.GPVirtual)) {
	loop, edge, next := k.newLabel("row"), k.newLabel("edge"), k.newLabel("next")
	r, left := k.c.GP64(), k.c.GP64()
	k.c.MOVQ(k.cells, r)
	k.c.MOVQ(operand.U32(cubicTaps), left)
	k.c.Label(loop)
	k.c.CMPL(k.plane(planeEdge).Mem, operand.Imm(0))
	k.c.JNE(operand.LabelRef(edge))
	body(k.row(r, false), r)
	k.c.JMP(operand.LabelRef(next))
	k.c.Label(edge)
	body(k.row(r, true), r)
	k.c.Label(next)
	k.c.ADDQ(operand.U32(planeBytes), r)
	k.c.DECQ(left)
	k.c.JNE(operand.LabelRef(loop))
}

// weighted sums values times the planes from number on, left to right. The sum
// of a row may be -0 where one from +0 is not: no sum over rows shows it.
func (k *gridKernel) weighted(v [cubicTaps]value, number int) value {
	sum := k.apply("VMULPS", k.plane(number), v[0])
	for tap := 1; tap < cubicTaps; tap++ {
		sum = k.add(sum, k.apply("VMULPS", k.plane(number+tap), v[tap]))
	}
	return sum
}

// addRow adds a row's sum times the row's word of the planes from number on.
func (k *gridKernel) addRow(to, sum value, r reg.GPVirtual, number int) {
	term := k.apply("VMULPS", k.rowPlane(r, number), sum)
	k.emit("VADDPS", term[0], to[0], to[0])
}

func (k *gridKernel) clear(v value) { k.emit(k.bits("VPXOR"), v[0], v[0], v[0]) }

func (k *gridKernel) sampleCubic() {
	k.input = param(k.c, "input")
	y := param(k.c, "y")
	k.forVectors(func() {
		sum := value{k.vector()}
		k.clear(sum)
		k.forRows(func(v [cubicTaps]value, r reg.GPVirtual) {
			k.addRow(sum, k.weighted(v, cubicWeight), r, cubicWeight+8)
		})
		k.storeAt(sum, y, k.position())
	})
}

func (k *gridKernel) termsCubic() {
	c := k.c
	stride, dyStride := param(c, "channelStride"), param(c, "dyStride")
	k.clearTerms(param(c, "terms"), 0)
	k.input = c.GP64()
	k.forVectors(func() {
		loop, few, folded := k.newLabel("channel"), k.newLabel("few"), k.newLabel("folded")
		from, left, to := param(c, "dy"), param(c, "channels"), param(c, "terms")
		c.LEAQ(operand.Mem{Base: from, Index: k.position(), Scale: uint8(k.out.size)}, from)
		c.Load(c.Param("input"), k.input)
		c.Label(loop)
		sums := [2]value{{k.vector()}, {k.vector()}}
		k.clear(sums[0])
		k.clear(sums[1])
		k.forRows(func(v [cubicTaps]value, r reg.GPVirtual) {
			k.addRow(sums[0], k.weighted(v, cubicWeight+4), r, cubicWeight+8)
			k.addRow(sums[1], k.weighted(v, cubicWeight), r, cubicWeight+8+4)
		})
		g := value{k.out.load(k.kernel, memory{operand.Mem{Base: from}})}
		for axis, sum := range sums {
			k.emit("VMOVUPS", k.mul(g, sum)[0], k.term(to, 0, axis))
		}
		c.ADDQ(operand.U32(4*k.isa.bytes), to)
		c.ADDQ(stride, k.input)
		c.ADDQ(dyStride, from)
		c.DECQ(left)
		c.JNE(operand.LabelRef(loop))
		terms := param(c, "terms")
		foldAll := func(width int) {
			for axis := range sums {
				k.storePlane(cubicSums+axis, k.add(k.loadPlane(cubicSums+axis), k.foldTerms(terms, width, axis)))
			}
		}
		c.CMPQ(param(c, "channels"), operand.Imm(4))
		c.JLE(operand.LabelRef(few))
		foldAll(groupChannels)
		c.JMP(operand.LabelRef(folded))
		c.Label(few)
		foldAll(4)
		c.Label(folded)
	})
}

func (k *gridKernel) combineCubic() {
	k.forVectors(func() {
		for axis := range 2 {
			grad := k.mul(k.loadPlane(cubicSums+axis), k.parameter(paramK+axis))
			k.storePlane(planeGrad+axis, k.apply(k.bits("VPAND"), k.plane(cubicLive+axis), grad))
		}
	})
}
