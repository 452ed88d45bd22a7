package main

import (
	"fmt"
	"go/types"
	"math"

	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// The functions of autodiff/internal/detmath on rows of f32, a multiple of 8 elements, of which
// four are computed side by side in f64. Each step is one of detmath's and rounds by itself, so
// that the bits are its own; what it decides by branches is chosen element by element.

// functionLoop is a loop over z, x and, where it is a gradient, dy.
type functionLoop struct {
	name, doc string
	gradient  bool // takes dy
	emit      func(f function, x, dy value) value
	// quick has fewer steps, and returns numbers between which emit's lie: where they round to one f32, emit
	// rounds to that, too. A turn with another number in it takes emit.
	quick func(f function, x, dy value) (below, above value)
	wide  bool // quick is of AVX-512 alone
}

var functionLoops = []functionLoop{
	{name: "exp", doc: "z[i] = Exp32(x[i])", emit: func(f function, x, dy value) value {
		return f.expShort(f.clamp(x, -105, 90)) // beyond, f32 has 0 or an infinity
	}, quick: function.expAbout},
	{name: "log", doc: "z[i] = Log(x[i])", emit: func(f function, x, dy value) value { return f.log(x) }},
	{name: "log1p", doc: "z[i] = Log1p(x[i])", emit: func(f function, x, dy value) value {
		u := f.add(x, f.of(1))
		y := f.op("VDIVPD", f.mul(f.log(u), x), f.sub(u, f.of(1)))
		y = f.where(u, equal, 1, x, y)
		return f.where(u, notLess, math.Inf(1), x, y)
	}},
	{name: "tanh", doc: "z[i] = Tanh32(x[i])", emit: function.tanh, quick: function.tanhAbout},
	{name: "sigmoid", doc: "z[i] = Sigmoid32(x[i])", emit: func(f function, x, dy value) value {
		e := f.expShort(f.minus(f.clamp(x, -120, 120)))
		return f.div(f.of(1), f.add(e, f.of(1)))
	}, quick: function.sigmoidAbout},
	{name: "erf", doc: "z[i] = Erf(x[i])", emit: func(f function, x, dy value) value {
		return f.where(x, unordered, 0, x, f.erf(x))
	}},
	{
		name: "gelu", doc: "z[i] = Gelu(x[i])",
		emit:  func(f function, x, dy value) value { return f.gelu(x, function.erfRare) },
		quick: function.geluAbout, wide: true,
	},
	{
		name: "geluGrad", doc: "z[i] = dy[i] * GeluGrad(x[i])", gradient: true,
		emit:  func(f function, x, dy value) value { return f.geluGrad(x, dy, function.erfRare, function.exp) },
		quick: function.geluGradAbout, wide: true,
	},
}

// functions emits all of them.
func functions(c *build.Context, globals *tables) {
	row, double := types.Typ[types.Float32], types.Typ[types.Float64]
	for _, isa := range isas {
		for _, l := range functionLoops {
			rowSignature(c, l.name+isa.name, fmt.Sprintf("%s, for n a multiple of %d, not 0", l.doc, functionNumbers(isa)), nil,
				pointerTo(row, "z"), pointerTo(row, "x"), pointerTo(row, "dy"), pointerTo(types.NewArray(double, erfNumbers), "table"))
			l.loop(function{kernel: &kernel{c: c, globals: globals, isa: isa, compute: f64, group: either(isa.masks, 2, 1), lanes: isa.bytes / 8}})
		}
	}
}

// loop takes a vector, or two, whose steps do not wait for each other, at a time.
func (l *functionLoop) loop(f function) {
	c := f.c
	z, x, n := param(c, "z"), param(c, "x"), param(c, "n")
	moving := []reg.GPVirtual{z, x}
	if l.gradient {
		moving = append(moving, param(c, "dy"))
	}
	numbers := functionNumbers(f.isa)
	quick := l.quick != nil && (f.isa.masks || !l.wide)
	if quick && f.isa.masks {
		f.powers = f.loadPowers()
	}
	c.Label("loop")
	if quick {
		both := *f.kernel
		both.group = 2
		l.quickly(function{&both, f.powers}, z, moving[1:])
		c.Label("done")
	} else {
		l.exactly(f, z, moving[1:])
	}
	for _, p := range moving {
		c.ADDQ(operand.Imm(uint64(4*numbers)), p)
	}
	c.SUBQ(operand.Imm(uint64(numbers)), n)
	c.JNZ(operand.LabelRef("loop"))
	endFunction(c)
	if quick {
		c.Label("exactly")
		l.exactly(f, z, moving[1:])
		c.JMP(operand.LabelRef("done"))
	}
}

// inputs loads x and dy.
func (f function) inputs(from int, places []reg.GPVirtual) (in [2]value) {
	for i, p := range places {
		in[i] = f.newValue()
		for j, v := range in[i] {
			f.c.VCVTPS2PD(f.element(p, from, j), v)
		}
	}
	return in
}

func (f function) element(p reg.GPVirtual, from, vector int) operand.Mem {
	return operand.Mem{Base: p, Disp: 4 * (from + vector*f.lanes)}
}

// exactly does a turn.
func (l *functionLoop) exactly(f function, z reg.GPVirtual, places []reg.GPVirtual) {
	for from := 0; from < functionNumbers(f.isa); from += f.group * f.lanes {
		in := f.inputs(from, places)
		for i, y := range l.emit(f, in[0], in[1]) {
			half := f.half()
			f.narrow("VCVTPD2PS", y, half)
			f.c.VMOVUPS(half, f.element(z, from, i))
		}
	}
}

// functionNumbers is how many a turn of a loop takes: of f32, those of a register.
func functionNumbers(isa *isa) int { return isa.bytes / f32.size }
