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
func (f function) erf(x value) value {
	a := f.abs(x)
	return f.erfOrSeries(x, a, f.erfFar(x, a, erfSteps{split: true}))
}

// erfRare is erf in less code: it takes numbers below 2 with the others.
func (f function) erfRare(x value) value {
	a := f.abs(x)
	return f.erfOrSeries(x, a, f.erfFar(x, a, erfSteps{}))
}

func (f function) erfOrSeries(x, a, s value) value {
	return f.where(a, less, 0.125, f.mul(f.erfSeries(f.mul(a, a)), f.mul(x, f.of(2/math.SqrtPi))), s)
}

// erfQuick differs from erf by 2^-43 at most: it leaves out four degrees, takes fused steps, and no
// series of its own near 0.
func (f function) erfQuick(x value) value {
	return f.erfFar(x, f.abs(x), erfSteps{quick: true, split: true})
}

// erfSteps says how a polynomial is added up.
type erfSteps struct{ quick, split bool }

// erfFar takes |x|, too.
func (f function) erfFar(x, a value, steps erfSteps) value {
	const width, end = 0.25, 6
	inside := f.op("VMINPD", a, f.of(end-width/2)) // also of a NaN
	interval := f.mul(inside, f.of(1/width))
	whole := f.apply(f.ps(f.isa.rint), 11, interval) // towards 0
	r := f.sub(a, f.mul(f.add(whole, f.of(0.5)), f.of(width)))
	var s value
	if f.isa.masks {
		s = f.erfColumns(whole, r, steps)
	} else {
		s = f.erfRows(whole, r)
	}
	return f.withSign(f.where(a, greaterEqual, end, f.load(f.of(1)), s), x)
}

// erfRows is the sum of four numbers' polynomials. It loads two columns of every second row of
// the table, and turns them.
func (f function) erfRows(interval, r value) (s value) {
	c := f.c
	index, table := f.half(), param(c, "table")
	c.VCVTTPD2DQY(interval[0], index)
	c.VPSLLD(operand.Imm(7), index, index)
	var rows [4]reg.GPVirtual
	for i := range rows {
		rows[i] = c.GP64()
		c.VPEXTRD(operand.U8(i), index, rows[i].As32())
		c.ADDQ(table, rows[i])
	}
	for column := erfRow - 2; column >= 0; column -= 2 {
		even, odd := f.newValue(), f.newValue()
		for i, v := range []reg.VecVirtual{even[0], odd[0]} {
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

// erfColumns is the same of vectors of eight: a column of the table is three vectors, of which
// numbers below 2 need the first.
func (f function) erfColumns(interval, r value, steps erfSteps) value {
	c := f.c
	index, sum := f.apply("VCVTTPD2QQ", interval), f.newValue()
	near, done := f.newLabel("near"), f.newLabel("done")
	if steps.split {
		far := f.indexHas(index, 8|16)
		for _, m := range far[1:] {
			c.KORW(m, far[0], far[0])
		}
		c.KORTESTW(far[0], far[0])
		c.JEQ(operand.LabelRef(near))
	}
	last := f.indexHas(index, 16)
	f.erfSum(sum, r, steps, func(part [3]operand.Mem) value {
		v, second, third := f.newValue(), f.load(part[1])[0], f.load(part[2])[0]
		for i := range v {
			c.VMOVUPD(part[0], v[i])
			c.VPERMT2PD(second, index[i], v[i])
			c.VPERMPD(third, index[i], last[i], v[i])
		}
		return v
	})
	if !steps.split {
		return sum
	}
	c.JMP(operand.LabelRef(done))
	c.Label(near)
	f.erfSum(sum, r, steps, func(part [3]operand.Mem) value { return f.apply("VPERMPD", f.load(part[0]), index) })
	c.Label(done)
	return sum
}

// indexHas returns where one of some bits is set.
func (f function) indexHas(index value, bits uint64) mask {
	m := make(mask, f.group)
	for i := range m {
		m[i] = f.c.K()
		f.emit("VPTESTMQ", f.constant(bits), index[i], m[i])
	}
	return m
}

// erfSum adds up polynomials, of whose coefficients column tells those of a degree.
func (f function) erfSum(to, r value, steps erfSteps, column func(part [3]operand.Mem) value) {
	table := param(f.c, "table")
	var s value
	for degree := either(steps.quick, erfDegree-4, erfDegree); degree >= 0; degree-- {
		var part [3]operand.Mem
		for i := range part {
			part[i] = operand.Mem{Base: table, Disp: 8 * (erfIntervals*erfRow + degree*erfIntervals + i*f.lanes)}
		}
		switch v := column(part); {
		case s == nil:
			s = v
		case steps.quick:
			for i := range s {
				f.c.VFMADD213PD(v[i], r[i], s[i])
			}
		default:
			s = f.add(f.mul(s, r), v)
		}
	}
	for i := range s {
		f.c.VMOVAPD(s[i], to[i])
	}
}

// erfSeries is detmath's; terms have no signs, which turn.
func (f function) erfSeries(z value) value {
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
func (f function) over(x value, n float64) value {
	q := f.mul(x, f.of(1/n))
	whole, part, rest := f.load(f.of(n)), f.load(f.of(1/n)), f.newValue()
	for i := range rest {
		f.c.VMOVAPD(x[i], rest[i])
		f.c.VFNMADD231PD(whole[i], q[i], rest[i])
		f.c.VFMADD231PD(part[i], rest[i], q[i])
	}
	return q
}

func (f function) gelu(x value, erf func(f function, x value) value) value {
	e := erf(f, f.mul(x, f.of(1/math.Sqrt2)))
	return f.mul(f.mul(x, f.of(0.5)), f.add(e, f.of(1)))
}

func (f function) geluGrad(x, dy value, erfOf, expOf func(f function, x value) value) value {
	none := float64(float32(-38.575497)) // below, the density is 0
	x = f.clamp(x, -40, 40)
	erf := erfOf(f, f.mul(x, f.of(1/math.Sqrt2)))
	density := expOf(f, f.clamp(f.mul(f.mul(x, f.of(-0.5)), x), -708, 0))
	density = f.mul(density, f.of(1/math.SqrtPi/math.Sqrt2))
	y := f.add(f.mul(f.add(erf, f.of(1)), f.of(0.5)), f.mul(x, density))
	return f.mul(f.where(x, less, none, f.load(f.of(0)), y), dy)
}
