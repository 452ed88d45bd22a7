package main

import (
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// batchVectors is how many vectors of products are computed at a time.
const batchVectors = 4

// matmulBatches are the kernels of many products of small matrices: a lane has a product of its own, a
// plane the same element of all.
func matmulBatches(c *build.Context) {
	eachKernel(c, []*storage{f32, f64}, func(k *kernel) {
		name := "matmulBatch" + k.isa.name + k.out.name
		beginFunction(c, name, "func(a *byte, aRow int, aStep int, b *byte, bColumn int, bStep int, y *byte, plane int, m int, n int, k int)",
			name+" computes y's planes, row by row, which lie plane bytes apart: a chain over k of the planes",
			"of a row of a, which lie aStep bytes apart, and of a column of b, bStep bytes apart.")
		k.batch()
	})
}

func (k *kernel) batch() {
	c := k.c
	a, b, y, rows := param(c, "a"), c.GP64(), param(c, "y"), param(c, "m")
	while(c, rows, 1, "row", "done", func() {
		columns := param(c, "n")
		c.Load(c.Param("b"), b)
		while(c, columns, 1, "column", "next", func() {
			var sums value
			for range batchVectors {
				v := k.vector()
				k.emit(k.ps("VXOR"), v.AsX(), v.AsX(), v.AsX())
				sums = append(sums, v)
			}
			left, right, aStep, bStep := c.GP64(), c.GP64(), param(c, "aStep"), param(c, "bStep")
			c.MOVQ(a, left)
			c.MOVQ(b, right)
			at := func(base reg.GPVirtual, i int) operand.Mem { return operand.Mem{Base: base, Disp: i * k.isa.bytes} }
			while(c, param(c, "k"), 1, "step", "end", func() {
				for i, sum := range sums {
					x := k.vector()
					k.emit(k.ps("VMOVU"), at(left, i), x)
					k.emit(k.ps("VFMADD231"), at(right, i), x, sum)
				}
				c.ADDQ(aStep, left)
				c.ADDQ(bStep, right)
			})
			for i, sum := range sums {
				k.emit(k.ps("VMOVU"), sum, at(y, i))
			}
			c.ADDQ(place(c, "plane"), y)
			c.ADDQ(place(c, "bColumn"), b)
		})
		c.ADDQ(place(c, "aRow"), a)
	})
	endFunction(c)
}
