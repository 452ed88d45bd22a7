package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// matmulTransposedCounts are how many rows of a are multiplied at a time with squares of b side by side. Few rows
// have several: the chains of one square would leave the processor waiting for each sum.
var matmulTransposedCounts = map[int][]int{1: {8, 4, 3, 2, 1}, 2: {4, 3, 2, 1}, 4: {2, 1}}

// matmulExactly is how many rows are multiplied at a time only where these are all: more are better taken by twelve and
// eight, beside which more of a square is transposed at a time.
const matmulExactly = 16

// transposedCounts are those of a kernel.
func (k *kernel) transposedCounts(squares int) []int {
	counts := matmulTransposedCounts[squares]
	if k.isa.masks && squares == 1 {
		return append([]int{matmulExactly, 12}, counts...)
	}
	return counts
}

// transposedPanels are the kernels, and transposedSquares the squares that each takes.
var transposedPanels = []string{"matmulTransposed", "matmulTransposedWide"}

func (k *kernel) transposedSquares(panel int) int {
	switch {
	case panel == 0:
		return 1
	case k.isa.masks:
		return 2
	}
	return 16 / k.lanes // more columns push each other out of the nearest cache where they are a large power of 2 long
}

// matmulTransposedFar is up to how many rows squares side by side are taken from memory, too: with AVX2 two at a time
// below each other, of bf16 four, which any number of rows has, so that a line is not gone before all of it was read.
const matmulTransposedFar = 2

// The second half of the squares side by side follows the first one by some, for so few rows, where columns may push each
// other out of the nearest cache: lines that lie a large power of 2 apart would do so before they are read.
const (
	matmulTransposedLag   = 3       // squares, with masks, and
	matmulTransposedLong  = 1 << 15 // the least bytes of a square's columns
	matmulTransposedLines = 8       // of a column, without, where columns lie
	matmulTransposedApart = 1 << 12 // multiples of so many bytes apart: with others waiting takes longer
)

// matmulsTransposed are the kernels of products of few rows of a with columns of b
// whose elements lie along k: squares of b are transposed in registers.
func matmulsTransposed(c *build.Context) {
	for panel, name := range transposedPanels {
		eachMatmul(c, name, func(k *kernel, name string) {
			squares := k.transposedSquares(panel)
			ahead := "From ahead on, if it is not nil, memory is asked for: as much of as many columns."
			if squares > 1 {
				ahead = "ahead is not used."
			}
			beginFunction(c, name, "func(a *byte, aRow int, rows int, b *byte, bColumn int, squares int, bias *byte, y *byte, yRow int, more int, ahead *byte)",
				fmt.Sprintf("%s multiplies rows of a with %d columns of b, as long as so many squares,", name, squares*k.lanes),
				"which lie bytes apart, as rows of a and y do. Chains begin with y if there are more,",
				"else with 0, and end with bias, if there is one.", ahead)
			k.multiplyRows(k.transposedCounts(squares), k.transposedChains(squares))
		})
	}
}

// transposed multiplies some rows of a with squares of b side by side.
type transposed struct {
	*kernel
	rows, columns rows
	behind        rows // those of a where the second half of the squares is
	squares       int
	sums          []value // for each row and square
	seen          *leastSeen
	upper         reg.VecVirtual // the upper halves of words

	next, back operand.Mem // bytes from a square to the one beside it, and from the last to the next below the first
	lags       bool        // the second half of the squares may be some below the first,
	lag, over  operand.Mem // so many, and bytes from the first half to it

	ahead           reg.GPVirtual
	left, all, jump operand.Mem // of what is asked for in a column: what is left, all, and bytes from there to the next
}

// transposedChains returns what multiplies some rows of a with so many squares side by side.
func (k *kernel) transposedChains(squares int) func(count int, a, row, y reg.GPVirtual) {
	return func(count int, a, row, y reg.GPVirtual) {
		c := k.c
		t := &transposed{kernel: k, squares: squares, sums: k.newSums(count, squares)}
		k.beginChains(t.sums, y)
		c.MOVQ(y, place(c, "y")) // many rows need all registers
		left, deep := param(c, "squares"), 1
		switch {
		case k.isa.masks || squares == 1:
		case t.words():
			deep = 64 / t.bytes() // a line
		case count <= matmulTransposedFar:
			deep = 2
		}
		if t.lags = squares > 1 && count <= matmulTransposedFar; t.lags {
			t.fallBehind(left, a, row, deep)
		}
		c.MOVQ(a, place(c, "a"))
		t.rows, t.columns = k.rowsFrom(a, row, count), k.rowsFrom(param(c, "b"), param(c, "bColumn"), k.lanes)
		if t.words() {
			t.upper = k.vector()
			c.VPCMPEQD(t.upper, t.upper, t.upper)
			c.VPSLLD(operand.Imm(16), t.upper, t.upper)
		}
		if squares > 1 {
			t.sideBySide(deep)
		} else {
			t.askAhead(left)
		}
		if k.dots {
			t.seen = newLeastSeen(c)
		}
		if deep > 1 {
			c.SUBQ(operand.U32(deep-1), left) // so that it ends before fewer than deep
			t.each(left, deep)
			c.ADDQ(operand.U32(deep-1), left)
			c.SUBQ(operand.U32((deep-1)*t.bytes()), t.back)
		}
		t.each(left, 1)
		if k.dots {
			at, least := operand.Mem{Base: param(c, "least")}, t.seen.least()
			c.VPMINUW(at, least, least)
			c.VMOVDQU32(least, at)
		}
		c.MOVQ(place(c, "a"), a)
		c.MOVQ(place(c, "y"), y)
		k.endChains(t.sums, y)
	}
}

// each multiplies rows with squares, so many below each other at a time, as long as any are left.
func (t *transposed) each(left reg.GPVirtual, deep int) {
	c, loop, end := t.c, t.newLabel("square"), t.newLabel("end")
	while(c, left, deep, loop, end, func() {
		for j := range t.squares {
			t.inTurn(j, left, func() {
				for i := range deep {
					t.square(j, i)
				}
			})
			t.moveOn(j, deep)
		}
		for _, rows := range []rows{t.rows, t.behind} {
			rows.moveOn(c, operand.U32(deep*t.lanes*t.compute.size))
		}
	})
}

// fallBehind finds out by how much the second half of the squares is behind the first, which takes as many turns more.
// Without masks these are turns of so many below each other, which leave none.
func (t *transposed) fallBehind(left, a, row reg.GPVirtual, deep int) {
	c, short, lag, squares := t.c, t.newLabel("short"), t.c.GP64(), matmulTransposedLag
	t.lag = c.AllocLocal(8)
	c.XORQ(lag, lag)
	if t.isa.masks {
		branch(c.CMPQ, left, operand.U32(matmulTransposedLong/(t.lanes*t.bytes())), c.JLT, short)
	} else {
		squares = matmulTransposedLines * 64 / t.bytes()
		branch(c.TESTQ, operand.U32(matmulTransposedApart-1), param(c, "bColumn"), c.JNE, short)
		branch(c.TESTQ, operand.U32(deep-1), left, c.JNE, short)
		branch(c.CMPQ, left, operand.U32(2*squares), c.JLT, short)
	}
	c.MOVQ(operand.U32(squares), lag)
	c.Label(short)
	c.MOVQ(lag, t.lag)
	c.ADDQ(lag, left)
	c.IMUL3Q(operand.I32(-t.lanes*t.compute.size), lag, lag)
	c.ADDQ(a, lag)
	t.behind = t.rowsFrom(lag, row, len(t.sums))
}

// inTurn emits what multiplies with square j, unless it is of the first half and there are no more of those, or of the
// second and not its turn yet.
func (t *transposed) inTurn(j int, left reg.GPVirtual, multiply func()) {
	if !t.lags {
		multiply()
		return
	}
	pass := t.newLabel("pass")
	if !t.second(j) {
		branch(t.c.CMPQ, left, t.lag, t.c.JLE, pass)
	} else {
		branch(t.c.CMPQ, left, place(t.c, "squares"), t.c.JGT, pass)
	}
	multiply()
	t.c.Label(pass)
}

// second reports whether square j is of the second half.
func (t *transposed) second(j int) bool { return j >= t.squares/2 }

// bytes are those of a column of a square.
func (t *transposed) bytes() int { return t.lanes * t.out.size }

// sideBySide finds out how to move from square to square, and so many below each.
func (t *transposed) sideBySide(deep int) {
	c, by := t.c, t.c.GP64()
	t.next, t.back = c.AllocLocal(8), c.AllocLocal(8)
	c.IMUL3Q(operand.U32(t.lanes), t.columns.step, by)
	if t.over = t.next; t.lags {
		behind := c.GP64()
		c.IMUL3Q(operand.U32(t.bytes()), t.lag, behind)
		if t.squares > 2 {
			t.over = c.AllocLocal(8)
			c.MOVQ(by, t.next)
		}
		c.SUBQ(behind, by)
	}
	c.MOVQ(by, t.over)
	c.IMUL3Q(operand.I32(-1), by, by)
	for range t.squares - 2 {
		c.SUBQ(t.next, by)
	}
	c.ADDQ(operand.U32(deep*t.bytes()), by)
	c.MOVQ(by, t.back)
}

// square multiplies rows with a square, for sum j of each: the first that lies side by side with
// others, or below that.
func (t *transposed) square(j, below int) {
	most := t.atOnce()
	for from := below * t.lanes; from < (below+1)*t.lanes; from += most {
		rows := t.transposedRows(from, most)
		for step := range most {
			v := t.row(rows, step)
			for i, sums := range t.sums {
				at := either(t.lags && t.second(j), t.behind, t.rows).at(i)
				at.Disp = (from + step) * t.compute.size
				t.multiplyAll(v, at, sums[j:j+1])
			}
		}
	}
}

// moveOn moves on from square j, and so many below it, to the next.
func (t *transposed) moveOn(j, deep int) {
	switch {
	case t.squares == 1:
		t.asked()
		t.columns.moveOn(t.c, operand.U32(deep*t.bytes()))
	case j == t.squares/2-1:
		t.columns.moveOn(t.c, t.over)
	case j < t.squares-1:
		t.columns.moveOn(t.c, t.next)
	default:
		t.columns.moveOn(t.c, t.back)
	}
}
