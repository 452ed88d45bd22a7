package main

import (
	"go/types"

	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/gotypes"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// The loops of autodiff/internal/kernel: arithmetic on rows of f32, a multiple
// of 8 elements each, of which Go does the rest. Every multiplication and
// addition rounds by itself, as in Go.

// rowLoop is a loop over z and x, and over y unless that is one number.
type rowLoop struct {
	name, doc string
	number    bool // y is one number
	// emit computes a vector; y holds the number or, for those without one, 0.
	emit func(c *build.Context, z, x, yRow operand.Mem, y, v reg.VecVirtual)
}

var rowLoops = []rowLoop{
	{"add", "z[i] = x[i] + y[i]", false, func(c *build.Context, z, x, yRow operand.Mem, y, v reg.VecVirtual) {
		c.VMOVUPS(x, v)
		c.VADDPS(yRow, v, v)
	}},
	{"mul", "z[i] = x[i] * y[i]", false, func(c *build.Context, z, x, yRow operand.Mem, y, v reg.VecVirtual) {
		c.VMOVUPS(x, v)
		c.VMULPS(yRow, v, v)
	}},
	{"shift", "z[i] = x[i] + y[0]", true, func(c *build.Context, z, x, yRow operand.Mem, y, v reg.VecVirtual) {
		c.VMOVUPS(x, v)
		c.VADDPS(y, v, v)
	}},
	{"scale", "z[i] = x[i] * y[0]", true, func(c *build.Context, z, x, yRow operand.Mem, y, v reg.VecVirtual) {
		c.VMULPS(x, y, v)
	}},
	{"div", "z[i] = x[i] / y[i]", false, func(c *build.Context, z, x, yRow operand.Mem, y, v reg.VecVirtual) {
		c.VMOVUPS(x, v)
		c.VDIVPS(yRow, v, v)
	}},
	{"share", "z[i] = x[i] / y[0]", true, func(c *build.Context, z, x, yRow operand.Mem, y, v reg.VecVirtual) {
		c.VMOVUPS(x, v)
		c.VDIVPS(y, v, v)
	}},
	{"descend", "z[i] -= x[i] * y[0]", true, func(c *build.Context, z, x, yRow operand.Mem, y, v reg.VecVirtual) {
		step := c.YMM()
		c.VMULPS(x, y, step)
		c.VMOVUPS(z, v)
		c.VSUBPS(step, v, v)
	}},
	{"relu", "z[i] = max(x[i], 0)", false, func(c *build.Context, z, x, yRow operand.Mem, y, v reg.VecVirtual) {
		c.VADDPS(x, y, v) // -0 becomes +0
		c.VMAXPS(v, y, v) // a NaN stays
	}},
	{"reluGrad", "z[i] = x[i] if y[i] != 0, else 0", false, func(c *build.Context, z, x, yRow operand.Mem, y, v reg.VecVirtual) {
		const notEqual = 4 // or a NaN
		c.VCMPPS(operand.Imm(notEqual), yRow, y, v)
		c.VANDPS(x, v, v)
	}},
}

// vectors emits all of them.
func vectors(c *build.Context) {
	for _, l := range rowLoops {
		l.function(c)
	}
	addLanes(c)
	maxPool2(c)
}

// rowSignature declares a function of pointers to f32 and a number of elements;
// result is nil for none.
func rowSignature(c *build.Context, name, doc string, result *types.Tuple, pointers ...*types.Var) {
	c.Function(name)
	c.Doc(name + " is: " + doc + ".")
	c.Attributes(attr.NOSPLIT)
	c.Pragma("noescape")
	pkg := types.NewPackage("kernel", "kernel")
	params := append(pointers, types.NewVar(0, pkg, "n", types.Typ[types.Int]))
	c.Signature(gotypes.NewSignature(pkg, types.NewSignatureType(nil, nil, nil, types.NewTuple(params...), result, false)))
}

func pointerTo(t types.Type, name string) *types.Var {
	return types.NewVar(0, nil, name, types.NewPointer(t))
}

func (l *rowLoop) function(c *build.Context) {
	f32 := types.Typ[types.Float32]
	rowSignature(c, l.name+"AVX2", l.doc+", for n a multiple of 8", nil, pointerTo(f32, "z"), pointerTo(f32, "x"), pointerTo(f32, "y"))
	z, x, y, n := param(c, "z"), param(c, "x"), param(c, "y"), param(c, "n")
	number := c.YMM()
	if l.number {
		c.VBROADCASTSS(operand.Mem{Base: y}, number)
	} else {
		c.VXORPS(number, number, number)
	}
	c.SHLQ(operand.Imm(2), n) // bytes
	at := c.GP64()
	c.XORQ(at, at)
	loop := func(label string, count int) {
		size := count * 32
		end := c.GP64()
		c.MOVQ(n, end)
		c.SUBQ(operand.I32(size), end)
		c.JMP(operand.LabelRef(label + "_test"))
		c.Label(label)
		for i := range count {
			element := func(base reg.GPVirtual) operand.Mem {
				return operand.Mem{Base: base, Index: at, Scale: 1, Disp: i * 32}
			}
			v := c.YMM()
			l.emit(c, element(z), element(x), element(y), number, v)
			c.VMOVUPS(v, element(z))
		}
		c.ADDQ(operand.I32(size), at)
		c.Label(label + "_test")
		branch(c.CMPQ, at, end, c.JLE, label)
	}
	loop("wide", 4)
	loop("narrow", 1)
	endFunction(c)
}

// addLanes keeps the 64 lanes of a sum in registers.
func addLanes(c *build.Context) {
	f32 := types.Typ[types.Float32]
	rowSignature(c, "addLanesAVX2", "acc[i%64] += x[i], for n a multiple of 64, not 0", nil, pointerTo(types.NewArray(f32, 64), "acc"), pointerTo(f32, "x"))
	acc, x, n := param(c, "acc"), param(c, "x"), param(c, "n")
	var lanes [8]reg.VecVirtual
	for i := range lanes {
		lanes[i] = c.YMM()
		c.VMOVUPS(operand.Mem{Base: acc, Disp: i * 32}, lanes[i])
	}
	c.Label("row")
	for i, l := range lanes {
		c.VADDPS(operand.Mem{Base: x, Disp: i * 32}, l, l)
	}
	c.ADDQ(operand.I32(256), x)
	c.SUBQ(operand.I32(64), n)
	c.JNZ(operand.LabelRef("row"))
	for i, l := range lanes {
		c.VMOVUPS(l, operand.Mem{Base: acc, Disp: i * 32})
	}
	endFunction(c)
}
