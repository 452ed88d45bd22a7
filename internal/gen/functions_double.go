package main

import (
	"go/types"
	"math"

	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
)

// The functions of detmath on rows of f64, of all numbers: each is one of its steps again.

var doubleLoops = []functionLoop{
	{name: "exp", doc: "z[i] = Exp(x[i])", emit: func(f function, x, _ value) value { return f.expOfAll(x) }},
	{name: "log", doc: "z[i] = Log(x[i])", emit: func(f function, x, _ value) value { return f.logOfAll(x) }},
	{name: "log1p", doc: "z[i] = Log1p(x[i])", emit: func(f function, x, _ value) value {
		u := f.add(x, f.of(1))
		log := f.logOfAll(u)
		p := f.mul(log, x)
		y := f.where(p, equal, math.Inf(1), log, f.op("VDIVPD", p, f.sub(u, f.of(1))))
		y = f.where(u, equal, 1, x, y)
		return f.where(u, equal, math.Inf(1), x, y)
	}},
	{name: "tanh", doc: "z[i] = Tanh(x[i])", emit: func(f function, x, _ value) value {
		a := f.abs(x)
		y := f.mul(f.clamp(a, 0, 23), f.of(-2))
		near := f.add(y, f.mul(f.mul(y, y), f.horner(y, factorials(2, 14)...)))
		t := f.where(y, greater, -0.5, near, f.sub(f.expOfAll(y), f.of(1)))
		t = f.op("VDIVPD", f.minus(t), f.add(t, f.of(2)))
		t = f.where(a, greater, 22, f.load(f.of(1)), t)
		return f.withSign(f.where(a, less, 1e-9, a, t), x)
	}},
	{name: "sigmoid", doc: "z[i] = Sigmoid(x[i])", emit: func(f function, x, _ value) value {
		e := f.expOfAll(f.minus(f.abs(x)))
		return f.op("VDIVPD", f.where(x, less, 0, e, f.load(f.of(1))), f.add(e, f.of(1)))
	}},
	{name: "erf", doc: "z[i] = Erf(x[i])", emit: func(f function, x, _ value) value {
		return f.where(x, unordered, 0, x, f.erf(x))
	}},
}

// doubleFunctions emits all of them, a vector at a time.
func doubleFunctions(c *build.Context, globals *tables) {
	double := types.Typ[types.Float64]
	for _, isa := range isas {
		for _, l := range doubleLoops {
			rowSignature(c, l.name+isa.name+f64.name, l.doc+", for n a multiple of a vector, not 0", nil,
				pointerTo(double, "z"), pointerTo(double, "x"), pointerTo(types.NewArray(double, erfNumbers), "table"))
			f := function{kernel: &kernel{c: c, globals: globals, isa: isa, compute: f64, group: 1, lanes: isa.bytes / 8}}
			z, x, n := param(c, "z"), param(c, "x"), param(c, "n")
			c.Label("numbers")
			y := l.emit(f, value{loadWhole(f.kernel, memory{operand.Mem{Base: x}})}, nil)
			c.VMOVUPD(y[0], operand.Mem{Base: z})
			c.ADDQ(operand.Imm(uint64(isa.bytes)), z)
			c.ADDQ(operand.Imm(uint64(isa.bytes)), x)
			c.SUBQ(operand.Imm(uint64(f.lanes)), n)
			c.JNZ(operand.LabelRef("numbers"))
			endFunction(c)
		}
	}
}

// expOfAll is detmath's Exp. A power of 2 is two factors, the second of which rounds a subnormal result.
func (f function) expOfAll(x value) value {
	k, _, s := f.expParts(f.clamp(x, -746, 710))
	half := f.rint(f.mul(k, f.of(0.5)))
	return f.mul(f.mul(s, f.powerOf2(half)), f.powerOf2(f.sub(k, half)))
}

func (f function) powerOf2(k value) value {
	const rounder = 0x1.8p52
	return f.op("VPADDQ", f.apply("VPSLLQ", 52, f.add(k, f.of(rounder))), f.of(1))
}

// logOfAll is detmath's Log: subnormals are scaled, which is exact.
func (f function) logOfAll(x value) value {
	const least, bits = 0x1p-1022, 54
	scaled := f.where(x, less, least, f.mul(x, f.of(1<<bits)), x)
	return f.logOf(x, scaled, f.where(x, less, least, f.load(f.of(bits)), f.load(f.of(0))))
}
