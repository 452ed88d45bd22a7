package main

import (
	"go/types"

	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/gotypes"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// The loops of autodiff/internal/kernel that are neither functions nor convolutions.

// autodiffLoops emits all loops of autodiff/internal/kernel.
func autodiffLoops(c *build.Context) {
	globals := newTables()
	vectors(c, globals)
	compareRows(c, globals)
	castRows(c, globals)
	adamRows(c, globals)
	addLanes(c)
	maxPool2(c)
	functions(c, globals)
	powers(c, globals)
	doubleFunctions(c, globals)
	taps(c)
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
