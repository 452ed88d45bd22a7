package main

import (
	"math"
	"math/big"

	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Quick functions: fewer steps, and fused ones, which do not round as detmath's do. What they differ by is
// less than the bounds here; all numbers of f32 were compared.

// quickly does a turn, or jumps to exactly. It stores what is rounded from below, which has the sign of a 0,
// and not before: z may be x.
func (l *functionLoop) quickly(f function, z reg.GPVirtual, places []reg.GPVirtual) {
	c := f.c
	in := f.inputs(0, places)
	below, above := l.quick(f, in[0], in[1])
	differ := c.GP32()
	c.XORL(differ, differ)
	var rounded []reg.VecVirtual
	for i := range below {
		low, high, bits := f.half(), f.half(), c.GP32()
		f.narrow("VCVTPD2PS", below[i], low)
		f.narrow("VCVTPD2PS", above[i], high)
		if f.isa.masks {
			m := c.K()
			c.VCMPPS(operand.Imm(notEqual), high, low, m)
			c.KMOVB(m, bits)
		} else {
			m := c.XMM()
			c.VCMPPS(operand.Imm(notEqual), high, low, m)
			c.VMOVMSKPS(m, bits)
		}
		c.ORL(bits, differ)
		rounded = append(rounded, low)
	}
	branch(c.TESTL, differ, differ, c.JNZ, "exactly")
	for i, v := range rounded {
		c.VMOVUPS(v, f.element(z, 0, i))
	}
}

// about returns the ends of what differs from y by a part of it.
func (f function) about(y value, part float64) (below, above value) {
	return f.mul(y, f.of(1-part)), f.mul(y, f.of(1+part))
}

// around returns those of what differs by a part of another number.
func (f function) around(y, of value, part float64) (below, above value) {
	bound := f.mul(f.abs(of), f.of(part))
	return f.sub(y, bound), f.add(y, bound)
}

// fma is a*b + c in one step.
func (f function) fma(a, b value, c any) value {
	to := f.newValue()
	if m, ok := c.(operand.Mem); ok {
		c = f.load(m)
	}
	for i := range to {
		f.c.VMOVAPD(a[i], to[i])
		f.c.VFMADD213PD(c.(value)[i], b[i], to[i])
	}
	return to
}

// powerPieces are the steps of a table from 1 to 2.
const powerPieces = 16

// loadPowers loads the table: 2^(i/16), less what i adds to the sum's shifted bits in expQuick.
func (f function) loadPowers() (powers [2]reg.VecVirtual) {
	const name = "powers"
	m, ok := f.globals.places[name]
	if !ok {
		m = f.c.StaticGlobal(name)
		f.c.DataAttributes(attr.RODATA | attr.NOPTR)
		for i := range powerPieces {
			power := big.NewFloat(float64(uint(1) << i)).SetPrec(200)
			for range 4 {
				power.Sqrt(power)
			}
			rounded, _ := power.Float64()
			f.c.AddDatum(8*i, operand.U64(math.Float64bits(rounded)-uint64(i)<<48))
		}
		f.globals.places[name] = m
	}
	for i := range powers {
		upper := f.c.YMM()
		powers[i] = f.vector()
		f.c.VMOVUPD(m.Offset(64*i), powers[i].AsY())
		f.c.VMOVUPD(m.Offset(64*i+32), upper)
		f.c.VINSERTF64X4(operand.U8(1), upper, powers[i], powers[i])
	}
	return powers
}

// expQuick is e to the power x but for a part of 2^-42. Without AVX-512, which finds a number in a table,
// it has expShort's steps, and differs from that.
func (f function) expQuick(x value) value {
	const rounder = 0x1.8p52
	if !f.isa.masks {
		sum := f.fma(f.load(f.of(1/math.Ln2)), x, f.of(rounder))
		k := f.sub(sum, f.of(rounder))
		r := f.fma(f.load(f.of(-ln2Lo)), k, f.fma(f.load(f.of(-ln2Hi)), k, x))
		s := f.hornerQuick(r, append([]float64{1}, factorials(1, 9)...)...)
		return f.op("VPADDQ", s, f.apply("VPSLLQ", 52, sum))
	}
	sum := f.fma(f.load(f.of(powerPieces/math.Ln2)), x, f.of(rounder))
	r := f.fma(f.load(f.of(-math.Ln2/powerPieces)), f.sub(sum, f.of(rounder)), x)
	s := f.hornerQuick(r, append([]float64{1}, factorials(1, 5)...)...)
	bits := f.apply("VPSLLQ", 48, sum)
	for i := range sum { // becomes the power that its last bits name
		f.c.VPERMI2PD(f.powers[1], f.powers[0], sum[i])
	}
	return f.mul(s, f.op("VPADDQ", sum, bits))
}

// hornerQuick is horner with fused steps.
func (f function) hornerQuick(r value, coefficients ...float64) value {
	last := len(coefficients) - 1
	s := f.fma(f.load(f.of(coefficients[last])), r, f.of(coefficients[last-1]))
	for i := last - 2; i >= 0; i-- {
		s = f.fma(s, r, f.of(coefficients[i]))
	}
	return s
}

func (f function) expAbout(x, _ value) (below, above value) {
	return f.about(f.expQuick(f.clamp(x, -105, 90)), 0x1p-36)
}

func (f function) sigmoidAbout(x, _ value) (below, above value) {
	e := f.expQuick(f.minus(f.clamp(x, -120, 120)))
	return f.about(f.div(f.of(1), f.add(e, f.of(1))), 0x1p-36)
}

func (f function) tanhAbout(x, _ value) (below, above value) {
	a := f.abs(x)
	t := f.expQuick(f.mul(f.clamp(a, 0, 10), f.of(-2)))
	y := f.op("VDIVPD", f.op("VSUBPD", f.load(f.of(1)), t), f.add(t, f.of(1)))
	return f.about(f.withSign(f.tanhOrSeries(a, y), x), 0x1p-34)
}

func (f function) geluAbout(x, _ value) (below, above value) {
	return f.around(f.gelu(x, function.erfQuick), x, 0x1p-42)
}

func (f function) geluGradAbout(x, dy value) (below, above value) {
	return f.around(f.geluGrad(x, dy, function.erfQuick, function.expQuick), dy, 0x1p-42)
}
