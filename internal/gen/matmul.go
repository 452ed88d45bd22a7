package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// matmulVectors is how many vectors a panel's row has; half a panel has one, a wide one, for
// one or two rows of a, so many that chains do not wait for each other.
const matmulVectors = 2

var matmulWideVectors = map[bool]int{true: 8, false: 4}

// matmulCounts are the numbers of rows that are multiplied at a time: as many first as there are registers for, twelve
// if there are 32 of them or a row has one vector.
var (
	matmulCounts     = map[bool][]int{true: {12, 8, 4, 2, 1}, false: {6, 4, 2, 1}}
	matmulWideCounts = []int{2, 1}
)

// matmuls are the kernels of matrix products: chains over k of fused products and
// sums, of some rows of a with all columns of a panel of b.
func matmuls(c *build.Context) {
	for _, panel := range []struct {
		name    string
		vectors map[bool]int
	}{
		{"matmul", map[bool]int{true: matmulVectors, false: matmulVectors}},
		{"matmulHalf", map[bool]int{true: 1, false: 1}},
		{"matmulWide", matmulWideVectors},
	} {
		eachMatmul(c, panel.name, func(k *kernel, name string) {
			vectors := panel.vectors[k.isa.masks]
			width := fmt.Sprintf("%d elements", vectors*k.lanes)
			if vectors == 1 && k.isa.masks {
				width = "columns"
			}
			beginFunction(c, name, matmulSignature,
				fmt.Sprintf("%s multiplies rows of a with a panel of b, %s wide and so many steps deep,", name, width),
				"whose rows lie bytes apart, as those of a and y do. Chains begin with y if there are more,",
				"else with 0, and end with bias, if there is one.")
			k.panels(vectors)
		})
	}
}

// matmulSignature is that of kernels of panels. Half a panel has so many columns where there are
// masks, else there is no other number than its own.
const matmulSignature = "func(a *byte, aRow int, rows int, b *byte, bRow int, columns int, steps int, bias *byte, y *byte, yRow int, more int)"

// panels emits what multiplies all rows of a with so many vectors of each of b.
func (k *kernel) panels(vectors int) {
	if vectors == 1 && k.isa.masks {
		k.maskTail(param(k.c, "columns"))
	}
	k.multiplyRows(either(vectors > matmulVectors, matmulWideCounts, matmulCounts[k.isa.masks || vectors == 1]), k.chains(vectors))
	k.tail = nil
}

// eachMatmul emits a kernel for each instruction set and type of b.
func eachMatmul(c *build.Context, name string, emit func(k *kernel, name string)) {
	eachKernel(c, []*storage{f32, bf16, f16, f64}, func(k *kernel) { emit(k, name+k.isa.name+k.out.name) })
}

// multiplyRows emits what multiplies all rows of a, as many at a time as can be.
func (k *kernel) multiplyRows(counts []int, chains func(count int, a, row, y reg.GPVirtual)) {
	c := k.c
	a, row, left, y := param(c, "a"), param(c, "aRow"), place(c, "rows"), param(c, "y")
	for _, count := range counts {
		again, fewer := k.newLabel("rows"), k.newLabel("fewer")
		c.Label(again)
		branch(c.CMPQ, left, operand.U32(count), either(count == matmulExactly, c.JNE, c.JLT), fewer)
		chains(count, a, row, y)
		for range count {
			c.ADDQ(row, a)
		}
		c.SUBQ(operand.U32(count), left)
		c.JMP(operand.LabelRef(again))
		c.Label(fewer)
	}
	endFunction(c)
}

// chains returns what multiplies some rows of a with so many vectors of each of b.
func (k *kernel) chains(vectors int) func(count int, a, row, y reg.GPVirtual) {
	return func(count int, a, row, y reg.GPVirtual) {
		c := k.c
		sums := k.newSums(count, vectors)
		k.beginChains(sums, y)
		loop, end := k.newLabel("step"), k.newLabel("end")
		rows, b, bRow, steps := k.rowsFrom(a, row, count), param(c, "b"), param(c, "bRow"), param(c, "steps")
		while(c, steps, 1, loop, end, func() {
			panel, masked := make(value, vectors), k.tail
			if k.dots {
				k.tail = nil // copies have whole vectors
			}
			for j := range panel {
				panel[j] = k.out.load(k, memory{operand.Mem{Base: b, Disp: j * k.lanes * k.out.size}})
			}
			k.tail = masked
			for i, sum := range sums {
				k.multiplyAll(panel, rows.at(i), sum)
			}
			rows.moveOn(c, operand.U32(k.compute.size))
			c.ADDQ(bRow, b)
		})
		k.endChains(sums, y)
	}
}

// multiplyAll adds to sums the products of vectors of b and an element of a. Where one vector meets it,
// it is read by the instruction that multiplies: others would wait for a register.
func (k *kernel) multiplyAll(b value, a operand.Mem, sums value) {
	if len(sums) == 1 && k.isa.masks && !k.dots {
		k.emit(k.ps("VFMADD231")+"_BCST", a, b[0], sums[0])
		return
	}
	x := k.vector()
	k.emit(k.scalar("VBROADCAST"), a, x)
	for j, sum := range sums {
		k.multiplyAdd(b[j], x, sum)
	}
}

// newSums returns registers for so many vectors of each row of y.
func (k *kernel) newSums(rows, vectors int) []value {
	sums := make([]value, rows)
	for i := range sums {
		for range vectors {
			sums[i] = append(sums[i], k.vector())
		}
	}
	return sums
}

// beginChains loads what rows of y hold if there are more chains to come, else 0.
func (k *kernel) beginChains(sums []value, y reg.GPVirtual) {
	c, begin, begun := k.c, k.newLabel("begin"), k.newLabel("begun")
	branch(c.CMPQ, place(c, "more"), operand.Imm(0), c.JEQ, begin)
	k.eachSum(sums, y, func(at operand.Mem, v reg.VecVirtual) { k.fetch(k.ps("VMOVU"), memory{at}, v) })
	c.JMP(operand.LabelRef(begun))
	c.Label(begin)
	for _, vectors := range sums {
		for _, v := range vectors {
			k.emit(k.ps("VXOR"), v.AsX(), v.AsX(), v.AsX())
		}
	}
	c.Label(begun)
}

// endChains adds bias to chains, stores them in rows of y, and moves on by those.
func (k *kernel) endChains(sums []value, y reg.GPVirtual) {
	bias, ended := param(k.c, "bias"), k.newLabel("ended")
	branch(k.c.TESTQ, bias, bias, k.c.JEQ, ended)
	for j := range sums[0] {
		b := k.vector()
		k.fetch(k.ps("VMOVU"), memory{operand.Mem{Base: bias, Disp: j * k.isa.bytes}}, b)
		for _, vectors := range sums {
			k.emit(k.ps("VADD"), b, vectors[j], vectors[j])
		}
	}
	k.c.Label(ended)
	k.c.MOVQ(k.eachSum(sums, y, func(at operand.Mem, v reg.VecVirtual) {
		if k.tail != nil {
			k.emit(k.ps("VMOVU"), v, k.tail, at)
		} else {
			k.emit(k.ps("VMOVU"), v, at)
		}
	}), y)
}

// eachSum moves each vector of sums from or to its place in y, and returns where
// the rows end.
func (k *kernel) eachSum(sums []value, y reg.GPVirtual, move func(at operand.Mem, v reg.VecVirtual)) reg.GPVirtual {
	at := k.c.GP64()
	k.c.MOVQ(y, at)
	for _, vectors := range sums {
		for j, v := range vectors {
			move(operand.Mem{Base: at, Disp: j * k.isa.bytes}, v)
		}
		k.c.ADDQ(place(k.c, "yRow"), at)
	}
	return at
}
