package main

import (
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// parameter is a type that scales or zero points have in memory.
type parameter struct {
	*storage
	scales bool // of scales, too
	floats bool // zero points are rounded
	// vector loads 8 elements as f32, lane one of them; no vector: one by one.
	vector, lane func(k *kernel, from memory) reg.VecVirtual
}

var i64 = &storage{name: "I64", size: 8}

var parameters = []parameter{
	{storage: f32, floats: true, vector: loadWhole, lane: func(k *kernel, from memory) reg.VecVirtual {
		return k.fetch("VMOVSS", from, k.c.XMM())
	}},
	{storage: f16, scales: true, floats: true, vector: loadF16, lane: func(k *kernel, from memory) reg.VecVirtual {
		v := k.wordLane("MOVWLZX", 0, from)
		k.emit("VCVTPH2PS", v, v)
		return v
	}},
	{storage: bf16, scales: true, floats: true, vector: loadBF16, lane: func(k *kernel, from memory) reg.VecVirtual {
		return k.wordLane("MOVWLZX", 16, from)
	}},
	{storage: i32, vector: i32.load, lane: wholeLane("MOVL")},
	{storage: i64, lane: func(k *kernel, from memory) reg.VecVirtual {
		v := k.c.XMM()
		k.emit("VXORPS", v, v, v)
		k.emit("VCVTSI2SSQ", from, v, v)
		return v
	}},
	{storage: s8, vector: s8.load, lane: wholeLane("MOVBLSX")},
	{storage: u8, vector: u8.load, lane: wholeLane("MOVBLZX")},
	{storage: s16, vector: s16.load, lane: wholeLane("MOVWLSX")},
	{storage: u16, vector: u16.load, lane: wholeLane("MOVWLZX")},
}

// wordLane loads a number, shifted left, into a lane.
func (k *kernel) wordLane(load string, shift int, from memory) reg.VecVirtual {
	word, v := k.c.GP32(), k.c.XMM()
	k.emit(load, from, word)
	if shift > 0 {
		k.emit("SHLL", shift, word)
	}
	k.emit("VMOVD", word, v)
	return v
}

func wholeLane(load string) func(k *kernel, from memory) reg.VecVirtual {
	return func(k *kernel, from memory) reg.VecVirtual {
		v := k.wordLane(load, 0, from)
		k.emit("VCVTDQ2PS", v, v)
		return v
	}
}

// zeroPointRounding returns what makes zero points of numbers: whole, within two of the
// function's parameters, 0 for a NaN, never -0.
func (k *kernel) zeroPointRounding(least, most string) func(z reg.Register) {
	lo, hi, zero := k.spreadParam(least), k.spreadParam(most), k.vector()
	k.emit("VXORPS", zero, zero, zero)
	return func(z reg.Register) {
		number := k.vector()
		k.emit("VCMPPS", ordered, z, z, number)
		k.emit("VANDPS", number, z, z)
		k.emit("VROUNDPS", nearestEven, z, z)
		k.emit("VMAXPS", lo, z, z)
		k.emit("VMINPS", hi, z, z)
		k.emit("VADDPS", zero, z, z)
	}
}

// spreadParam loads a float32 of the function's parameters into all lanes.
func (k *kernel) spreadParam(name string) reg.VecVirtual {
	v := k.vector()
	k.emit("VBROADCASTSS", place(k.c, name), v)
	return v
}

// chooseParameters makes of ranges that include 0 scales and zero points, 8 at a time.
func chooseParameters(c *build.Context) {
	for _, symmetric := range []bool{true, false} {
		name := either(symmetric, "chooseSymmetricAVX2", "chooseAsymmetricAVX2")
		beginFunction(c, name, "func(lo, hi *float32, n int, qmin, qmax, span, eps float32)",
			name+" makes of n ranges, a multiple of 8, that include 0 their scales, in lo, and zero points, in hi;", "span is what ranges are divided by.")
		k := &kernel{c: c, isa: avx2, compute: f32, lanes: 8, group: 1}
		lo, hi, span, eps, zero, one := param(c, "lo"), param(c, "hi"), k.spreadParam("span"), k.spreadParam("eps"), k.vector(), k.vector()
		k.emit("VXORPS", zero, zero, zero)
		k.emit("VPCMPEQD", one, one, one)
		k.emit("VPSRLD", 25, one, one)
		k.emit("VPSLLD", 23, one, one) // 0x3f800000
		round, qmin := func(reg.Register) {}, k.vector()
		if !symmetric {
			round, qmin = k.zeroPointRounding("qmin", "qmax"), k.spreadParam("qmin")
		}
		inSteps(c, 8, func() {
			low, high, scale, none := k.vector(), k.vector(), k.vector(), k.vector()
			k.emit("VMOVUPS", operand.Mem{Base: lo}, low)
			k.emit("VMOVUPS", operand.Mem{Base: hi}, high)
			if symmetric {
				k.emit("VSUBPS", low, zero, scale)
				k.emit("VMAXPS", high, scale, scale)
			} else {
				k.emit("VSUBPS", low, high, scale)
			}
			k.emit("VDIVPS", span, scale, scale)
			k.emit("VCMPPS", equal, zero, scale, none)
			k.emit("VBLENDVPS", none, one, scale, scale)
			k.emit("VMAXPS", scale, eps, scale) // a NaN stays
			k.emit("VMOVUPS", scale, operand.Mem{Base: lo})
			z := zero
			if !symmetric {
				z = k.vector()
				k.emit("VDIVPS", scale, low, z)
				k.emit("VSUBPS", z, qmin, z)
				round(z)
			}
			k.emit("VMOVUPS", z, operand.Mem{Base: hi})
			c.ADDQ(operand.Imm(32), lo)
			c.ADDQ(operand.Imm(32), hi)
		})
	}
}

// loadParameters are the kernels that make f32 of scales and zero points.
func loadParameters(c *build.Context) {
	for _, p := range parameters {
		if p.scales {
			p.loader(c, "loadScales", "converts n scales to f32.", false)
		}
		p.loader(c, "loadZeros", "converts n zero points to f32; those of floats are rounded, and within lo and hi.", p.floats)
	}
}

// loader emits one of them.
func (p parameter) loader(c *build.Context, name, doc string, rounded bool) {
	name += "AVX2" + p.name
	beginFunction(c, name, "func(to *float32, from *byte, n int, lo, hi float32)", name+" "+doc)
	k := &kernel{c: c, isa: avx2, compute: f32, lanes: 8, group: 1}
	to, from, n := param(c, "to"), param(c, "from"), param(c, "n")
	finish := func(reg.Register) {}
	if rounded {
		finish = k.zeroPointRounding("lo", "hi")
	}
	some := func(label string, count int, store string, load func(k *kernel, from memory) reg.VecVirtual) {
		c.Label(label)
		c.SUBQ(operand.Imm(uint64(count)), n)
		c.JL(operand.LabelRef(label + "Done"))
		v := load(k, memory{operand.Mem{Base: from}})
		finish(v.AsY())
		if count == 1 {
			k.emit(store, v.AsX(), operand.Mem{Base: to})
		} else {
			k.emit(store, v, operand.Mem{Base: to})
		}
		c.ADDQ(operand.U32(count*p.size), from)
		c.ADDQ(operand.U32(count*4), to)
		c.JMP(operand.LabelRef(label))
		c.Label(label + "Done")
		c.ADDQ(operand.Imm(uint64(count)), n)
	}
	if p.vector != nil {
		some("eight", 8, "VMOVUPS", p.vector)
	}
	some("one", 1, "VMOVSS", p.lane)
	endFunction(c)
}
