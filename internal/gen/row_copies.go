package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// rowCopies emits the copies of rows of more than 64 bytes; with AVX-512, of whole lines.
func rowCopies(c *build.Context) {
	for _, isa := range isas {
		rowCopyOf(c, isa)
	}
}

func rowCopyOf(c *build.Context, isa *isa) {
	name, size := "copyRows"+isa.name, either(isa.masks, "whole lines of", "32 at least")
	beginFunction(c, name, "func(to *byte, apart int, from *byte, stride int, rows *int64, count, size, early int, stream bool)",
		name+" copies count rows of size bytes, "+size+": row i, apart bytes after the one before it, is row rows[i] of from,",
		"whose rows lie stride bytes apart; early says how many rows ahead memory is asked for, if at all. stream asks for stores",
		"around the caches, of rows of whole lines: stores of both kinds to one line wait for each other.")
	r := rowCopy{c, isa, c.GP64(), c.GP64(), c.GP64(), c.GP64()}
	rows, count, to := param(c, "rows"), param(c, "count"), param(c, "to")
	number, stream := c.GP64(), c.GP8()
	c.Load(c.Param("stream"), stream)
	address := func(number, to reg.GPVirtual) {
		c.MOVQ(operand.Mem{Base: rows, Index: number, Scale: 8}, to)
		c.IMULQ(place(c, "stride"), to)
		c.ADDQ(place(c, "from"), to)
	}
	c.XORQ(number, number)
	c.Label("row")
	branch(c.CMPQ, number, count, c.JGE, "end")
	address(number, r.from)
	c.MOVQ(number, r.later)
	c.ADDQ(place(c, "early"), r.later)
	c.CMPQ(r.later, count)
	c.CMOVQGE(number, r.later)
	address(r.later, r.later)
	c.MOVQ(to, r.to)
	c.MOVQ(place(c, "size"), r.left)
	branch(c.TESTB, stream, stream, c.JEQ, "whole")
	r.around()
	c.Label("whole")
	branch(c.CMPQ, place(c, "early"), operand.Imm(0), c.JEQ, "near")
	r.all("later", true)
	c.JMP(operand.LabelRef("rest"))
	c.Label("near")
	r.all("here", false)
	c.Label("rest")
	if !isa.masks {
		r.last(isa.bytes)
	}
	c.Label("copied")
	c.ADDQ(place(c, "apart"), to)
	c.INCQ(number)
	c.JMP(operand.LabelRef("row"))
	c.Label("end")
	endFunction(c)
}

// rowCopy are the registers of a row's copy: left are its bytes not yet copied,
// later is a row that will be.
type rowCopy struct {
	c                     *build.Context
	isa                   *isa
	to, from, later, left reg.GPVirtual
}

// around copies a row of whole lines around the caches.
func (r rowCopy) around() {
	r.loop("around", 64, true, r.c.VMOVNTDQ)
	r.c.JMP(operand.LabelRef("copied"))
}

// all copies whole vectors, four at a time, then two, then one.
func (r rowCopy) all(name string, prefetch bool) {
	for vectors := 4; vectors > 0; vectors /= 2 {
		r.loop(fmt.Sprint(name, vectors), vectors*r.isa.bytes, prefetch, r.store)
	}
}

// loop copies as many bytes at a time while there are as many.
func (r rowCopy) loop(name string, bytes int, prefetch bool, store func(from, to operand.Op)) {
	c := r.c
	branch(c.CMPQ, r.left, operand.U32(bytes), c.JLT, name+"_done")
	c.Label(name)
	r.vectors(bytes, prefetch, store)
	r.advance(operand.U32(bytes))
	branch(c.CMPQ, r.left, operand.U32(bytes), c.JGE, name)
	c.Label(name + "_done")
}

// vectors copies bytes, and asks for those of a later row.
func (r rowCopy) vectors(bytes int, prefetch bool, store func(from, to operand.Op)) {
	for at := 0; at < bytes; at += r.isa.bytes {
		v := r.isa.vector(r.c)
		r.c.VMOVUPS(operand.Mem{Base: r.from, Disp: at}, v)
		store(v, operand.Mem{Base: r.to, Disp: at})
		if prefetch && at%64 == 0 {
			r.c.PREFETCHT0(operand.Mem{Base: r.later, Disp: at})
		}
	}
}

func (r rowCopy) store(from, to operand.Op) { r.c.VMOVUPS(from, to) }

func (r rowCopy) advance(bytes operand.Op) {
	for _, p := range []reg.GPVirtual{r.to, r.from, r.later} {
		r.c.ADDQ(bytes, p)
	}
	r.c.SUBQ(bytes, r.left)
}

// last copies what is left as the last bytes of the row, some a second time.
func (r rowCopy) last(bytes int) {
	c := r.c
	branch(c.TESTQ, r.left, r.left, c.JEQ, "copied")
	for _, p := range []reg.GPVirtual{r.to, r.from} {
		c.LEAQ(operand.Mem{Base: p, Index: r.left, Scale: 1, Disp: -bytes}, p)
	}
	r.vectors(bytes, false, r.store)
}
