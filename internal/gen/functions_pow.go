package main

import (
	"math"

	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// powers emits detmath's Pow on rows of f64, for numbers that take no special way there.
func powers(c *build.Context, globals *tables) {
	for _, isa := range isas {
		f := function{kernel: &kernel{c: c, globals: globals, isa: isa, compute: f64, group: either(isa.masks, 2, 1), lanes: isa.bytes / 8}}
		name := "pow" + isa.name
		beginFunction(c, name, "func(z, x, y *float64, usual *int64, n int)",
			name+" is: z[i] = Pow(x[i], y[i]) where usual[i] becomes -1; elsewhere that is 0. n is a multiple of 16, not 0.")
		n, at := param(c, "n"), c.GP64()
		base := map[string]reg.GPVirtual{}
		for _, name := range []string{"z", "x", "y", "usual"} {
			base[name] = param(c, name)
		}
		row := func(name string, i int) memory {
			return memory{operand.Mem{Base: base[name], Index: at, Scale: 8, Disp: i * isa.bytes}}
		}
		load := func(name string) (v value) {
			for i := range f.group {
				v = append(v, loadWhole(f.kernel, row(name, i)))
			}
			return v
		}
		c.XORQ(at, at)
		c.Label("numbers")
		power, ordinary := f.pow(load("x"), load("y"))
		for i := range power {
			all := ordinary[i]
			if isa.masks {
				v := f.vector()
				f.emit("VPMOVM2Q", all, v)
				all = v
			}
			f.emit("VMOVUPD", power[i], row("z", i))
			f.emit("VMOVUPD", all, row("usual", i))
		}
		c.ADDQ(operand.Imm(uint64(f.group*f.lanes)), at)
		branch(c.CMPQ, at, n, c.JLT, "numbers")
		endFunction(c)
	}
}

// pow is detmath's expOfProduct, and where it holds: of normal x above 0, y that are not whole, and
// powers within the range of f64.
func (f function) pow(x, y value) (power value, usual mask) {
	hi, lo := f.logParts(x)
	p := f.mul(y, hi)
	rest := f.add(f.productRest(y, hi, p), f.mul(y, lo))
	r := f.exp(f.clamp(p, -700, 700))
	power = f.add(r, f.mul(r, rest))
	usual = f.compare(x, greaterEqual, f.load(f.of(0x1p-1022)))
	usual = f.both(usual, f.compare(x, lessThan, f.load(f.of(math.Inf(1)))))
	usual = f.both(usual, f.compare(f.abs(p), lessThan, f.load(f.of(700))))
	usual = f.both(usual, f.compare(y, otherThan, f.rint(y)))
	return power, usual
}

// logParts is detmath's, of a normal number.
func (f function) logParts(x value) (hi, lo value) {
	k, m := f.parts(x)
	part := f.sub(m, f.of(1))
	t := f.add(part, f.of(2))
	s := f.op("VDIVPD", part, t)
	st := f.mul(s, t)
	left := f.sub(f.sub(part, st), f.productRest(s, t, st))
	left = f.sub(left, f.mul(s, f.sub(part, f.sub(t, f.of(2)))))
	sLo := f.op("VDIVPD", left, t)
	z := f.mul(s, s)
	small := f.add(f.add(sLo, sLo), f.mul(s, f.mul(z, f.horner(z, logSeries()...))))
	small = f.add(small, f.mul(k, f.of(ln2Lo)))
	a, b := f.mul(k, f.of(ln2Hi)), f.add(s, s)
	sum := f.add(a, b)
	rest := f.add(f.add(f.sub(a, sum), b), small)
	hi = f.add(sum, rest)
	return hi, f.add(f.sub(sum, hi), rest)
}

// productRest is what rounding took from the product p of a and b: exact, as detmath's is.
func (f function) productRest(a, b, p value) value {
	rest := f.minus(p)
	for i := range rest {
		f.c.VFMADD231PD(a[i], b[i], rest[i])
	}
	return rest
}
