package main

import (
	"fmt"
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
	arithmeticRows(c, globals)
	compareRows(c, globals)
	castRows(c, globals)
	reverseRows(c)
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

// addLanes keeps the 64 lanes of a sum in registers: of f64, in all there are. foldLanes folds them by halves.
func addLanes(c *build.Context) {
	for _, t := range []struct {
		name string
		kind types.BasicKind
		size int
		add  func(...operand.Op)
	}{{"LanesAVX2", types.Float32, 4, c.VADDPS}, {"LanesAVX2F64", types.Float64, 8, c.VADDPD}} {
		element := types.Typ[t.kind]
		lanes := make([]reg.VecVirtual, stripeLanes*t.size/32)
		load := func(acc reg.GPVirtual) {
			for i := range lanes {
				lanes[i] = c.YMM()
				c.VMOVUPS(operand.Mem{Base: acc, Disp: i * 32}, lanes[i])
			}
		}
		rowSignature(c, "add"+t.name, "acc[i%64] += x[i], for n a multiple of 64, not 0", nil, pointerTo(types.NewArray(element, stripeLanes), "acc"), pointerTo(element, "x"))
		acc, x, n := param(c, "acc"), param(c, "x"), param(c, "n")
		load(acc)
		c.Label("row")
		for i, l := range lanes {
			t.add(operand.Mem{Base: x, Disp: i * 32}, l, l)
		}
		c.ADDQ(operand.I32(stripeLanes*t.size), x)
		c.SUBQ(operand.I32(stripeLanes), n)
		c.JNZ(operand.LabelRef("row"))
		for i, l := range lanes {
			c.VMOVUPS(l, operand.Mem{Base: acc, Disp: i * 32})
		}
		endFunction(c)

		beginFunction(c, "fold"+t.name, fmt.Sprintf("func(acc *[%d]%v)", stripeLanes, element), "acc[0] becomes the sum of all, folded by halves.")
		acc = param(c, "acc")
		load(acc)
		for half := len(lanes) / 2; half > 0; half /= 2 {
			for i := range half {
				t.add(lanes[i+half], lanes[i], lanes[i])
			}
		}
		sum, upper := lanes[0].AsX(), c.XMM()
		c.VEXTRACTF128(operand.Imm(1), lanes[0], upper)
		t.add(upper, sum, sum)
		if t.size == 4 {
			c.VPERMILPS(operand.Imm(0x0E), sum, upper)
			t.add(upper, sum, sum)
			c.VPERMILPS(operand.Imm(1), sum, upper)
		} else {
			c.VPERMILPD(operand.Imm(1), sum, upper)
		}
		t.add(upper, sum, sum)
		either(t.size == 4, c.VMOVSS, c.VMOVSD)(sum, operand.Mem{Base: acc})
		endFunction(c)
	}
}
