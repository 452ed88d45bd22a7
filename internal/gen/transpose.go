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

// transposes emits transpositions of matrices of elements of a size.
func transposes(c *build.Context, size int) {
	t := &transposition{c, size, min(8, 16/size)}
	t.function()
	if size < 8 {
		t.fewRows()
		t.fewColumns()
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
			t.store(t.zipAll(t.load(at, fromStep)), target, toStep)
			c.ADDQ(operand.Imm(uint64(t.side*t.size)), source)
		})
		for range t.side {
			c.ADDQ(fromStep, from)
		}
		c.ADDQ(operand.Imm(uint64(t.side*t.size)), to)
	})
	endFunction(c)
}

// fewRows emits a kernel of fewer rows than a square has. Missing ones are the last one again, and
// what is stored of them is overwritten by the columns that follow.
func (t *transposition) fewRows() {
	c, name := t.c, fmt.Sprintf("transposeFewRows%dAVX2", 8*t.size)
	beginFunction(c, name, "func(to *byte, toStep int, from *byte, fromStep int, rows int, columns int)",
		fmt.Sprintf("%s takes 1 to %d rows and a multiple of %d columns. The last columns reach", name, t.side-1, t.side),
		fmt.Sprintf("as far as with %d rows.", t.side))
	to, toStep, columns, at := param(c, "to"), param(c, "toStep"), param(c, "columns"), c.GP64()
	rows := t.clamped("from", "fromStep", "rows")
	c.XORQ(at, at)
	while(c, columns, t.side, "columns", "done", func() {
		v := t.loadFrom(func(i int) operand.Mem { return operand.Mem{Base: rows[i], Index: at, Scale: 1} })
		t.store(t.zipAll(v), to, toStep)
		c.ADDQ(operand.Imm(uint64(t.side*t.size)), at)
	})
	endFunction(c)
}

// fewColumns emits a kernel of fewer columns than a square has. What is stored of the missing ones, in
// the place of the last one, is overwritten by that.
func (t *transposition) fewColumns() {
	c, name := t.c, fmt.Sprintf("transposeFewColumns%dAVX2", 8*t.size)
	beginFunction(c, name, "func(to *byte, toStep int, from *byte, fromStep int, rows int, columns int)",
		fmt.Sprintf("%s takes 1 to %d columns and a multiple of %d rows, of which it reads %d columns.", name, t.side-1, t.side, t.side))
	from, fromStep, rows, at := param(c, "from"), param(c, "fromStep"), param(c, "rows"), c.GP64()
	columns := t.clamped("to", "toStep", "columns")
	c.XORQ(at, at)
	while(c, rows, t.side, "rows", "done", func() {
		v := t.zipAll(t.load(from, fromStep))
		c.ADDQ(fromStep, from)
		for i := t.side - 1; i >= 0; i-- {
			switch to := (operand.Mem{Base: columns[i], Index: at, Scale: 1}); {
			case t.size > 1:
				c.VMOVDQU(v[i], to)
			case i%2 == 1:
				c.VPEXTRQ(operand.Imm(1), v[i/2], to)
			default:
				c.VMOVQ(v[i/2], to)
			}
		}
		c.ADDQ(operand.Imm(uint64(t.side*t.size)), at)
	})
	endFunction(c)
}

// clamped returns where the rows of a matrix begin, of which there are n; further ones are the last.
func (t *transposition) clamped(start, step, n string) (rows []reg.GPVirtual) {
	c, by, count := t.c, param(t.c, step), param(t.c, n)
	rows = append(rows, param(c, start))
	next := c.GP64()
	for i := 1; i < t.side; i++ {
		row := c.GP64()
		c.MOVQ(rows[i-1], row)
		c.LEAQ(operand.Mem{Base: row, Index: by, Scale: 1}, next)
		c.CMPQ(count, operand.Imm(uint64(i)))
		c.CMOVQGT(next, row)
		rows = append(rows, row)
	}
	return rows
}

// load loads the rows of a square, and moves on to the last one.
func (t *transposition) load(at, step reg.GPVirtual) []reg.VecVirtual {
	return t.loadFrom(func(i int) operand.Mem {
		if i > 0 {
			t.c.ADDQ(step, at)
		}
		return operand.Mem{Base: at}
	})
}

// loadFrom loads rows from where each lies. Half registers are zipped at once: the first
// with the one in the middle, and so on.
func (t *transposition) loadFrom(place func(i int) operand.Mem) []reg.VecVirtual {
	c, v := t.c, make([]reg.VecVirtual, t.side)
	for i := range v {
		v[i] = c.XMM()
		if from := place(i); t.size == 1 {
			c.VMOVQ(from, v[i])
		} else {
			c.VMOVDQU(from, v[i])
		}
	}
	if t.size > 1 {
		return v
	}
	for i := range t.side / 2 {
		c.VPUNPCKLBW(v[i+t.side/2], v[i], v[i])
	}
	return v[:t.side/2]
}

// zipAll transposes a square.
func (t *transposition) zipAll(v []reg.VecVirtual) []reg.VecVirtual {
	for zips := len(v); zips > 1; zips /= 2 {
		v = t.zip(v)
	}
	return v
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
