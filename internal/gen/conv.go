package main

import (
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// convolutions are matrix products of f32 whose right factor's rows begin anywhere: within an image's
// planes, as elements of a kernel meet them.
func convolutions(c *build.Context) {
	for _, isa := range isas {
		k := newKernel(c, newTables(), isa, f32)
		name := "convolve" + isa.name
		beginFunction(c, name, "func(a *float32, aRow int, rows int, x *float32, at *int32, steps int, y *float32, yRow int, more int, add int)",
			name+" computes chains over k of fma(a[i][k], x[at[k]+j], sum) for two vectors of j, where rows of a and y",
			"lie bytes apart. Chains begin with y[i][j] if there are more, else with 0, and are stored there or, with add, added.")
		k.multiplyRows(matmulCounts[isa.masks], k.convolve)
	}
}

// convolve emits the chains of so many rows.
func (k *kernel) convolve(count int, a, row, y reg.GPVirtual) {
	c := k.c
	sums := k.newSums(count, matmulVectors)
	k.beginChains(sums, y)
	rows, x, at, steps, offset := k.rowsFrom(a, row, count), param(c, "x"), param(c, "at"), param(c, "steps"), c.GP64()
	while(c, steps, 1, k.newLabel("step"), k.newLabel("end"), func() {
		c.MOVLQSX(operand.Mem{Base: at}, offset)
		c.ADDQ(operand.Imm(4), at)
		panel := k.newSums(1, matmulVectors)[0]
		for j, v := range panel {
			k.emit("VMOVUPS", operand.Mem{Base: x, Index: offset, Scale: 4, Disp: j * k.isa.bytes}, v)
		}
		for i, sum := range sums {
			w := k.vector()
			k.emit("VBROADCASTSS", rows.at(i), w)
			for j := range sum {
				k.multiplyAdd(panel[j], w, sum[j])
			}
		}
		rows.moveOn(c, operand.Imm(4))
	})
	ended := k.newLabel("ended")
	branch(c.CMPQ, place(c, "add"), operand.Imm(0), c.JEQ, ended)
	k.eachSum(sums, y, func(at operand.Mem, v reg.VecVirtual) { k.emit("VADDPS", at, v, v) })
	c.Label(ended)
	c.MOVQ(k.eachSum(sums, y, func(at operand.Mem, v reg.VecVirtual) { k.emit("VMOVUPS", v, at) }), y)
}
