package main

import (
	"go/types"

	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// tapLines is how many lines of an image's results are computed side by side.
const tapLines = 4

// tapsForm is how a product joins a sum.
type tapsForm struct {
	name, doc string
	add       func(c *build.Context, b reg.VecVirtual, x operand.Mem, sum reg.VecVirtual)
}

var tapsForms = []tapsForm{
	{"fusedTaps", "fma(x[r*down+k*across+j], w[r*columns+k], y[j])", func(c *build.Context, b reg.VecVirtual, x operand.Mem, sum reg.VecVirtual) {
		c.VFMADD231PS(x, b, sum)
	}},
	{"roundedTaps", "y[j] + x[r*down+k*across+j] * w[r*columns+k]", func(c *build.Context, b reg.VecVirtual, x operand.Mem, sum reg.VecVirtual) {
		product := c.YMM()
		c.VMULPS(x, b, product)
		c.VADDPS(product, sum, sum)
	}},
}

// taps emits convolutions of one channel, of f32: of a few lines a vector of each, with every
// element of the kernel in turn, in chains of fused steps or as sums of rounded products.
func taps(c *build.Context) {
	f32 := types.Typ[types.Float32]
	arguments := []*types.Var{pointerTo(f32, "y"), pointerTo(f32, "x"), pointerTo(f32, "w")}
	for _, name := range []string{"rows", "columns", "down", "across", "xStep", "yStep"} {
		arguments = append(arguments, types.NewVar(0, nil, name, types.Typ[types.Int]))
	}
	for _, form := range tapsForms {
		rowSignature(c, form.name+"AVX2", "y[j] = "+form.doc+" for each row r and column k, from +0 on, for n of 8 and more, in 4 lines; distances are in bytes", nil, arguments...)
		form.loop(c)
	}
	weightTaps(c)
	convolutions(c)
}

// loop computes vectors of all lines, one after the other.
func (form *tapsForm) loop(c *build.Context) {
	y, x, w, n := param(c, "y"), param(c, "x"), param(c, "w"), param(c, "n")
	down, across, step := param(c, "down"), param(c, "across"), param(c, "xStep")
	three := c.GP64()
	c.LEAQ(operand.Mem{Base: step, Index: step, Scale: 2}, three)
	c.SHLQ(operand.Imm(2), n) // bytes
	c.Label("vector")
	var sums [tapLines]reg.VecVirtual
	for i := range sums {
		sums[i] = c.YMM()
		c.VXORPS(sums[i], sums[i], sums[i])
	}
	row, at, tap, rows, columns := c.GP64(), c.GP64(), c.GP64(), c.GP64(), c.GP64()
	c.MOVQ(x, row)
	c.MOVQ(w, tap)
	c.Load(c.Param("rows"), rows)
	c.Label("row")
	c.MOVQ(row, at)
	c.Load(c.Param("columns"), columns)
	c.Label("column")
	b := c.YMM()
	c.VBROADCASTSS(operand.Mem{Base: tap}, b)
	for i, sum := range sums {
		form.add(c, b, lineOf(at, step, three, i), sum)
	}
	c.ADDQ(across, at)
	c.ADDQ(operand.Imm(4), tap)
	c.DECQ(columns)
	c.JNZ(operand.LabelRef("column"))
	c.ADDQ(down, row)
	c.DECQ(rows)
	c.JNZ(operand.LabelRef("row"))
	yStep, yThree := row, at // free by now
	c.Load(c.Param("yStep"), yStep)
	c.LEAQ(operand.Mem{Base: yStep, Index: yStep, Scale: 2}, yThree)
	for i, sum := range sums {
		c.VMOVUPS(sum, lineOf(y, yStep, yThree, i))
	}
	c.SUBQ(operand.Imm(32), n)
	c.JE(operand.LabelRef("done"))
	c.CMPQ(n, operand.Imm(32))
	c.JGE(operand.LabelRef("next"))
	// The last vector begins within the one before.
	c.ADDQ(n, x)
	c.ADDQ(n, y)
	c.MOVQ(operand.U32(32), n)
	c.JMP(operand.LabelRef("vector"))
	c.Label("next")
	c.ADDQ(operand.Imm(32), x)
	c.ADDQ(operand.Imm(32), y)
	c.JMP(operand.LabelRef("vector"))
	c.Label("done")
	endFunction(c)
}

// lineOf is where one of the lines begins, a step or, for the last of four, three of them away.
func lineOf(base, step, three reg.GPVirtual, i int) operand.Mem {
	switch i {
	case 0:
		return operand.Mem{Base: base}
	case 3:
		return operand.Mem{Base: base, Index: three, Scale: 1}
	}
	return operand.Mem{Base: base, Index: step, Scale: uint8(i)}
}

// weightTapCount is how many elements of a kernel have their gradients computed side by side.
const weightTapCount = 9

// weightTaps emits the gradient of depthwise kernels, of f32: lanes are channels, and each element of
// a kernel is a chain of fused steps of its own.
func weightTaps(c *build.Context) {
	f32 := types.Typ[types.Float32]
	pointers := []*types.Var{
		pointerTo(types.NewArray(types.NewArray(f32, 8), weightTapCount), "sums"), pointerTo(f32, "x"), pointerTo(f32, "dy"),
		pointerTo(types.NewArray(types.Typ[types.Int], weightTapCount), "at"),
	}
	for _, name := range []string{"lines", "xStep", "xSkip"} {
		pointers = append(pointers, types.NewVar(0, nil, name, types.Typ[types.Int]))
	}
	rowSignature(c, "weightTapsAVX2", "sums[k][c] = fma(dy[i][c], x[i*xStep+at[k]][c], sums[k][c]) for each position i of each line, n of them; after a line x moves on by xSkip, too; distances are in bytes", nil, pointers...)
	sums, x, dy, n := param(c, "sums"), param(c, "x"), param(c, "dy"), c.GP64()
	var chains [weightTapCount]reg.VecVirtual
	var taps [weightTapCount]reg.GPVirtual
	at := param(c, "at")
	for i := range chains {
		chains[i], taps[i] = c.YMM(), c.GP64()
		c.VMOVUPS(operand.Mem{Base: sums, Disp: i * 32}, chains[i])
		c.MOVQ(operand.Mem{Base: at, Disp: i * 8}, taps[i])
	}
	c.Label("line")
	c.MOVQ(place(c, "n"), n)
	c.Label("position")
	up := c.YMM()
	c.VMOVUPS(operand.Mem{Base: dy}, up)
	for i, chain := range chains {
		c.VFMADD231PS(operand.Mem{Base: x, Index: taps[i], Scale: 1}, up, chain)
	}
	c.ADDQ(operand.Imm(32), dy)
	c.ADDQ(place(c, "xStep"), x)
	c.DECQ(n)
	c.JNZ(operand.LabelRef("position"))
	c.ADDQ(place(c, "xSkip"), x)
	c.DECQ(place(c, "lines"))
	c.JNZ(operand.LabelRef("line"))
	c.Load(c.Param("sums"), sums)
	for i, chain := range chains {
		c.VMOVUPS(chain, operand.Mem{Base: sums, Disp: i * 32})
	}
	endFunction(c)
}
