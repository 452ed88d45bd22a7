package main

import (
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Codes without divisions, where one positive scale holds for a run: a
// division takes longer than all other steps together.
//
// Elements are first held to what has the outermost codes, (lo-zero) * scale
// and (hi-zero) * scale, so that nothing overflows and no code is clamped
// later. Then u is x * inverse + x * rest with one fused step, rest being what
// the rounded inverse leaves of 1 / scale. It is off by less than 2^-23 units
// in the last place before it is rounded, and so is another number than x /
// scale only if that is as close to the middle between two numbers. Of all
// pairs of significands that come so close none has a quotient of less than
// 2^11 that rounds to another whole number: TestQuickQuotients tries them.
// Below 2^13 there are some that do. Below 2^-3 both round to 0.
type quick struct {
	first, last   reg.VecVirtual
	inverse, rest reg.VecVirtual
	zeros         reg.VecVirtual // in all bytes that of the zero point
	columns       bool           // every element has its own, in memory (quick_columns.go)
}

// What allows it: the length of a run, the bits of scales from 2^-60 to 2^60,
// and of bounds to 2^9.
const (
	quickLength   = 512
	smallestScale = 0x21800000
	largestScale  = 0x5d800000
	largestBound  = 0x44000000
)

// hasQuick reports whether kernels for some types can do without divisions.
func (o *op) hasQuick(v variant) bool { return o.quick != nil && v.code == nil && v.compute == f32 }

func (k *kernel) newQuick() *quick {
	return &quick{k.vector(), k.vector(), k.vector(), k.vector(), k.vector(), false}
}

// makeQuick emits what quick codes are made of; one is 1 in every lane.
func (k *kernel) makeQuick(scale, zero, lo, hi reg.VecVirtual, one any) *quick {
	q := k.newQuick()
	k.emit("VMOVUPS", one, q.rest)
	k.emit("VDIVPS", scale, q.rest, q.inverse)
	k.emit("VFNMADD231PS", scale, q.inverse, q.rest)
	k.emit("VDIVPS", scale, q.rest, q.rest)
	k.emit("VSUBPS", zero, lo, q.first)
	k.emit("VMULPS", scale, q.first, q.first)
	k.emit("VSUBPS", zero, hi, q.last)
	k.emit("VMULPS", scale, q.last, q.last)
	return q
}

// makeZeros fills the bytes of the zero point.
func (k *kernel) makeZeros(zero reg.VecVirtual) {
	if k.out == code8 {
		k.emit("VCVTPS2DQ", zero, k.quick.zeros)
		k.emit("VPBROADCASTB", k.quick.zeros.AsX(), k.quick.zeros)
	}
}

// quickBlocks handles all whole blocks, or none.
func (k *kernel) quickBlocks(n reg.GPVirtual) {
	divide := k.newLabel("divide")
	branch(k.c.CMPQ, n, operand.U32(quickLength), k.c.JLT, divide)
	k.allowQuick(divide)
	k.quick = k.makeQuick(k.param["scale"][0], k.param["zero"][0], k.param["lo"][0], k.param["hi"][0], k.one())
	k.makeZeros(k.param["zero"][0])
	k.quickLoop(n, k.op.quick)
	k.c.Label(divide)
}

// quickLoop is loop for quick codes.
func (k *kernel) quickLoop(n reg.GPVirtual, body func(k *kernel)) {
	k.quickly(func() { k.loop(n, k.group*k.lanes, body) })
	if k.quickGroup() > k.group {
		k.uniform() // which had no registers meanwhile
	}
}

// quickly emits loops over quick codes.
func (k *kernel) quickly(loops func()) {
	group := k.group
	k.group = k.quickGroup()
	loops()
	k.group, k.quick, k.finite = group, nil, false
}

// quickGroup returns how many vectors have quick codes side by side: on AVX2 as many as fill a
// register with codes.
func (k *kernel) quickGroup() int {
	if !k.isa.masks && k.out == code8 {
		return k.isa.bytes / k.lanes
	}
	return k.group
}

// allowQuick jumps where the call does not allow it.
func (k *kernel) allowQuick(divide string) {
	for _, flag := range []string{"scales", "zeros", "reciprocal"} {
		k.jumpIf(flag, divide)
	}
	bits := k.c.GP32()
	k.c.MOVL(operand.Mem{Base: k.ptr["scale"]}, bits)
	k.c.SUBL(operand.U32(smallestScale), bits)
	branch(k.c.CMPL, bits, operand.U32(largestScale-smallestScale), k.c.JHI, divide)
	for _, bound := range []string{"lo", "hi"} {
		k.c.MOVL(k.field(bound), bits)
		k.c.ANDL(operand.U32(0x7fffffff), bits)
		branch(k.c.CMPL, bits, operand.U32(largestBound), k.c.JHI, divide)
	}
	within := k.clamp(k.zero())
	k.emit("VMOVD", within[0].AsX(), bits)
	branch(k.c.CMPL, bits, operand.Mem{Base: k.ptr["zero"]}, k.c.JNE, divide)
}

// quickQuotient returns x / scale between the bounds less the zero point; a
// NaN stays one.
func (k *kernel) quickQuotient() value {
	from, x := k.quickElements()
	u := k.newValue()
	for i, v := range x {
		first, last, inverse, rest := k.quickOf(i)
		k.emit("VMINPS", from[i], last, v)
		k.emit("VMAXPS", v, first, v)
		k.emit("VMULPS", rest, v, u[i])
		k.emit("VFMADD231PS", inverse, v, u[i])
	}
	return u
}

// quickValue returns rint(u) * scale, never -0 for a 0; a NaN u counts as 0.
func (k *kernel) quickValue(u value) value {
	k.finite = true
	k.columnParameter("scale")
	y := k.newValue()
	for i, r := range k.rintOrZero(u) {
		k.emit("VXORPS", y[i], y[i], y[i])
		k.emit("VFMADD231PS", k.scale()[i], r, y[i])
	}
	return y
}

// storeQuick stores rint(u) + zero as codes. The conversion makes a NaN
// -2^31, the lowest byte of which is 0.
func (k *kernel) storeQuick(u value) {
	whole := k.apply("VCVTPS2DQ", u)
	var packed []reg.Register
	if k.split {
		packed = k.packWordsToBytes(k.words(whole, 0))
	} else {
		packed = k.toBytes(whole)
	}
	at := 0
	for _, r := range packed {
		switch {
		case k.quick.columns:
			k.emit("VPADDB", k.pointer("zeros", 0, 1).plus(at), r, r)
		case r.Size() == 16:
			k.emit("VPADDB", k.quick.zeros.AsX(), r, r)
		default:
			k.emit("VPADDB", k.quick.zeros, r, r)
		}
		at += int(r.Size())
	}
	k.write(k.out, packed)
}

// quickParams makes what quick codes are made of for many runs, or for many elements, and
// reports whether all of them allow it. Whole vectors are read and written.
func quickParams(c *build.Context) {
	beginFunction(c, "quickParamsAVX2", "func(n int, scale, zero *float32, zeroStep int, first *float32, pitch int, lo, hi float32) (ok bool)",
		"quickParamsAVX2 makes of n scales and zero points, a vector of which lies zeroStep bytes after the other, what quick codes need:",
		"first, last, inverse and rest, pitch bytes apart. It tells whether all may have quick codes.")
	n, scales, zeroPoints, to, pitch := param(c, "n"), param(c, "scale"), param(c, "zero"), param(c, "first"), param(c, "pitch")
	third := c.GP64()
	c.LEAQ(operand.Mem{Base: pitch, Index: pitch, Scale: 2}, third)
	k := &kernel{c: c, isa: avx2, compute: f32}
	all := func(bits uint32) reg.VecVirtual {
		word, v := c.GP32(), c.YMM()
		c.MOVL(operand.U32(bits), word)
		c.VMOVD(word, v.AsX())
		c.VPBROADCASTD(v.AsX(), v)
		return v
	}
	lo, hi := k.spreadParam("lo"), k.spreadParam("hi")
	one, smallest, extent := all(0x3F800000), all(smallestScale), all(largestScale-smallestScale)
	refused, bits := c.GP32(), c.GP64()
	c.XORL(refused, refused)
	c.Label("runs")
	scale, zero := c.YMM(), c.YMM()
	c.VMOVUPS(operand.Mem{Base: scales}, scale)
	c.VMOVUPS(operand.Mem{Base: zeroPoints}, zero)

	fits, t := c.YMM(), c.YMM()
	c.VPSUBD(smallest, scale, t)
	c.VPMINUD(extent, t, fits)
	c.VPCMPEQD(fits, t, fits)
	c.VCMPPS(operand.Imm(greaterEqual), lo, zero, t)
	c.VPAND(t, fits, fits)
	c.VCMPPS(operand.Imm(lessEqual), hi, zero, t)
	c.VPAND(t, fits, fits)
	mask := c.GP32()
	c.VMOVMSKPS(fits, mask)
	c.NOTL(mask)
	c.MOVQ(operand.I64(255), bits)
	c.BZHIQ(n, bits, bits) // of runs, not of what lies behind them
	c.ANDL(bits.As32(), mask)
	c.ORL(mask, refused)

	q := k.makeQuick(scale, zero, lo, hi, one)
	c.VMOVUPS(q.first, operand.Mem{Base: to})
	c.VMOVUPS(q.last, operand.Mem{Base: to, Index: pitch, Scale: 1})
	c.VMOVUPS(q.inverse, operand.Mem{Base: to, Index: pitch, Scale: 2})
	c.VMOVUPS(q.rest, operand.Mem{Base: to, Index: third, Scale: 1})
	c.ADDQ(operand.Imm(32), scales)
	c.ADDQ(operand.NewParamAddr("zeroStep", 24), zeroPoints)
	c.ADDQ(operand.Imm(32), to)
	c.SUBQ(operand.Imm(8), n)
	c.JGT(operand.LabelRef("runs"))
	c.VZEROUPPER()
	ok := c.GP8()
	c.TESTL(refused, refused)
	c.SETEQ(ok)
	c.Store(ok, c.ReturnIndex(0))
	c.RET()
}
