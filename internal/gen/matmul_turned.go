package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// matmulTurnedCounts are as matmulCounts, for squares of b.
var matmulTurnedCounts = map[bool][]int{true: {8, 4, 3, 2, 1}, false: {4, 3, 2, 1}}

// matmulsTurned are the kernels of products of few rows of a with columns of b
// whose elements lie along k: squares of b are turned in registers.
func matmulsTurned(c *build.Context) {
	eachMatmul(c, "matmulTurned", func(k *kernel, name string) {
		beginFunction(c, name, "func(a *byte, aRow int, rows int, b *byte, bColumn int, squares int, bias *byte, y *byte, yRow int, more int)",
			fmt.Sprintf("%s multiplies rows of a with %d columns of b, as long as so many squares,", name, k.lanes),
			"which lie bytes apart, as rows of a and y do. Chains begin with y if there are more,",
			"else with 0, and end with bias, if there is one.")
		k.multiplyRows(matmulTurnedCounts[k.isa.masks], k.turnedChains)
	})
}

// turnedChains multiplies some rows of a.
func (k *kernel) turnedChains(count int, a, row, y reg.GPVirtual) {
	c := k.c
	sums := k.newSums(count, 1)
	k.beginChains(sums, y)
	rows, columns, squares := k.rowsFrom(a, row, count), k.rowsFrom(param(c, "b"), param(c, "bColumn"), k.lanes), param(c, "squares")
	loop, end := k.newLabel("square"), k.newLabel("end")
	var seen *leastSeen
	if k.dots {
		seen = newLeastSeen(c)
	}
	c.Label(loop)
	c.TESTQ(squares, squares)
	c.JLE(operand.LabelRef(end))
	var square value
	if k.dots {
		square = k.pairsOf(columns, seen)
	} else {
		for i := range k.lanes {
			square = append(square, k.out.load(k, memory{columns.at(i)}))
		}
	}
	for step, v := range k.transpose(square) {
		for i := range sums {
			at := rows.at(i)
			at.Disp = step * k.compute.size
			if k.isa.masks && !k.dots {
				k.emit(k.ps("VFMADD231")+"_BCST", at, v, sums[i][0])
			} else {
				x := k.vector()
				k.emit(k.scalar("VBROADCAST"), at, x)
				k.multiplyAdd(v, x, sums[i][0])
			}
		}
	}
	rows.moveOn(c, k.lanes*k.compute.size)
	columns.moveOn(c, k.lanes*k.out.size)
	c.DECQ(squares)
	c.JMP(operand.LabelRef(loop))
	c.Label(end)
	if k.dots {
		at := operand.Mem{Base: param(c, "least")}
		c.VPMINUW(at, seen.least, seen.least)
		c.VMOVDQU32(seen.least, at)
	}
	k.endChains(sums, y)
}
