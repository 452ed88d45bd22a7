package main

import (
	"math"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// detmath's table has the coefficients of each interval, with one number more that is not used, then
// those of each degree.
const (
	erfIntervals, erfDegree = 24, 14
	erfRow                  = erfDegree + 2
	erfNumbers              = erfIntervals*erfRow + (erfDegree+1)*erfIntervals
)

// erf is detmath's Erf; of a NaN it is some number.
func (f function) erf(x reg.VecVirtual) reg.VecVirtual {
	const width, end = 0.25, 6
	a := f.abs(x)
	inside := f.op("VMINPD", a, f.of(end-width/2)) // also of a NaN
	interval := f.mul(inside, f.of(1/width))
	whole := f.vector()
	f.emit(f.ps(f.isa.rint), 11, interval, whole) // towards 0
	r := f.sub(a, f.mul(f.add(whole, f.of(0.5)), f.of(width)))
	var s reg.VecVirtual
	if f.isa.masks {
		s = f.erfColumns(whole, r)
	} else {
		s = f.erfRows(whole, r)
	}
	s = f.withSign(f.where(a, greaterEqual, end, f.load(f.of(1)), s), x)
	return f.where(a, less, 0.125, f.mul(f.erfSeries(f.mul(a, a)), f.mul(x, f.of(2/math.SqrtPi))), s)
}

// erfRows is the sum of four numbers' polynomials. It loads two columns of every second row of
// the table, and turns them.
func (f function) erfRows(interval, r reg.VecVirtual) (s reg.VecVirtual) {
	c := f.c
	index, table := f.half(), param(c, "table")
	c.VCVTTPD2DQY(interval, index)
	c.VPSLLD(operand.Imm(7), index, index)
	var rows [4]reg.GPVirtual
	for i := range rows {
		rows[i] = c.GP64()
		c.VPEXTRD(operand.U8(i), index, rows[i].As32())
		c.ADDQ(table, rows[i])
	}
	for column := erfRow - 2; column >= 0; column -= 2 {
		even, odd := f.vector(), f.vector()
		for i, v := range []reg.VecVirtual{even, odd} {
			c.VMOVUPD(operand.Mem{Base: rows[i], Disp: column * 8}, v.AsX())
			c.VINSERTF128(operand.U8(1), operand.Mem{Base: rows[i+2], Disp: column * 8}, v, v)
		}
		near := f.op("VUNPCKLPD", even, odd)
		if s == nil {
			s = near
			continue
		}
		s = f.add(f.mul(s, r), f.op("VUNPCKHPD", even, odd))
		s = f.add(f.mul(s, r), near)
	}
	return s
}

// erfColumns is the same of eight: a column of the table is three vectors.
func (f function) erfColumns(interval, r reg.VecVirtual) (s reg.VecVirtual) {
	c := f.c
	index, last, table := f.vector(), c.K(), param(c, "table")
	c.VCVTTPD2QQ(interval, index)
	c.VPTESTMQ(f.constant(uint64(16)).Mem, index, last)
	for column := erfDegree; column >= 0; column-- {
		part := func(i int) operand.Mem {
			return operand.Mem{Base: table, Disp: 8 * (erfIntervals*erfRow + column*erfIntervals + i*f.lanes)}
		}
		v := f.load(part(0))
		c.VPERMT2PD(part(1), index, v)
		c.VPERMPD(part(2), index, last, v)
		if s == nil {
			s = v
			continue
		}
		s = f.add(f.mul(s, r), v)
	}
	return s
}

// erfSeries is detmath's; terms have no signs, which turn.
func (f function) erfSeries(z reg.VecVirtual) reg.VecVirtual {
	third := f.over(z, 3)
	s := f.op("VSUBPD", f.load(f.of(1)), third)
	term := f.mul(z, f.mul(z, f.of(0.5)))
	s = f.add(s, f.over(term, 5))
	term = f.mul(term, third)
	s = f.sub(s, f.over(term, 7))
	term = f.mul(term, f.mul(z, f.of(0.25)))
	s = f.add(s, f.over(term, 9))
	term = f.mul(term, f.over(z, 5))
	s = f.sub(s, f.over(term, 11))
	term = f.mul(term, f.mul(third, f.of(0.5)))
	s = f.add(s, f.over(term, 13))
	term = f.mul(term, f.over(z, 7))
	return f.sub(s, f.over(term, 15))
}

// over is x / n for a small odd n, where it is not subnormal: the product with 1/n is a few
// last places away, what that leaves is exact, and the step that adds its n-th rounds as a division
// does, since no quotient by n lies nearer than a 2n-th of a last place to the middle of two numbers.
func (f function) over(x reg.VecVirtual, n float64) reg.VecVirtual {
	q := f.mul(x, f.of(1/n))
	rest := f.vector()
	f.c.VMOVAPD(x, rest)
	f.c.VFNMADD231PD(f.of(n), q, rest)
	f.c.VFMADD231PD(f.of(1/n), rest, q)
	return q
}

func (f function) geluGrad(x, dy reg.VecVirtual) reg.VecVirtual {
	none := float64(float32(-38.575497)) // below, the density is 0
	x = f.clamp(x, -40, 40)
	erf := f.erf(f.mul(x, f.of(1/math.Sqrt2)))
	density := f.exp(f.clamp(f.mul(f.mul(x, f.of(-0.5)), x), -708, 0))
	density = f.mul(density, f.of(1/math.SqrtPi/math.Sqrt2))
	y := f.add(f.mul(f.add(erf, f.of(1)), f.of(0.5)), f.mul(x, density))
	return f.mul(f.where(x, less, none, f.load(f.of(0)), y), dy)
}
