package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// matmulVectors is how many vectors a panel's row has.
const matmulVectors = 2

// matmulCounts are the numbers of rows that are multiplied at a time: as many
// first as there are registers for.
var matmulCounts = map[bool][]int{true: {12, 8, 4, 2, 1}, false: {6, 4, 2, 1}}

// matmuls are the kernels of matrix products: chains over k of fused products and
// sums, of some rows of a with all columns of a panel of b.
func matmuls(c *build.Context) {
	for _, isa := range isas {
		for _, compute := range []*storage{f32, f64} {
			k := &kernel{c: c, isa: isa, compute: compute, lanes: isa.bytes / compute.size}
			name := "matmul" + isa.name + compute.name
			beginFunction(c, name, "func(a *byte, aRow int, rows int, b *byte, bRow int, steps int, y *byte, yRow int, more int)",
				fmt.Sprintf("%s multiplies rows of a with a panel of b, %d elements wide and so many steps deep,", name, matmulVectors*k.lanes),
				"whose rows lie bytes apart, as those of a and y do. Chains begin with y if there are more,",
				"else with 0.")
			a, row, left, y := param(c, "a"), param(c, "aRow"), param(c, "rows"), param(c, "y")
			for _, count := range matmulCounts[isa.masks] {
				again, fewer := k.newLabel("rows"), k.newLabel("fewer")
				c.Label(again)
				c.CMPQ(left, operand.U32(count))
				c.JLT(operand.LabelRef(fewer))
				k.chains(count, a, row, y)
				c.SUBQ(operand.U32(count), left)
				c.JMP(operand.LabelRef(again))
				c.Label(fewer)
			}
			c.VZEROUPPER()
			c.RET()
		}
	}
}

// chains multiplies some rows of a, and moves on by them.
func (k *kernel) chains(count int, a, row, y reg.GPVirtual) {
	c := k.c
	sums := make([][matmulVectors]reg.VecVirtual, count)
	for i := range sums {
		for j := range sums[i] {
			sums[i][j] = k.vector()
		}
	}
	each := func(move func(at operand.Mem, v reg.VecVirtual)) reg.GPVirtual {
		at := c.GP64()
		c.MOVQ(y, at)
		for _, vectors := range sums {
			for j, v := range vectors {
				move(operand.Mem{Base: at, Disp: j * k.isa.bytes}, v)
			}
			c.ADDQ(place(c, "yRow"), at)
		}
		return at
	}
	begin, begun, loop, end := k.newLabel("begin"), k.newLabel("begun"), k.newLabel("step"), k.newLabel("end")
	c.CMPQ(place(c, "more"), operand.Imm(0))
	c.JEQ(operand.LabelRef(begin))
	each(func(at operand.Mem, v reg.VecVirtual) { k.emit(k.ps("VMOVU"), at, v) })
	c.JMP(operand.LabelRef(begun))
	c.Label(begin)
	for _, vectors := range sums {
		for _, v := range vectors {
			k.emit(k.ps("VXOR"), v.AsX(), v.AsX(), v.AsX())
		}
	}
	c.Label(begun)
	rows, b, bRow, steps := k.rowsFrom(a, row, count), param(c, "b"), param(c, "bRow"), param(c, "steps")
	c.Label(loop)
	c.TESTQ(steps, steps)
	c.JLE(operand.LabelRef(end))
	var panel [matmulVectors]reg.VecVirtual
	for j := range panel {
		panel[j] = k.vector()
		k.emit(k.ps("VMOVU"), operand.Mem{Base: b, Disp: j * k.isa.bytes}, panel[j])
	}
	for i, vectors := range sums {
		x := k.vector()
		k.emit(k.scalar("VBROADCAST"), rows.at(i), x)
		for j, sum := range vectors {
			k.emit(k.ps("VFMADD231"), panel[j], x, sum)
		}
	}
	rows.moveOn(c, k.compute.size)
	c.ADDQ(bRow, b)
	c.DECQ(steps)
	c.JMP(operand.LabelRef(loop))
	c.Label(end)
	c.MOVQ(each(func(at operand.Mem, v reg.VecVirtual) { k.emit(k.ps("VMOVU"), v, at) }), y)
	for range count {
		c.ADDQ(row, a)
	}
}
