package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// rowsAhead is how many rows early memory is asked for, as a power of 2: each is
// a line of its own.
const rowsAhead = 5

// transposes emits transpositions of matrices, by the size of elements.
func transposes(c *build.Context) {
	for _, size := range []int{1, 2, 4, 8} {
		(&transposition{c, size, min(8, 16/size)}).function()
	}
}

// transposition is the kernel under construction: squares whose rows fill a
// register of 16 bytes, or half of one.
type transposition struct {
	c          *build.Context
	size, side int
}

func (t *transposition) function() {
	c, name := t.c, fmt.Sprintf("transpose%dAVX2", 8*t.size)
	beginFunction(c, name, "func(to *byte, toStep int, from *byte, fromStep int, rows int, columns int)",
		fmt.Sprintf("%s makes rows columns: element (r, c), of %d bits, goes from c elements after r*fromStep bytes", name, 8*t.size),
		fmt.Sprintf("to r elements after c*toStep bytes. There are multiples of %d rows and columns.", t.side))
	to, toStep, from, fromStep := param(c, "to"), param(c, "toStep"), param(c, "from"), param(c, "fromStep")
	rows, columns := param(c, "rows"), param(c, "columns")
	source, target, left, ahead := c.GP64(), c.GP64(), c.GP64(), c.GP64()
	c.MOVQ(fromStep, ahead)
	c.SHLQ(operand.Imm(rowsAhead), ahead)
	while(c, rows, t.side, "rows", "done", func() {
		c.MOVQ(from, source)
		for range t.side {
			c.PREFETCHT0(operand.Mem{Base: source, Index: ahead, Scale: 1})
			c.ADDQ(fromStep, source)
		}
		c.MOVQ(from, source)
		c.MOVQ(to, target)
		c.MOVQ(columns, left)
		while(c, left, t.side, "columns", "next", func() {
			at := c.GP64()
			c.MOVQ(source, at)
			v := t.load(at, fromStep)
			for zips := len(v); zips > 1; zips /= 2 {
				v = t.zip(v)
			}
			t.store(v, target, toStep)
			c.ADDQ(operand.Imm(uint64(t.side*t.size)), source)
		})
		for range t.side {
			c.ADDQ(fromStep, from)
		}
		c.ADDQ(operand.Imm(uint64(t.side*t.size)), to)
	})
	c.VZEROUPPER()
	c.RET()
}

// load loads the rows of a square. Half registers are zipped at once: the first
// with the one in the middle, and so on.
func (t *transposition) load(at, step reg.GPVirtual) []reg.VecVirtual {
	c, v := t.c, make([]reg.VecVirtual, t.side)
	for i := range v {
		v[i] = c.XMM()
		if t.size == 1 {
			c.VMOVQ(operand.Mem{Base: at}, v[i])
		} else {
			c.VMOVDQU(operand.Mem{Base: at}, v[i])
		}
		c.ADDQ(step, at)
	}
	if t.size > 1 {
		return v
	}
	for i := range t.side / 2 {
		c.VPUNPCKLBW(v[i+t.side/2], v[i], v[i])
	}
	return v[:t.side/2]
}

// zip is the step that transposes when it is repeated: elements of the first
// register and of the one in the middle in turns, and so on.
func (t *transposition) zip(v []reg.VecVirtual) (zipped []reg.VecVirtual) {
	c := t.c
	low := map[int]func(...operand.Op){1: c.VPUNPCKLBW, 2: c.VPUNPCKLWD, 4: c.VPUNPCKLDQ, 8: c.VPUNPCKLQDQ}[t.size]
	high := map[int]func(...operand.Op){1: c.VPUNPCKHBW, 2: c.VPUNPCKHWD, 4: c.VPUNPCKHDQ, 8: c.VPUNPCKHQDQ}[t.size]
	for i := range len(v) / 2 {
		first, second := v[i], v[i+len(v)/2]
		lower := c.XMM()
		low(second, first, lower)
		high(second, first, first)
		zipped = append(zipped, lower, first)
	}
	return zipped
}

// store stores the rows of the transposed square.
func (t *transposition) store(v []reg.VecVirtual, to, step reg.GPVirtual) {
	for _, r := range v {
		if t.size > 1 {
			t.c.VMOVDQU(r, operand.Mem{Base: to})
		} else {
			t.c.VMOVQ(r, operand.Mem{Base: to})
			t.c.ADDQ(step, to)
			t.c.VPEXTRQ(operand.Imm(1), r, operand.Mem{Base: to})
		}
		t.c.ADDQ(step, to)
	}
}
