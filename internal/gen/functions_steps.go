package main

import (
	"math"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// The steps of which functions.go's loops are made.

// function emits steps on vectors of f64.
type function struct {
	*kernel
	powers [2]reg.VecVirtual // see expQuick
}

func (f function) of(v float64) operand.Mem { return f.constant(math.Float64bits(v)).Mem }

// op is an instruction of two operands, of which the second may be in memory: several vectors have it
// loaded once.
func (f function) op(name string, a value, b any) value {
	if m, ok := b.(operand.Mem); ok && f.group > 1 {
		b = f.load(m)
	}
	return f.apply(name, b, a)
}

// narrow converts to elements of 32 bits.
func (f function) narrow(name string, from, to reg.VecVirtual) {
	f.emit(either(f.isa.masks, name, name+"Y"), from, to)
}

func (f function) add(a value, b any) value { return f.op("VADDPD", a, b) }
func (f function) sub(a value, b any) value { return f.op("VSUBPD", a, b) }
func (f function) mul(a value, b any) value { return f.op("VMULPD", a, b) }

// load puts a constant into a register.
func (f function) load(m operand.Mem) value { return f.spread(memory{m}) }

func (f function) div(a operand.Mem, b value) value {
	return f.op("VDIVPD", f.load(a), b)
}

// clamp limits x; a NaN, the second operand, stays.
func (f function) clamp(x value, lo, hi float64) value {
	return f.op("VMINPD", f.load(f.of(hi)), f.op("VMAXPD", f.load(f.of(lo)), x))
}

func (f function) signs() operand.Mem { return f.of(math.Copysign(0, -1)) }

func (f function) minus(x value) value { return f.op("VXORPD", x, f.signs()) }

func (f function) abs(x value) value {
	return f.op("VANDNPD", f.load(f.signs()), x)
}

// withSign gives a number, which is not below 0, the sign of another.
func (f function) withSign(a, sign value) value {
	return f.op("VORPD", a, f.op("VANDPD", sign, f.signs()))
}

// where chooses yes where a compares with v, else no.
func (f function) where(a value, predicate int, v float64, yes, no value) value {
	return f.pick(f.compare(a, predicate, f.load(f.of(v))), yes, no)
}

// horner adds the products of r with coefficients, the last one first.
func (f function) horner(r value, coefficients ...float64) value {
	last := len(coefficients) - 1
	s := f.load(f.of(coefficients[last]))
	for i := last - 1; i >= 0; i-- {
		s = f.add(f.mul(s, r), f.of(coefficients[i]))
	}
	return s
}

// factorials returns 1/n! from one n to another.
func factorials(from, to int) (c []float64) {
	f := 1.0
	for n := 1; n <= to; n++ {
		f *= float64(n)
		if n >= from {
			c = append(c, 1/f)
		}
	}
	return c
}

// exponent returns k, x in units of ln(2) rounded to a whole number, and k as what a float's bits
// gain in a product with 2^k.
func (f function) exponent(x value) (k, bits value) {
	const rounder = 0x1.8p52
	sum := f.add(f.mul(x, f.of(1/math.Ln2)), f.of(rounder))
	return f.sub(sum, f.of(rounder)), f.apply("VPSLLQ", 52, sum)
}

const (
	ln2Hi = 6.93147180369123816490e-01
	ln2Lo = math.Ln2 - ln2Hi
)

// expShort is detmath's exponential for results of f32.
func (f function) expShort(x value) value {
	k, bits := f.exponent(x)
	r := f.sub(f.sub(x, f.mul(k, f.of(ln2Hi))), f.mul(k, f.of(ln2Lo)))
	s := f.horner(r, append([]float64{1}, factorials(1, 9)...)...)
	return f.op("VPADDQ", s, bits)
}

// exp is detmath's Exp of a number from -708 to 709.
func (f function) exp(x value) value {
	_, bits, s := f.expParts(x)
	return f.op("VPADDQ", s, bits)
}

// expParts returns what detmath's Exp makes of a number: s * 2^k, and k as bits.
func (f function) expParts(x value) (k, bits, s value) {
	k, bits = f.exponent(x)
	hi, lo := f.sub(x, f.mul(k, f.of(ln2Hi))), f.mul(k, f.of(ln2Lo))
	r := f.sub(hi, lo)
	rest := f.sub(f.sub(hi, r), lo)
	q := f.horner(r, factorials(2, 14)...)
	s = f.add(f.mul(f.mul(r, r), q), rest)
	return k, bits, f.add(f.add(s, r), f.of(1))
}

// notLess is a comparison that a NaN passes.
const notLess = 21

// parts returns a number that is not subnormal as m * 2^k, m being around 1.
func (f function) parts(x value) (k, m value) {
	const bias, whole = 1022, 0x1p52 // a whole number below 2^52 is the end of its sum's bits
	k = f.sub(f.op("VORPD", f.apply("VPSRLQ", 52, x), f.of(whole)), f.of(whole+bias))
	m = f.op("VORPD", f.op("VANDPD", x, f.constant(uint64(1<<52-1)).Mem), f.of(0.5))
	k = f.where(m, less, math.Sqrt2/2, f.sub(k, f.of(1)), k)
	return k, f.where(m, less, math.Sqrt2/2, f.add(m, m), m)
}

// logSeries are the coefficients of detmath's.
func logSeries() (series []float64) {
	for i := range 11 {
		series = append(series, 2/float64(2*i+3))
	}
	return series
}

// log is detmath's Log of a number that is not subnormal.
func (f function) log(x value) value { return f.logOf(x, x, nil) }

// logOf is that of x, which is 2^-bits times another number.
func (f function) logOf(x, scaled, bits value) value {
	k, m := f.parts(scaled)
	if bits != nil {
		k = f.sub(k, bits)
	}
	r := f.sub(m, f.of(1))
	s := f.op("VDIVPD", r, f.add(r, f.of(2)))
	z := f.mul(s, s)
	h := f.mul(f.mul(r, f.of(0.5)), r)
	y := f.add(f.mul(s, f.add(h, f.mul(z, f.horner(z, logSeries()...)))), f.mul(k, f.of(ln2Lo)))
	y = f.sub(f.mul(k, f.of(ln2Hi)), f.sub(f.sub(h, y), r))
	y = f.where(x, equal, 0, f.load(f.of(math.Inf(-1))), y)
	y = f.where(x, less, 0, f.load(f.of(math.NaN())), y)
	return f.where(x, notLess, math.Inf(1), x, y)
}

func (f function) tanh(x, _ value) value {
	a := f.abs(x)
	t := f.expShort(f.mul(f.clamp(a, 0, 10), f.of(-2))) // from 10 on f32 has 1
	y := f.op("VDIVPD", f.op("VSUBPD", f.load(f.of(1)), t), f.add(t, f.of(1)))
	return f.withSign(f.tanhOrSeries(a, y), x)
}

// tanhOrSeries is y, or near 0 a series.
func (f function) tanhOrSeries(a, y value) value {
	z := f.mul(a, a)
	factor := f.op("VSUBPD", f.load(f.of(1.0/3)), f.mul(z, f.of(2.0/15)))
	return f.where(a, less, 0.02, f.sub(a, f.mul(f.mul(a, z), factor)), y)
}
