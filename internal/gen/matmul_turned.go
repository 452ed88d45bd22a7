package main

import (
	"fmt"
	"math/bits"

	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// matmulTurned are panels of squares of b side by side, and as matmulCounts how
// many rows of a are multiplied with them at a time. Few rows have several: the chains of
// one square would leave the processor waiting for each sum.
var matmulTurned = []struct {
	name    string
	squares int
	counts  map[bool][]int
}{
	{"matmulTurned", 1, map[bool][]int{true: {8, 4, 3, 2, 1}, false: {4, 3, 2, 1}}},
	{"matmulTurnedWide", 2, map[bool][]int{true: {4, 3, 2, 1}, false: {2, 1}}},
}

// matmulTurnedEarly is the number of columns for which lines ahead are asked for at once.
const matmulTurnedEarly = 4

// matmulsTurned are the kernels of products of few rows of a with columns of b
// whose elements lie along k: squares of b are turned in registers.
func matmulsTurned(c *build.Context) {
	for _, panel := range matmulTurned {
		eachMatmul(c, panel.name, func(k *kernel, name string) {
			ahead := "From ahead on, if it is not nil, memory is asked for: as much of as many columns."
			if panel.squares > 1 {
				ahead = "ahead is not used."
			}
			beginFunction(c, name, "func(a *byte, aRow int, rows int, b *byte, bColumn int, squares int, bias *byte, y *byte, yRow int, more int, ahead *byte)",
				fmt.Sprintf("%s multiplies rows of a with %d columns of b, as long as so many squares,", name, panel.squares*k.lanes),
				"which lie bytes apart, as rows of a and y do. Chains begin with y if there are more,",
				"else with 0, and end with bias, if there is one.", ahead)
			k.multiplyRows(panel.counts[k.isa.masks], k.turnedChains(panel.squares))
		})
	}
}

// turned multiplies some rows of a with squares of b side by side.
type turned struct {
	*kernel
	rows, columns rows
	squares       int
	sums          []value // for each row and square
	seen          *leastSeen

	next, back operand.Mem // bytes from a square to the one beside it, and from the last to the next below the first

	ahead           reg.GPVirtual
	left, all, jump operand.Mem // of what is asked for in a column: what is left, all, and bytes from there to the next
}

// turnedChains returns what multiplies some rows of a with so many squares side by side.
func (k *kernel) turnedChains(squares int) func(count int, a, row, y reg.GPVirtual) {
	return func(count int, a, row, y reg.GPVirtual) {
		c := k.c
		t := &turned{kernel: k, squares: squares, sums: k.newSums(count, squares)}
		k.beginChains(t.sums, y)
		t.rows, t.columns = k.rowsFrom(a, row, count), k.rowsFrom(param(c, "b"), param(c, "bColumn"), k.lanes)
		left := param(c, "squares")
		if squares > 1 {
			t.sideBySide()
		} else {
			t.askAhead(left)
		}
		if k.dots {
			t.seen = newLeastSeen(c)
		}
		loop, end := k.newLabel("square"), k.newLabel("end")
		while(c, left, 1, loop, end, func() {
			for j := range squares {
				t.square(j)
			}
			t.rows.moveOn(c, operand.U32(k.lanes*k.compute.size))
		})
		if k.dots {
			at := operand.Mem{Base: param(c, "least")}
			c.VPMINUW(at, t.seen.least, t.seen.least)
			c.VMOVDQU32(t.seen.least, at)
		}
		k.endChains(t.sums, y)
	}
}

// bytes are those of a column of a square.
func (t *turned) bytes() int { return t.lanes * t.out.size }

// sideBySide finds out how to move from square to square.
func (t *turned) sideBySide() {
	c, by := t.c, t.c.GP64()
	t.next, t.back = c.AllocLocal(8), c.AllocLocal(8)
	c.IMUL3Q(operand.U32(t.lanes), t.columns.step, by)
	c.MOVQ(by, t.next)
	c.IMUL3Q(operand.I32(1-t.squares), by, by)
	c.ADDQ(operand.U32(t.bytes()), by)
	c.MOVQ(by, t.back)
}

// askAhead finds out how to ask for columns ahead, one after the other: each square
// asks for as many lines as it has. Where columns are shorter than that, those
// that follow one another are asked for.
func (t *turned) askAhead(squares reg.GPVirtual) {
	c, by, long := t.c, t.c.GP64(), t.newLabel("long")
	t.left, t.all, t.jump = c.AllocLocal(8), c.AllocLocal(8), c.AllocLocal(8)
	c.MOVQ(squares, by)
	c.SHRQ(operand.Imm(uint64(bits.TrailingZeros(uint(t.lanes)))), by)
	c.MOVQ(by, t.all)
	c.MOVQ(by, t.left)
	c.IMUL3Q(operand.I32(-t.lanes*t.bytes()), by, by)
	c.ADDQ(t.columns.step, by)
	c.MOVQ(by, t.jump)
	branch(c.CMPQ, t.all, operand.Imm(0), c.JNE, long)
	c.MOVQ(operand.U32(1), t.all)
	c.MOVQ(operand.U32(1), t.left)
	c.MOVQ(operand.U32(0), t.jump)
	c.Label(long)
	t.ahead = param(c, "ahead")
}

// ask asks for what lies ahead as columns from the first one on do here.
func (t *turned) ask(first int) {
	c, near := t.c, t.newLabel("near")
	branch(c.TESTQ, t.ahead, t.ahead, c.JEQ, near)
	for at := first * t.bytes(); at < (first+matmulTurnedEarly)*t.bytes(); at += 64 {
		c.PREFETCHT1(operand.Mem{Base: t.ahead, Disp: at})
	}
	c.Label(near)
}

// asked moves on by what a square asked for.
func (t *turned) asked() {
	c, same := t.c, t.newLabel("same")
	branch(c.TESTQ, t.ahead, t.ahead, c.JEQ, same)
	c.ADDQ(operand.U32(t.lanes*t.bytes()), t.ahead)
	c.DECQ(t.left)
	c.JNE(operand.LabelRef(same))
	c.ADDQ(t.jump, t.ahead)
	all := c.XMM() // no other register is free
	c.VMOVQ(t.all, all)
	c.VMOVQ(all, t.left)
	c.Label(same)
}

// square multiplies rows with a square, for sum j of each, and moves on.
func (t *turned) square(j int) {
	c, square := t.c, make(value, t.lanes)
	for i := range square {
		if t.squares == 1 && i%matmulTurnedEarly == 0 {
			t.ask(i)
		}
		square[i] = t.out.load(t.kernel, memory{t.columns.at(i)})
		if t.dots {
			t.pair(square[i], t.seen)
		}
	}
	for step, v := range t.transpose(square) {
		for i, sums := range t.sums {
			at := t.rows.at(i)
			at.Disp = step * t.compute.size
			t.multiplyAll(value{v}, at, sums[j:j+1])
		}
	}
	switch {
	case t.squares == 1:
		t.asked()
		t.columns.moveOn(c, operand.U32(t.bytes()))
	case j < t.squares-1:
		t.columns.moveOn(c, t.next)
	default:
		t.columns.moveOn(c, t.back)
	}
}
