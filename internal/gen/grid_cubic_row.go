package main

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Rows of taps: the value of bicubic, and its grid's gradient.

// row emits the loads of one row of taps, whose planes lie at r. Of every four
// positions the windows are turned, so that each tap has a vector.
func (k *gridKernel) row(r reg.GPVirtual, edge bool) (v [cubicTaps]value) {
	var windows [cubicTaps]value
	for m := range windows {
		windows[m] = k.windows(k.rowPlane(r, cubicPlace), m)
		if edge {
			windows[m] = k.ordered(windows[m], k.plane(cubicControl+m))
		}
	}
	v = k.turn(windows)
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
	sum := k.apply(k.ps("VMUL"), k.plane(number), v[0])
	for tap := 1; tap < cubicTaps; tap++ {
		sum = k.add(sum, k.apply(k.ps("VMUL"), k.plane(number+tap), v[tap]))
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
	k.termsOf(2, false, func(g func() value, store func(sum int, v value)) {
		sums := [2]value{{k.vector()}, {k.vector()}}
		k.clear(sums[0])
		k.clear(sums[1])
		k.forRows(func(v [cubicTaps]value, r reg.GPVirtual) {
			k.addRow(sums[0], k.weighted(v, cubicWeight+4), r, cubicWeight+8)
			k.addRow(sums[1], k.weighted(v, cubicWeight), r, cubicWeight+8+4)
		})
		dy := g()
		for axis, sum := range sums {
			store(axis, k.mul(dy, sum))
		}
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
