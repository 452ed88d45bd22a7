package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// The kernels of the input's gradient where a position has any number of taps,
// and the sums of a pixel's channels lie side by side.

// tapAdds emits those of every width: that of one channel needs no vectors, and
// the widest are on AVX-512, too.
func tapAdds(c *build.Context) {
	for _, compute := range []*storage{f32, f64} {
		for _, isa := range isas {
			if !isa.masks {
				tapAdd(c, isa, compute, 1)
				for width := 4; width < 16; width += 4 {
					tapAdd(c, isa, compute, width)
				}
			}
			tapAdd(c, isa, compute, 16)
		}
	}
}

// tapAdd emits the additions: g * w to every tap's pixel, in the order of
// positions, then taps. A pixel's sum is put away with its 256th contribution.
func tapAdd(c *build.Context, isa *isa, compute *storage, width int) {
	name := fmt.Sprintf("gridTapAdd%d", width)
	if width == 16 {
		name += isa.name
	}
	name += compute.name
	beginFunction(c, name, "func(pixels *byte, weights *byte, taps int, pitch int, n int, sums *byte, dy *byte, count *uint8, chunks *byte, list *[2]int64, full int) int",
		fmt.Sprintf("%s adds dy times weight to every tap's pixel, for %d channels that lie side by", name, width),
		"side; pixels of one tap after the other lie pitch bytes apart. Sums of 256 contributions",
		"go to chunks, their pixels and numbers, from full on, to list; it returns how many there",
		"are then.")
	pixels, weights, n, sums := param(c, "pixels"), param(c, "weights"), param(c, "n"), param(c, "sums")
	dy, count, full, pitch := param(c, "dy"), param(c, "count"), param(c, "full"), param(c, "pitch")
	t := newTapAdder(c, isa, compute, width)
	c.Label("position")
	branch(c.TESTQ, n, n, c.JLE, "done")
	t.each(func(i, disp int) { t.emit(t.move, operand.Mem{Base: dy, Disp: disp}, t.g[i]) })
	t.w = tapPieces(c, isa, min(t.bytes, isa.bytes))[0]
	pixel, weight, left, at, offset := c.GP64(), c.GP64(), c.GP64(), c.GP64(), c.GP64()
	in := func(disp int) operand.Mem { return operand.Mem{Base: sums, Index: offset, Scale: 1, Disp: disp} }
	if width == 1 {
		in = func(int) operand.Mem { return operand.Mem{Base: sums, Index: at, Scale: uint8(t.bytes)} }
	}
	c.MOVQ(pixels, pixel)
	c.MOVQ(weights, weight)
	c.MOVQ(place(c, "taps"), left)
	c.Label("tap")
	c.MOVLQSX(operand.Mem{Base: pixel}, at)
	branch(c.TESTQ, at, at, c.JLT, "skip")
	if width > 1 {
		c.IMUL3Q(operand.U32(t.bytes), at, offset)
	}
	t.add(weight, in)
	c.ADDB(operand.Imm(1), operand.Mem{Base: count, Index: at, Scale: 1})
	c.JEQ(operand.LabelRef("full"))
	c.Label("store")
	t.each(func(i, disp int) { t.emit(t.move, t.pieces[i], in(disp)) })
	c.Label("skip")
	c.ADDQ(pitch, pixel)
	c.LEAQ(operand.Mem{Base: weight, Index: pitch, Scale: uint8(compute.size / 4)}, weight)
	c.DECQ(left)
	c.JNE(operand.LabelRef("tap"))
	c.ADDQ(operand.Imm(4), pixels)
	c.ADDQ(operand.Imm(uint64(compute.size)), weights)
	c.ADDQ(operand.U32(t.bytes), dy)
	c.DECQ(n)
	c.JMP(operand.LabelRef("position"))

	c.Label("full")
	t.putAway(at, full)
	c.JMP(operand.LabelRef("store"))
	c.Label("done")
	c.Store(full, c.ReturnIndex(0))
	endFunction(c)
}

// tapAdder is tapAdd under construction.
type tapAdder struct {
	*kernel
	width, bytes         int              // of a pixel: channels, and what they take
	pieces, g            []reg.VecVirtual // a pixel's sums; dy
	w                    reg.VecVirtual   // the weight
	move, multiply, plus string           // instructions
}

func newTapAdder(c *build.Context, isa *isa, compute *storage, width int) *tapAdder {
	bytes := width * compute.size
	t := &tapAdder{
		kernel: &kernel{c: c, isa: isa, compute: compute, group: 1}, width: width, bytes: bytes,
		pieces: tapPieces(c, isa, bytes), g: tapPieces(c, isa, bytes),
	}
	t.move, t.multiply, t.plus = t.ps("VMOVU"), t.ps("VMUL"), t.ps("VADD")
	if width == 1 {
		t.move, t.multiply, t.plus = t.scalar("VMOV"), t.scalar("VMUL"), t.scalar("VADD")
	}
	return t
}

// each ranges over a pixel's pieces, and where they lie.
func (t *tapAdder) each(f func(i, disp int)) {
	disp := 0
	for i, p := range t.pieces {
		f(i, disp)
		disp += int(p.Size())
	}
}

// add makes the sums of a tap's pixel.
func (t *tapAdder) add(weight reg.GPVirtual, in func(disp int) operand.Mem) {
	from := operand.Mem{Base: weight}
	if t.width > 1 {
		t.emit(t.broadcast(), from, t.w)
	}
	t.each(func(i, disp int) {
		if t.width > 1 {
			t.emit(t.multiply, sameSize(t.w, t.pieces[i]), t.g[i], t.pieces[i])
		} else {
			t.emit(t.multiply, from, t.g[i], t.pieces[i])
		}
		t.emit(t.plus, in(disp), t.pieces[i], t.pieces[i])
	})
}

// putAway moves the sums of the pixel at a place to the list of full chunks.
func (t *tapAdder) putAway(at, full reg.GPVirtual) {
	c := t.c
	to, chunks, list := c.GP64(), place(c, "chunks"), place(c, "list")
	c.MOVQ(chunks, to)
	t.each(func(i, disp int) {
		t.emit(t.move, t.pieces[i], operand.Mem{Base: to, Disp: disp})
		t.emit(t.bits("VPXOR"), t.pieces[i], t.pieces[i], t.pieces[i])
	})
	c.ADDQ(operand.U32(t.bytes), chunks)
	c.MOVQ(list, to)
	c.MOVQ(at, operand.Mem{Base: to})
	c.MOVQ(full, operand.Mem{Base: to, Disp: 8})
	c.ADDQ(operand.Imm(16), list)
	c.INCQ(full)
}

// tapPieces returns registers for so many bytes, or for a single element.
func tapPieces(c *build.Context, isa *isa, bytes int) (pieces []reg.VecVirtual) {
	for bytes > 0 {
		var v reg.VecVirtual
		switch {
		case bytes >= 64 && isa.masks:
			v = c.ZMM()
		case bytes >= 32:
			v = c.YMM()
		default:
			v = c.XMM()
		}
		pieces = append(pieces, v)
		bytes -= int(v.Size())
	}
	return pieces
}

// sameSize returns the part of a register that is as large as another one.
func sameSize(v, as reg.VecVirtual) reg.Register {
	switch as.Size() {
	case 16:
		return v.AsX()
	case 32:
		return v.AsY()
	}
	return v
}
