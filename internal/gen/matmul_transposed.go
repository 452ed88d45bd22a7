package main

import (
	"fmt"
	"math/bits"

	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// matmulTransposedCounts are how many rows of a are multiplied at a time with squares of b side by side. Few rows
// have several: the chains of one square would leave the processor waiting for each sum.
var matmulTransposedCounts = map[int][]int{1: {8, 4, 3, 2, 1}, 2: {4, 3, 2, 1}, 4: {2, 1}}

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

// matmulTransposedEarly is the number of columns for which lines ahead are asked for at once.
const matmulTransposedEarly = 4

// matmulTransposedFar is up to how many rows squares side by side are taken from memory, too: then two at a time below
// each other, of short rows, so that a line is not gone before all of it was read.
const matmulTransposedFar = 2

// matmulTransposedMost is how many registers of 16 sums and a square may take; others transpose it.
const matmulTransposedMost = 12

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
			k.multiplyRows(matmulTransposedCounts[squares], k.transposedChains(squares))
		})
	}
}

// transposed multiplies some rows of a with squares of b side by side.
type transposed struct {
	*kernel
	rows, columns rows
	squares       int
	sums          []value // for each row and square
	seen          *leastSeen

	next, back operand.Mem // bytes from a square to the one beside it, and from the last to the next below the first

	ahead           reg.GPVirtual
	left, all, jump operand.Mem // of what is asked for in a column: what is left, all, and bytes from there to the next
}

// transposedChains returns what multiplies some rows of a with so many squares side by side.
func (k *kernel) transposedChains(squares int) func(count int, a, row, y reg.GPVirtual) {
	return func(count int, a, row, y reg.GPVirtual) {
		c := k.c
		t := &transposed{kernel: k, squares: squares, sums: k.newSums(count, squares)}
		k.beginChains(t.sums, y)
		t.rows, t.columns = k.rowsFrom(a, row, count), k.rowsFrom(param(c, "b"), param(c, "bColumn"), k.lanes)
		left, deep := param(c, "squares"), 1
		if !k.isa.masks && squares > 1 && count <= matmulTransposedFar {
			deep = 2
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
			at := operand.Mem{Base: param(c, "least")}
			c.VPMINUW(at, t.seen.least, t.seen.least)
			c.VMOVDQU32(t.seen.least, at)
		}
		k.endChains(t.sums, y)
	}
}

// each multiplies rows with squares, so many below each other at a time, as long as any are left.
func (t *transposed) each(left reg.GPVirtual, deep int) {
	c, loop, end := t.c, t.newLabel("square"), t.newLabel("end")
	while(c, left, deep, loop, end, func() {
		for j := range t.squares {
			for i := range deep {
				t.square(j, i)
			}
			t.moveOn(j, deep)
		}
		t.rows.moveOn(c, operand.U32(deep*t.lanes*t.compute.size))
	})
}

// bytes are those of a column of a square.
func (t *transposed) bytes() int { return t.lanes * t.out.size }

// sideBySide finds out how to move from square to square, and so many below each.
func (t *transposed) sideBySide(deep int) {
	c, by := t.c, t.c.GP64()
	t.next, t.back = c.AllocLocal(8), c.AllocLocal(8)
	c.IMUL3Q(operand.U32(t.lanes), t.columns.step, by)
	c.MOVQ(by, t.next)
	c.IMUL3Q(operand.I32(1-t.squares), by, by)
	c.ADDQ(operand.U32(deep*t.bytes()), by)
	c.MOVQ(by, t.back)
}

// askAhead finds out how to ask for columns ahead, one after the other: each square
// asks for as many lines as it has. Where columns are shorter than that, those
// that follow one another are asked for.
func (t *transposed) askAhead(squares reg.GPVirtual) {
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
func (t *transposed) ask(first int) {
	c, near := t.c, t.newLabel("near")
	branch(c.TESTQ, t.ahead, t.ahead, c.JEQ, near)
	for at := first * t.bytes(); at < (first+matmulTransposedEarly)*t.bytes(); at += 64 {
		c.PREFETCHT1(operand.Mem{Base: t.ahead, Disp: at})
	}
	c.Label(near)
}

// asked moves on by what a square asked for.
func (t *transposed) asked() {
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

// square multiplies rows with a square, for sum j of each: the first that lies side by side with
// others, or below that.
func (t *transposed) square(j, below int) {
	most := t.atOnce()
	for from := below * t.lanes; from < (below+1)*t.lanes; from += most {
		for step, v := range t.transposedRows(from, most) {
			for i, sums := range t.sums {
				at := t.rows.at(i)
				at.Disp = (from + step) * t.compute.size
				t.multiplyAll(value{v}, at, sums[j:j+1])
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
	case j < t.squares-1:
		t.columns.moveOn(t.c, t.next)
	default:
		t.columns.moveOn(t.c, t.back)
	}
}

// atOnce is how many elements of a column are transposed at a time: without masks there are
// registers for a square only beside few sums.
func (t *transposed) atOnce() int {
	if t.isa.masks || len(t.sums)*t.squares+t.lanes <= matmulTransposedMost {
		return t.lanes
	}
	return t.lanes / 2
}

// transposedRows returns the rows of a square, so many from one on.
func (t *transposed) transposedRows(from, count int) value {
	v := make(value, count)
	for i := range v {
		if t.squares == 1 && (from+i)%matmulTransposedEarly == 0 {
			t.ask(from + i)
		}
		at := t.columns.at(i)
		at.Disp = from * t.out.size
		if count < t.lanes {
			beside := t.columns.at(i + count)
			beside.Disp = at.Disp
			v[i] = t.halves(at, beside)
			continue
		}
		v[i] = t.out.load(t.kernel, memory{at})
		if t.dots {
			t.pair(v[i], t.seen)
		}
	}
	if count < t.lanes {
		return t.transposeQuarters(v)
	}
	return t.transpose(v)
}

// halves loads elements for half a register from each of two places.
func (t *transposed) halves(low, high operand.Mem) reg.VecVirtual {
	c, v := t.c, t.vector()
	if t.out.size == t.compute.size {
		c.VMOVUPS(low, v.AsX())
		c.VINSERTF128(operand.Imm(1), high, v, v)
		return v
	}
	c.VMOVQ(low, v.AsX())
	c.VMOVHPS(high, v.AsX(), v.AsX())
	if t.out == f16 {
		c.VCVTPH2PS(v.AsX(), v)
		return v
	}
	c.VPMOVZXWD(v.AsX(), v)
	c.VPSLLD(operand.Imm(16), v, v)
	return v
}
