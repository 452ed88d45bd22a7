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
		columnExtremesOf(c, t.name, "float32", t.size, 8, t.load, bitExtremes(c))
	}
	columnExtremesOf(c, "F64", "float64", 8, 4, func(c *build.Context, from operand.Mem, to reg.VecVirtual) { c.VMOVUPD(from, to) }, doubleExtremes(c))
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

// columnExtremesOf writes the function for a type.
func columnExtremesOf(c *build.Context, typeName, result string, size, lanes int, load func(c *build.Context, from operand.Mem, to reg.VecVirtual), fold columnFold) {
	const vectorBytes = 32
	name := "columnExtremesAVX2" + typeName
	beginFunction(c, name, fmt.Sprintf("func(x *byte, step, rows, n, ahead int, lo, hi *%s)", result),
		fmt.Sprintf("%s makes lo and hi the extremes of what they are and of n columns, whose rows are step bytes apart,", name),
		fmt.Sprintf("hi a NaN where there is one: n is %d or more. It asks for what is ahead bytes behind.", lanes))
	x, step, n, ahead, lo, hi := param(c, "x"), param(c, "step"), param(c, "n"), param(c, "ahead"), param(c, "lo"), param(c, "hi")
	at, left := c.GP64(), c.GP64()
	for _, vectors := range []int{4, 1} {
		label := func(name string) string { return fmt.Sprint(name, vectors) }
		columns := vectors * lanes
		c.Label(label("strip"))
		if vectors > 1 {
			branch(c.CMPQ, n, operand.U32(columns), c.JLT, label("end"))
		} else {
			whole := label("whole")
			branch(c.TESTQ, n, n, c.JLE, label("end"))
			branch(c.CMPQ, n, operand.U32(columns), c.JGE, whole)
			c.SUBQ(operand.U32(columns), n) // some a second time
			for _, p := range []struct {
				at   reg.GPVirtual
				size int
			}{{x, size}, {lo, vectorBytes / lanes}, {hi, vectorBytes / lanes}} {
				c.LEAQ(operand.Mem{Base: p.at, Index: n, Scale: uint8(p.size)}, p.at)
			}
			c.MOVQ(operand.U32(columns), n)
			c.Label(whole)
		}
		v, held := make([]reg.VecVirtual, vectors), make([][]reg.VecVirtual, vectors)
		for i := range held {
			v[i] = c.YMM()
			for range fold.registers {
				held[i] = append(held[i], c.YMM())
			}
			c.VMOVUPS(operand.Mem{Base: lo, Disp: i * vectorBytes}, held[i][0])
			c.VMOVUPS(operand.Mem{Base: hi, Disp: i * vectorBytes}, held[i][1])
			fold.enter(held[i], v[i])
		}
		c.MOVQ(x, at)
		c.MOVQ(place(c, "rows"), left)
		c.Label(label("row"))
		for line := 0; line < columns*size; line += 64 {
			c.PREFETCHT0(operand.Mem{Base: at, Index: ahead, Scale: 1, Disp: line})
		}
		for i := range held {
			load(c, operand.Mem{Base: at, Disp: i * lanes * size}, v[i])
			fold.take(held[i], v[i])
		}
		c.ADDQ(step, at)
		c.DECQ(left)
		c.JNE(operand.LabelRef(label("row")))
		for i := range held {
			fold.leave(held[i], v[i])
			c.VMOVUPS(held[i][0], operand.Mem{Base: lo, Disp: i * vectorBytes})
			c.VMOVUPS(held[i][1], operand.Mem{Base: hi, Disp: i * vectorBytes})
		}
		c.ADDQ(operand.U32(columns*size), x)
		c.ADDQ(operand.U32(vectors*vectorBytes), lo)
		c.ADDQ(operand.U32(vectors*vectorBytes), hi)
		c.SUBQ(operand.U32(columns), n)
		c.JMP(operand.LabelRef(label("strip")))
		c.Label(label("end"))
	}
	endFunction(c)
}
