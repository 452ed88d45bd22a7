package main

import (
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// An op that chooses looks at a run twice: first for its extremes, from which
// scale and zero point of the run follow, then to map it with these while it is
// in the first cache. In Go the step between the two would take as long as half
// a run of 4096 elements.

// choose makes scale and zero point of a run of n elements, and stores them
// where those of runs are.
func (k *kernel) choose(n, params reg.GPVirtual, block int) {
	scale, zero := k.qparams(k.extremes(n, block))
	at := func(name string) operand.Mem { return operand.Mem{Base: params, Disp: runParams.offset(name)} }
	k.c.VMOVSS(scale, at("scale"))
	k.c.VMOVSS(zero, at("zero"))
	if k.op.quick != nil {
		k.chooseQuick(scale, zero, at)
	}
}

// qparams is cpu.QParams on what extremes returns.
func (k *kernel) qparams(lo, hi reg.VecVirtual) (scale, zeroPoint reg.VecVirtual) {
	c := k.c
	unless := func(jump func(operand.Op), body func()) {
		after := k.newLabel("after")
		jump(operand.LabelRef(after))
		body()
		c.Label(after)
	}
	zero, width := c.XMM(), c.XMM()
	c.VXORPS(zero, zero, zero)
	c.VUCOMISS(hi, lo)
	unless(c.JPC, func() { // neither is a NaN, else both become one
		c.VADDSS(lo, hi, hi)
		c.VMOVAPS(hi, lo)
	})
	c.VUCOMISS(zero, lo)
	unless(c.JCS, func() { c.VMOVAPS(zero, lo) }) // below 0

	scale, zeroPoint = c.XMM(), c.XMM()
	symmetric, divide, chosen := k.newLabel("symmetric"), k.newLabel("divide"), k.newLabel("chosen")
	c.VMOVSS(k.field("hi"), width)
	k.jumpIf("symmetric", symmetric)
	c.VSUBSS(k.field("lo"), width, width)
	c.VSUBSS(lo, hi, scale)
	c.JMP(operand.LabelRef(divide))
	c.Label(symmetric)
	c.VSUBSS(lo, zero, scale)
	c.VMAXSS(scale, hi, scale)
	c.Label(divide)
	c.VDIVSS(width, scale, scale)
	c.VUCOMISS(zero, scale)
	unless(c.JNE, func() {
		unless(c.JPS, func() { c.VMOVSS(k.one().Mem, scale) }) // equal, not a NaN
	})

	least := c.XMM()
	c.VMOVSS(k.field("eps"), least)
	c.VMAXSS(scale, least, scale) // a NaN stays

	c.VMOVAPS(zero, zeroPoint)
	k.jumpIf("symmetric", chosen)
	c.VDIVSS(scale, lo, lo)
	c.VMOVSS(k.field("lo"), zeroPoint)
	c.VSUBSS(lo, zeroPoint, zeroPoint)
	c.VUCOMISS(zeroPoint, zeroPoint)
	unless(c.JPC, func() { c.VMOVAPS(zero, zeroPoint) })
	k.emit(k.isa.rint+"SS", 8, zeroPoint, zeroPoint, zeroPoint)
	c.VMINSS(k.field("hi"), zeroPoint, zeroPoint)
	c.VMAXSS(k.field("lo"), zeroPoint, zeroPoint)
	c.VADDSS(zero, zeroPoint, zeroPoint) // never -0
	c.Label(chosen)
	return scale, zeroPoint
}

// extremes returns the smallest and the largest of a run's elements: the bits
// that are largest as unsigned and as signed numbers, or 0 (see heldExtremes).
func (k *kernel) extremes(n reg.GPVirtual, block int) (lo, hi reg.VecVirtual) {
	c, left := k.c, k.c.GP64()
	low, high := k.newValue(), k.newValue()
	for i := range low {
		k.emit(k.bits("VPXOR"), low[i], low[i], low[i])
		k.emit(k.bits("VPXOR"), high[i], high[i], high[i])
	}
	take := func(k *kernel) {
		for i, x := range k.load(0) {
			k.emit("VPMAXUD", x, low[i], low[i])
			k.emit("VPMAXSD", x, high[i], high[i])
		}
	}
	forward := func(elements int) { c.ADDQ(operand.I32(elements*k.in[0].size), k.ptr["in0"]) }
	c.MOVQ(n, left)
	loop, done := k.newLabel("look"), k.newLabel("looked")
	c.Label(loop)
	branch(c.CMPQ, left, operand.U32(block), c.JLT, done)
	k.eachGroup(block, take)
	forward(block)
	c.SUBQ(operand.U32(block), left)
	c.JMP(operand.LabelRef(loop))
	c.Label(done)
	k.repeats = k.op.repeats(k.isa)
	k.some(left, block, func(elements int) {
		take(k)
		forward(elements)
	})
	k.repeats = false
	k.forData(func(name string, _ *storage) { c.MOVQ(k.field(name+"Row"), k.ptr[name]) })
	return k.largest("VPMAXUD", low), k.largest("VPMAXSD", high)
}

// largest folds the elements of a group of registers.
func (k *kernel) largest(name string, v value) reg.VecVirtual {
	for half := len(v) / 2; half > 0; half /= 2 {
		for i := range half {
			k.emit(name, v[i+half], v[i], v[i])
		}
	}
	half, quarter := v[0], k.c.XMM()
	if k.isa.masks {
		half = k.c.YMM()
		k.emit("VEXTRACTI64X4", 1, v[0], half)
		k.emit(name, half, v[0].AsY(), half)
	}
	k.emit(either(k.isa.masks, "VEXTRACTI32X4", "VEXTRACTI128"), 1, half, quarter)
	k.emit(name, quarter, half.AsX(), quarter)
	for _, order := range []int{0x4E, 0xB1} {
		other := k.c.XMM()
		k.emit("VPSHUFD", order, quarter, other)
		k.emit(name, other, quarter, quarter)
	}
	return quarter
}

// chooseQuick tells whether a run may have quick codes, and stores what they
// are made of. Zero points are within the bounds.
func (k *kernel) chooseQuick(scale, zero reg.VecVirtual, at func(name string) operand.Mem) {
	c, divide, bits := k.c, k.newLabel("slow"), k.c.GP32()
	c.MOVB(operand.U8(0), k.field("quick"))
	k.jumpUnless("small", divide)
	c.VMOVD(scale, bits)
	c.SUBL(operand.U32(smallestScale), bits)
	branch(c.CMPL, bits, operand.U32(largestScale-smallestScale), c.JHI, divide)
	c.MOVB(operand.U8(1), k.field("quick"))
	lo, hi := c.XMM(), c.XMM()
	c.VMOVSS(k.field("lo"), lo)
	c.VMOVSS(k.field("hi"), hi)
	one := c.XMM()
	c.VMOVSS(k.one().Mem, one)
	narrow := *k
	narrow.isa = &isa{masks: true, vector: func(c *build.Context) reg.VecVirtual { return c.XMM() }}
	q := narrow.makeQuick(scale, zero, lo, hi, one)
	c.VMOVSS(q.first, at("first"))
	c.VMOVSS(q.last, at("last"))
	c.VMOVSS(q.inverse, at("inverse"))
	c.VMOVSS(q.rest, at("rest"))
	c.Label(divide)
}
