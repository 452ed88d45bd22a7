package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// narrowEarly is how many narrow rows ahead memory is asked for.
const narrowEarly = 16

// narrowCopies emits the copies of rows of up to 64 bytes: each is a load and a
// store of its first bytes and one of its last, some of which may be the same.
func narrowCopies(c *build.Context) {
	beginFunction(c, "copyNarrowRowsAVX2", "func(to *byte, apart int, from *byte, stride int, rows *int64, count, size int)",
		"copyNarrowRowsAVX2 is copyRowsAVX2 for rows of 2 to 64 bytes, an even number.")
	n := narrowCopy{c: c, to: param(c, "to"), apart: param(c, "apart"), from: param(c, "from"), stride: param(c, "stride"),
		at: param(c, "rows"), end: param(c, "count"), last: param(c, "size"), row: c.GP64(), later: c.GP64(), stop: c.GP64()}
	c.LEAQ(operand.Mem{Base: n.at, Index: n.end, Scale: 8}, n.end)
	c.LEAQ(operand.Mem{Base: n.end, Disp: -8 * narrowEarly}, n.stop)
	x, y, g := func() reg.Register { return c.XMM() }, func() reg.Register { return c.YMM() }, func() reg.Register { return c.GP64() }
	for _, part := range []struct {
		bytes    int
		register func() reg.Register
		move     func(from, to operand.Op)
	}{
		{32, y, c.VMOVDQU},
		{16, x, c.VMOVDQU},
		{8, g, c.MOVQ},
		{4, func() reg.Register { return c.GP32() }, c.MOVL},
		{2, func() reg.Register { return c.GP16() }, c.MOVW},
	} {
		narrower := fmt.Sprintf("narrower%d", part.bytes)
		branch(c.CMPQ, n.last, operand.Imm(uint64(part.bytes)), c.JLT, narrower)
		c.SUBQ(operand.Imm(uint64(part.bytes)), n.last)
		first, last := part.register(), part.register()
		copyRow := func() {
			part.move(operand.Mem{Base: n.row}, first)
			part.move(operand.Mem{Base: n.row, Index: n.last, Scale: 1}, last)
			part.move(first, operand.Mem{Base: n.to})
			part.move(last, operand.Mem{Base: n.to, Index: n.last, Scale: 1})
		}
		n.loop(fmt.Sprintf("early%d", part.bytes), n.stop, true, copyRow)
		n.loop(fmt.Sprintf("late%d", part.bytes), n.end, false, copyRow)
		endFunction(c)
		c.Label(narrower)
	}
	c.RET()
}

// narrowCopy are the registers of such a copy: places in the list of rows are
// addresses, last is how far a row's last bytes lie from its first.
type narrowCopy struct {
	c                                                        *build.Context
	to, apart, from, stride, at, end, last, row, later, stop reg.GPVirtual
}

// loop copies rows up to a place in their list; asks says that those behind it
// are known, of which it asks for one in time.
func (n narrowCopy) loop(name string, until reg.GPVirtual, asks bool, copyRow func()) {
	c := n.c
	branch(c.CMPQ, n.at, until, c.JGE, name+"_done")
	c.Label(name)
	c.MOVQ(operand.Mem{Base: n.at}, n.row)
	c.IMULQ(n.stride, n.row)
	c.ADDQ(n.from, n.row)
	if asks {
		c.MOVQ(operand.Mem{Base: n.at, Disp: 8 * narrowEarly}, n.later)
		c.IMULQ(n.stride, n.later)
		c.PREFETCHT0(operand.Mem{Base: n.from, Index: n.later, Scale: 1})
	}
	copyRow()
	c.ADDQ(n.apart, n.to)
	c.ADDQ(operand.Imm(8), n.at)
	branch(c.CMPQ, n.at, until, c.JLT, name)
	c.Label(name + "_done")
}
