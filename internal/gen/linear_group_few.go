package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// The kernels of a linear layer of codes in groups for up to 4 rows of x, with VNNI: 16 rows of w are transposed, and
// multiplied where they are. Groups are a multiple of 32 codes.

const groupFewCodes = 32 // what pieces are a multiple of

// groupFew is one of them under construction.
type groupFew struct {
	*kernel
	halves              bool
	x, pairs            fourRows
	acc, y              value
	sum, zero           reg.VecVirtual // of w
	of, flip, low, ones reg.VecVirtual
	scale, zeros        reg.GPVirtual
	parts, pieces       reg.GPVirtual // that are left: of the piece, of the group
}

// linearGroupFew emits the kernels.
func linearGroupFew(c *build.Context) {
	for _, halves := range []bool{false, true} {
		for rows := 1; rows <= groupMostRows; rows++ {
			name := fmt.Sprintf("groupFew%d%sVNNI", rows, either(halves, "Halves", "Bytes"))
			beginFunction(c, name, "func(from *byte, stride int, blocks int, last uint32, ahead int, flip uint32, x *byte, xStride int, xPairs *byte, zero *float32, lo float32, hi float32, offset float32, scale *float32, parts int, pieces int, groups int, xScale *float32, y *float32)",
				name+" adds float(acc) * (xScale * scale) of some groups to 16 columns of y, of so many packed rows of x and 16 rows of w.",
				"Pieces are parts of 32 codes, blocks 64 bytes of each row of w: of the last one those are read that last has a bit for, 4 each. What lies",
				"so many bytes ahead is asked for.")
			newGroupFew(c, rows, halves).function()
			endFunction(c)
		}
	}
}

func newGroupFew(c *build.Context, rows int, halves bool) *groupFew {
	k := &kernel{c: c, isa: avx512, compute: f32, out: f32, lanes: 16}
	f := &groupFew{kernel: k, halves: halves, scale: param(c, "scale"), zeros: param(c, "zero"), parts: param(c, "parts"), pieces: param(c, "pieces")}
	f.x = newFourRows(c, param(c, "xStride"))
	c.Load(c.Param("x"), f.x.at)
	f.pairs = fourRows{c.GP64(), f.x.stride, f.x.stride3}
	c.Load(c.Param("xPairs"), f.pairs.at)
	f.flip, f.low, f.ones = k.flips(), k.bytesOf(0x0f), k.bytesOf(0x01)
	y := c.GP64()
	c.Load(c.Param("y"), y)
	for i := range rows {
		f.acc, f.y = append(f.acc, k.vector()), append(f.y, k.vector())
		k.emit("VMOVUPS", operand.Mem{Base: y, Disp: i * groupPitch}, f.y[i])
	}
	f.sum, f.zero, f.of = k.vector(), k.vector(), k.vector()
	k.emit("VBROADCASTSS", place(c, "offset"), f.zero)
	k.emit("VCVTPS2DQ", f.zero, f.zero)
	k.emit("VPSLLD", 16, f.zero, f.zero)
	return f
}

// bytesOf has a number in each byte.
func (k *kernel) bytesOf(number uint32) reg.VecVirtual {
	bits, v := k.c.GP32(), k.vector()
	k.c.MOVL(operand.U32(number*0x01010101), bits)
	k.emit("VPBROADCASTD", bits, v)
	return v
}

func (f *groupFew) function() {
	c := f.c
	each := groupFewCodes / either(f.halves, 8, 4) // vectors of a part
	f.begin()
	f.loadZeros("begun")
	c.Label("begun")
	from, whole := param(c, "from"), c.K()
	c.KXNORW(whole, whole, whole)
	c.Label("block")
	v := f.load(from, whole)
	for i := 0; i < len(v); i += each {
		for _, codes := range v[i:][:each] {
			f.multiply(codes)
		}
		going := fmt.Sprint("going", i)
		c.DECQ(f.parts)
		c.JNE(operand.LabelRef(going))
		f.endPiece()
		c.DECQ(f.pieces)
		c.JNE(operand.LabelRef(going))
		f.endGroup()
		c.DECQ(place(c, "groups"))
		c.JEQ(operand.LabelRef("done"))
		f.loadZeros(going)
		c.Label(going)
	}
	c.JMP(operand.LabelRef("block"))
	c.Label("done")
	to := c.GP64()
	c.Load(c.Param("y"), to)
	for i, y := range f.y {
		f.emit("VMOVUPS", y, operand.Mem{Base: to, Disp: i * groupPitch})
	}
}

// begin sets sums to 0.
func (f *groupFew) begin() {
	f.emit("VPXORD", f.sum, f.sum, f.sum)
	for _, acc := range f.acc {
		f.emit("VPXORD", acc, acc, acc)
	}
}

// loadZeros loads the zero points of a group, or goes to a label.
func (f *groupFew) loadZeros(none string) {
	branch(f.c.TESTQ, f.zeros, f.zeros, f.c.JEQ, none)
	f.emit("VBROADCASTSS", place(f.c, "lo"), f.zero)
	f.emit("VMAXPS", operand.Mem{Base: f.zeros}, f.zero, f.zero)
	for _, step := range [][2]string{{"VMINPS", "hi"}, {"VADDPS", "offset"}} {
		f.emit("VBROADCASTSS", place(f.c, step[1]), f.of)
		f.emit(step[0], f.of, f.zero, f.zero)
	}
	f.emit("VCVTPS2DQ", f.zero, f.zero)
	f.emit("VPSLLD", 16, f.zero, f.zero)
	f.c.ADDQ(operand.U32(groupPitch), f.zeros)
}

// load returns the next 64 bytes of 16 rows, 4 of each in a vector.
func (f *groupFew) load(from reg.GPVirtual, whole reg.OpmaskVirtual) value {
	c, stride, source, ahead, last := f.c, f.c.GP64(), f.c.GP64(), f.c.GP64(), f.c.GP32()
	c.DECQ(place(c, "blocks"))
	c.JNE(operand.LabelRef("whole"))
	c.Load(c.Param("last"), last)
	c.KMOVW(last, whole)
	c.Label("whole")
	c.Load(c.Param("stride"), stride)
	c.Load(c.Param("ahead"), ahead)
	c.MOVQ(from, source)
	v := make(value, f.lanes)
	for i := range v {
		v[i] = f.vector()
		f.emit("VMOVDQU32_Z", operand.Mem{Base: source}, whole, v[i])
		c.PREFETCHT1(operand.Mem{Base: source, Index: ahead, Scale: 1})
		if i < len(v)-1 {
			c.ADDQ(stride, source)
		}
	}
	c.ADDQ(operand.Imm(64), from)
	return f.transpose(v)
}

// multiply multiplies 4 bytes of each row.
func (f *groupFew) multiply(codes reg.VecVirtual) {
	if !f.halves {
		f.emit("VPXORD", f.flip, codes, codes)
		f.products(codes, 0)
		vpdpbusd(f.c, codes, f.ones, f.sum)
		f.c.ADDQ(operand.Imm(4), f.x.at)
		return
	}
	high := f.splitHalves(codes, f.flip, f.low)
	f.products(codes, 0)
	f.products(high, 4)
	f.emit("VPADDB", high, codes, codes)
	vpdpbusd(f.c, codes, f.ones, f.sum)
	f.c.ADDQ(operand.Imm(8), f.x.at)
}

// products multiplies with codes of x some bytes on.
func (f *groupFew) products(codes reg.VecVirtual, bytes int) {
	for i, acc := range f.acc {
		at := f.x.row(i)
		at.Disp = bytes
		f.emit("VPBROADCASTD", at, f.of)
		vpdpbusd(f.c, codes, f.of, acc)
	}
}

// endPiece corrects sums.
func (f *groupFew) endPiece() {
	f.emit("VPSLLD", 16, f.sum, f.sum)
	f.emit("VPSRLD", 16, f.sum, f.sum)
	f.emit("VPORD", f.zero, f.sum, f.sum)
	for i, acc := range f.acc {
		f.emit("VPBROADCASTD", f.pairs.row(i), f.of)
		vpdpwssd(f.c, f.sum, f.of, acc)
	}
	f.emit("VPXORD", f.sum, f.sum, f.sum)
	f.c.ADDQ(operand.Imm(4), f.pairs.at)
	f.c.Load(f.c.Param("parts"), f.parts)
}

// endGroup adds what sums stand for to y.
func (f *groupFew) endGroup() {
	xScale := f.c.GP64()
	f.c.Load(f.c.Param("xScale"), xScale)
	for i, acc := range f.acc {
		f.emit("VBROADCASTSS", operand.Mem{Base: xScale, Disp: 4 * i}, f.of)
		f.emit("VMULPS", operand.Mem{Base: f.scale}, f.of, f.of)
		f.emit("VCVTDQ2PS", acc, acc)
		f.emit("VMULPS", f.of, acc, acc)
		f.emit("VADDPS", acc, f.y[i], f.y[i])
		f.emit("VPXORD", acc, acc, acc)
	}
	f.c.ADDQ(operand.U32(groupPitch), f.scale)
	f.c.Load(f.c.Param("pieces"), f.pieces)
}
