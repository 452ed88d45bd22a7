package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// columnExtremes finds the extremes of columns: some vectors of them stay in
// registers for all rows of a call, then the next ones.
func columnExtremes(c *build.Context) {
	for _, t := range extremeTypes {
		(&columnKernel{typeName: t.name, result: "float32", size: t.size, lanes: 8, load: t.load, fold: bitExtremes(c)}).emit(c)
	}
	load := func(c *build.Context, from operand.Mem, to reg.VecVirtual) { c.VMOVUPD(from, to) }
	(&columnKernel{typeName: "F64", result: "float64", size: 8, lanes: 4, load: load, fold: doubleExtremes(c)}).emit(c)
}

// extremeType is a type of elements whose extremes are taken as of f32.
type extremeType struct {
	name string
	size int
	load func(c *build.Context, from operand.Mem, to reg.VecVirtual)
}

var extremeTypes = []extremeType{
	{"F32", 4, func(c *build.Context, from operand.Mem, to reg.VecVirtual) { c.VMOVUPS(from, to) }},
	{"F16", 2, func(c *build.Context, from operand.Mem, to reg.VecVirtual) { c.VCVTPH2PS(from, to) }},
	{"BF16", 2, func(c *build.Context, from operand.Mem, to reg.VecVirtual) {
		c.VPMOVZXWD(from, to)
		c.VPSLLD(operand.Imm(16), to, to)
	}},
}

// columnFold is how extremes of one vector of columns are taken: v holds the
// smallest, the largest, and what else there is to keep.
type columnFold struct {
	registers          int
	enter, leave, take func(v []reg.VecVirtual, x reg.VecVirtual)
}

// bitExtremes takes those of bits: see heldExtremes. The least bits are those
// of -0, which are no number's, so that there is no positive one among the
// smallest.
func bitExtremes(c *build.Context) columnFold {
	return columnFold{
		registers: 2,
		enter: func(v []reg.VecVirtual, x reg.VecVirtual) {
			c.VPCMPEQD(x, x, x)
			c.VPSLLD(operand.Imm(31), x, x)
			c.VPOR(x, v[0], v[0])
		},
		take: func(v []reg.VecVirtual, x reg.VecVirtual) {
			c.VPMAXUD(x, v[0], v[0])
			c.VPMAXSD(x, v[1], v[1])
		},
		leave: func(v []reg.VecVirtual, x reg.VecVirtual) {
			c.VCMPPS(operand.Imm(unordered), v[0], v[0], x)
			c.VORPS(x, v[1], v[1]) // all bits: a NaN
			c.VPCMPEQD(x, x, x)
			c.VPSLLD(operand.Imm(31), x, x)
			c.VPCMPEQD(x, v[0], x)
			c.VPANDN(v[0], x, v[0])
		},
	}
}

// doubleExtremes takes those of numbers, and notes NaNs.
func doubleExtremes(c *build.Context) columnFold {
	return columnFold{
		registers: 3,
		enter:     func(v []reg.VecVirtual, _ reg.VecVirtual) { c.VXORPD(v[2], v[2], v[2]) },
		take: func(v []reg.VecVirtual, x reg.VecVirtual) {
			c.VMINPD(v[0], x, v[0]) // +0 stays, not -0
			c.VMAXPD(v[1], x, v[1]) // and so does a NaN
			c.VCMPPD(operand.Imm(unordered), x, x, x)
			c.VORPD(x, v[2], v[2])
		},
		leave: func(v []reg.VecVirtual, _ reg.VecVirtual) { c.VORPD(v[2], v[1], v[1]) },
	}
}

// columnKernel is the function for a type.
type columnKernel struct {
	typeName, result string // of the elements, and Go's type of the extremes
	size, lanes      int    // an element's bytes, and how many elements make a vector
	load             func(c *build.Context, from operand.Mem, to reg.VecVirtual)
	fold             columnFold
	// Arguments: x, lo and hi are those of the first column that is left, n is how many are.
	x, lo, hi, n, step, ahead reg.GPVirtual
}

const columnVectorBytes = 32 // of a vector of extremes

func (k *columnKernel) emit(c *build.Context) {
	name := "columnExtremesAVX2" + k.typeName
	beginFunction(c, name, fmt.Sprintf("func(x *byte, step, rows, n, ahead int, lo, hi *%s)", k.result),
		fmt.Sprintf("%s makes lo and hi the extremes of what they are and of n columns, whose rows are step bytes apart,", name),
		fmt.Sprintf("hi a NaN where there is one: n is %d or more. It asks for what is ahead bytes behind.", k.lanes))
	k.x, k.step, k.n, k.ahead, k.lo, k.hi = param(c, "x"), param(c, "step"), param(c, "n"), param(c, "ahead"), param(c, "lo"), param(c, "hi")
	at, left := c.GP64(), c.GP64()
	for _, vectors := range []int{4, 1} {
		strip, end, columns := fmt.Sprint("strip", vectors), fmt.Sprint("end", vectors), vectors*k.lanes
		c.Label(strip)
		if vectors > 1 {
			branch(c.CMPQ, k.n, operand.U32(columns), c.JLT, end)
		} else {
			branch(c.TESTQ, k.n, k.n, c.JLE, end)
			k.backUp(c)
		}
		k.strip(c, vectors, at, left)
		c.ADDQ(operand.U32(columns*k.size), k.x)
		c.ADDQ(operand.U32(vectors*columnVectorBytes), k.lo)
		c.ADDQ(operand.U32(vectors*columnVectorBytes), k.hi)
		c.SUBQ(operand.U32(columns), k.n)
		c.JMP(operand.LabelRef(strip))
		c.Label(end)
	}
	endFunction(c)
}

// backUp has the last vector end where the columns do: some are handled a second time.
func (k *columnKernel) backUp(c *build.Context) {
	branch(c.CMPQ, k.n, operand.U32(k.lanes), c.JGE, "whole1")
	c.SUBQ(operand.U32(k.lanes), k.n)
	for _, p := range []struct {
		at   reg.GPVirtual
		size int
	}{{k.x, k.size}, {k.lo, columnVectorBytes / k.lanes}, {k.hi, columnVectorBytes / k.lanes}} {
		c.LEAQ(operand.Mem{Base: p.at, Index: k.n, Scale: uint8(p.size)}, p.at)
	}
	c.MOVQ(operand.U32(k.lanes), k.n)
	c.Label("whole1")
}

// strip takes some vectors of columns through all rows.
func (k *columnKernel) strip(c *build.Context, vectors int, at, left reg.GPVirtual) {
	row := fmt.Sprint("row", vectors)
	v, held := make([]reg.VecVirtual, vectors), make([][]reg.VecVirtual, vectors)
	for i := range held {
		v[i] = c.YMM()
		for range k.fold.registers {
			held[i] = append(held[i], c.YMM())
		}
		c.VMOVUPS(operand.Mem{Base: k.lo, Disp: i * columnVectorBytes}, held[i][0])
		c.VMOVUPS(operand.Mem{Base: k.hi, Disp: i * columnVectorBytes}, held[i][1])
		k.fold.enter(held[i], v[i])
	}
	c.MOVQ(k.x, at)
	c.MOVQ(place(c, "rows"), left)
	c.Label(row)
	for line := 0; line < vectors*k.lanes*k.size; line += 64 {
		c.PREFETCHT0(operand.Mem{Base: at, Index: k.ahead, Scale: 1, Disp: line})
	}
	for i := range held {
		k.load(c, operand.Mem{Base: at, Disp: i * k.lanes * k.size}, v[i])
		k.fold.take(held[i], v[i])
	}
	c.ADDQ(k.step, at)
	c.DECQ(left)
	c.JNE(operand.LabelRef(row))
	for i := range held {
		k.fold.leave(held[i], v[i])
		c.VMOVUPS(held[i][0], operand.Mem{Base: k.lo, Disp: i * columnVectorBytes})
		c.VMOVUPS(held[i][1], operand.Mem{Base: k.hi, Disp: i * columnVectorBytes})
	}
}
