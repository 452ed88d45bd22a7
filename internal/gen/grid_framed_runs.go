package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// framedRuns emits what adds to sums with a frame where pixels may have chunks. Positions in one cell that
// follow each other, as at a border or in a magnified image, are a run: its sums stay in registers, and its
// length is counted at once. One that would complete a chunk ends there.
func framedRuns(c *build.Context, channels int) {
	name := fmt.Sprintf("gridFramedRuns%d", channels)
	beginFunction(c, name, "func(cells *byte, n int, sums *float32, row int, dy *float32, dyStride int, count *uint8, chunks *byte, list *[2]int64, full int) int",
		fmt.Sprintf("%s adds dy times weight to every tap's pixel, for %d channels that lie side by side, in four", name, channels),
		"places if there are several; row is from one row's sums to the next one's, in pixels. Sums of 256",
		"contributions go to chunks, their places and numbers, from full on, to list; it returns how many",
		"there are then.")
	r := &framedRun{kernel: &kernel{c: c, isa: avx2, compute: f32, group: 1}, channels: channels, shift: 4}
	if channels == 1 {
		r.shift = 2
	}
	r.cells, r.dy = param(c, "cells"), rowsApart(c, param(c, "dy"), param(c, "dyStride"), channels)
	r.at, r.i, r.end, r.length = c.GP64(), c.GP64(), c.GP64(), c.GP64()
	for tap := range r.sums {
		r.sums[tap] = c.XMM()
	}
	place := func(i reg.GPVirtual) operand.Mem {
		return operand.Mem{Base: r.cells, Index: i, Scale: 4, Disp: planePair * planeBytes}
	}
	n := param(c, "n")
	c.XORQ(r.i, r.i)
	c.JMP(operand.LabelRef("more"))
	c.Label("position")
	c.MOVL(place(r.i), r.at.As32())
	branch(c.TESTL, r.at.As32(), r.at.As32(), c.JEQ, "next") // beside the band: long runs of positions are
	c.MOVQ(r.i, r.end)
	c.Label("length")
	c.INCQ(r.end)
	branch(c.CMPQ, r.end, n, c.JGE, "ended")
	branch(c.CMPL, place(r.end), r.at.As32(), c.JEQ, "length")
	c.Label("ended")
	c.MOVQ(r.end, r.length)
	c.SUBQ(r.i, r.length)
	branch(c.CMPQ, r.length, operand.U32(255), c.JGT, "long")
	c.Label("count")
	r.count()
	c.XORL(r.length.As32(), r.length.As32()) // of a chunk that completes
	c.Label("sums")
	r.add()
	branch(c.TESTL, r.length.As32(), r.length.As32(), c.JEQ, "more")
	r.putAway()
	c.JMP(operand.LabelRef("more"))
	c.Label("next")
	c.INCQ(r.i)
	c.Label("more")
	branch(c.CMPQ, r.i, n, c.JLT, "position")
	full := param(c, "full")
	c.Store(full, c.ReturnIndex(0))
	c.RET()

	c.Label("long") // of more than a count can take at once
	c.MOVQ(operand.U32(255), r.length)
	c.LEAQ(operand.Mem{Base: r.i, Disp: 255}, r.end)
	c.JMP(operand.LabelRef("count"))
}

// framedRun is framedRuns under construction.
type framedRun struct {
	*kernel
	channels, shift    int // bytes of a pixel's sums, as a power of 2
	cells              reg.GPVirtual
	dy                 []reg.GPVirtual
	at, i, end, length reg.GPVirtual // the run's place, its positions left
	sums               [4]reg.VecVirtual
}

// rows returns where the upper and the lower pair of something begins, of which a place has so many bytes.
func (r *framedRun) rows(start string, shift int) (taps [4]operand.Mem) {
	for row := range 2 {
		p := r.c.GP64()
		r.c.MOVQ(r.at, p)
		if row == 1 {
			r.c.ADDQ(place(r.c, "row"), p)
		}
		if shift > 0 {
			r.c.SHLQ(operand.Imm(uint64(shift)), p)
		}
		r.c.ADDQ(place(r.c, start), p)
		taps[2*row], taps[2*row+1] = operand.Mem{Base: p}, operand.Mem{Base: p, Disp: 1 << shift}
	}
	return taps
}

// count counts the run at its four pixels, as far as the first that completes a chunk.
func (r *framedRun) count() {
	c, counts := r.c, r.rows("count", 0)
	for tap, m := range counts {
		c.ADDB(r.length.As8(), m)
		c.JCS(operand.LabelRef(fmt.Sprintf("carry%d", tap)))
	}
	c.JMP(operand.LabelRef("counted"))
	for tap := 3; tap >= 0; tap-- {
		c.Label(fmt.Sprintf("carry%d", tap))
		c.SUBB(r.length.As8(), counts[tap])
	}
	most, other := c.GP64(), c.GP64()
	c.MOVBLZX(counts[0], most.As32())
	for _, m := range counts[1:] {
		c.MOVBLZX(m, other.As32())
		c.CMPL(other.As32(), most.As32())
		c.CMOVLGT(other.As32(), most.As32())
	}
	c.MOVL(operand.U32(256), r.length.As32())
	c.SUBQ(most, r.length)
	c.LEAQ(operand.Mem{Base: r.i, Index: r.length, Scale: 1}, r.end)
	for _, m := range counts {
		c.ADDB(r.length.As8(), m)
	}
	c.JMP(operand.LabelRef("sums"))
	c.Label("counted")
}

// add adds the run.
func (r *framedRun) add() {
	c, g, term := r.c, r.c.XMM(), r.c.XMM()
	move, multiply, plus := "VMOVUPS", "VMULPS", "VADDPS"
	if r.channels == 1 {
		move, multiply, plus = "VMOVSS", "VMULSS", "VADDSS"
	}
	places := r.rows("sums", r.shift)
	for tap, m := range places {
		r.emit(move, m, r.sums[tap])
	}
	c.Label("run")
	r.gradients(r.dy, r.i, g)
	for tap, sum := range r.sums {
		w := operand.Mem{Base: r.cells, Index: r.i, Scale: 4, Disp: (planeWeight + tap) * planeBytes}
		if r.channels == 1 {
			r.emit(multiply, w, g, term)
		} else {
			c.VBROADCASTSS(w, term)
			r.emit(multiply, term, g, term)
		}
		r.emit(plus, sum, term, sum)
	}
	c.INCQ(r.i)
	branch(c.CMPQ, r.i, r.end, c.JLT, "run")
	for tap, m := range places {
		r.emit(move, r.sums[tap], m)
	}
}

// putAway moves the sums of pixels whose chunk is complete to the list.
func (r *framedRun) putAway() {
	c, to, zero := r.c, r.c.GP64(), r.c.XMM()
	move := either(r.channels == 1, "VMOVSS", "VMOVUPS")
	counts, places := r.rows("count", 0), r.rows("sums", r.shift)
	chunks, list, number := place(c, "chunks"), place(c, "list"), place(c, "full")
	c.VXORPS(zero, zero, zero)
	for tap, sum := range r.sums {
		skip := fmt.Sprintf("incomplete%d", tap)
		branch(c.CMPB, counts[tap], operand.Imm(0), c.JNE, skip)
		c.MOVQ(chunks, to)
		r.emit(move, sum, operand.Mem{Base: to})
		r.emit(move, zero, places[tap])
		c.ADDQ(operand.Imm(1<<r.shift), chunks)
		c.LEAQ(operand.Mem{Base: r.at, Disp: tap & 1}, r.length)
		if tap > 1 {
			c.ADDQ(place(c, "row"), r.length)
		}
		c.MOVQ(list, to)
		c.MOVQ(r.length, operand.Mem{Base: to})
		c.MOVQ(number, r.length)
		c.MOVQ(r.length, operand.Mem{Base: to, Disp: 8})
		c.ADDQ(operand.Imm(16), list)
		c.INCQ(number)
		c.Label(skip)
	}
}
