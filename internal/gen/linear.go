package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/ir"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// The kernels of a quantized linear layer: tiles of 4 rows of codes against 4,
// exact sums of products in 32 bits. Sums that exceed 32 bits on the way wrap,
// and are right in the end if the result fits.

// dotSignature is that of a tile: rows of x and of w lie a stride of bytes apart,
// those of acc (of 4 sums each) accStride.
const dotSignature = "func(x *int8, xStride int, w *int8, wStride int, k int, acc *int32, accStride int, correction *int32)"

func param(c *build.Context, name string) reg.GPVirtual {
	r := c.GP64()
	c.Load(c.Param(name), r)
	return r
}

// place is where a parameter lies.
func place(c *build.Context, name string) operand.Mem {
	parameter, err := c.Param(name).Resolve()
	if err != nil {
		panic(err)
	}
	return parameter.Addr
}

// rowsApart returns the addresses of rows a stride apart.
func rowsApart(c *build.Context, base, stride reg.GPVirtual, count int) (rows []reg.GPVirtual) {
	rows = append(rows, base)
	for i := 1; i < count; i++ {
		r := c.GP64()
		c.LEAQ(operand.Mem{Base: rows[i-1], Index: stride, Scale: 1}, r)
		rows = append(rows, r)
	}
	return rows
}

// dotsVNNI are the tiles of a product's first rows, and of 4 others.
func dotsVNNI(c *build.Context) {
	for rows := 1; rows <= 4; rows++ {
		name := fmt.Sprint("dotVNNIFirst", rows)
		beginFunction(c, name, dotSignature, name+" is dotVNNI of so many rows of x, and notes the correction, which is 128 times the sum of each row of w.")
		dotVNNI(c, rows, true)
	}
	beginFunction(c, "dotVNNI", dotSignature, "dotVNNI is acc[i][j] = sum over k of (x[i][k] + 128) * w[j][k], less correction[j].")
	dotVNNI(c, 4, false)
}

// dotVNNI multiplies unsigned with signed bytes, which is what VPDPBUSD does: x is
// shifted by 128, and what that adds is taken off again.
func dotVNNI(c *build.Context, rows int, first bool) {
	t := vnniTile{
		c: c, x: rowsApart(c, param(c, "x"), param(c, "xStride"), rows),
		w: rowsApart(c, param(c, "w"), param(c, "wStride"), 4),
	}
	k, acc, accStride, correction := param(c, "k"), param(c, "acc"), param(c, "accStride"), param(c, "correction")
	t.flip = c.ZMM()
	bits := c.GP64()
	c.MOVQ(operand.I64(0x80808080), bits)
	c.VPBROADCASTD(bits.As32(), t.flip)
	count := rows
	if first {
		count++
	}
	t.sum = make([][4]reg.VecVirtual, count)
	for i := range t.sum {
		for j := range t.sum[i] {
			t.sum[i][j] = c.ZMM()
			c.VPXORD(t.sum[i][j], t.sum[i][j], t.sum[i][j])
		}
	}
	mask := c.K()
	t.at = c.GP64()
	c.XORQ(t.at, t.at)
	c.Label("block")
	branch(c.CMPQ, k, operand.Imm(64), c.JLT, "rest")
	t.step(func(from operand.Mem, to reg.VecVirtual) { c.VMOVDQU8(from, to) })
	c.ADDQ(operand.Imm(64), t.at)
	c.SUBQ(operand.Imm(64), k)
	c.JMP(operand.LabelRef("block"))
	c.Label("rest")
	branch(c.TESTQ, k, k, c.JEQ, "done")
	c.MOVQ(operand.I64(-1), bits)
	c.BZHIQ(k, bits, bits)
	c.KMOVQ(bits, mask)
	t.step(func(from operand.Mem, to reg.VecVirtual) { c.VMOVDQU8_Z(from, mask, to) })
	c.Label("done")
	corrected := c.XMM()
	if first {
		c.VMOVDQU32(t.total(rows), corrected)
		c.VMOVDQU32(corrected, operand.Mem{Base: correction})
	} else {
		c.VMOVDQU32(operand.Mem{Base: correction}, corrected)
	}
	for i := range rows {
		y := t.total(i)
		c.VPSUBD(corrected, y, y)
		c.VMOVDQU32(y, operand.Mem{Base: acc})
		c.ADDQ(accStride, acc)
	}
	endFunction(c)
}

// vnniTile is dotVNNI under construction.
type vnniTile struct {
	c    *build.Context
	x, w []reg.GPVirtual     // the first elements of rows
	at   reg.GPVirtual       // how many are done
	flip reg.VecVirtual      // 128 in each byte: what x is shifted by
	sum  [][4]reg.VecVirtual // of each row of x, and of flip in place of one if it is wanted
}

// step adds the products of 64 elements of each row, or of fewer.
func (t *vnniTile) step(load func(from operand.Mem, to reg.VecVirtual)) {
	var w [4]reg.VecVirtual
	for j := range w {
		w[j] = t.c.ZMM()
		load(operand.Mem{Base: t.w[j], Index: t.at, Scale: 1}, w[j])
	}
	x := t.c.ZMM()
	for i, sum := range t.sum {
		row := t.flip
		if i < len(t.x) {
			row = x
			load(operand.Mem{Base: t.x[i], Index: t.at, Scale: 1}, x)
			t.c.VPXORD(t.flip, x, x)
		}
		for j := range w {
			vpdpbusd(t.c, w[j], row, sum[j])
		}
	}
}

// total returns the four sums of a row.
func (t *vnniTile) total(row int) reg.Register {
	var y [4]reg.VecVirtual
	for j, sum := range t.sum[row] {
		y[j] = t.c.YMM()
		t.c.VEXTRACTI64X4(operand.Imm(1), sum, y[j])
		t.c.VPADDD(sum.AsY(), y[j], y[j])
	}
	return foldRows(t.c, y, t.c.VEXTRACTI32X4).AsX()
}

// foldRows returns the sum of the elements of each of 4 registers.
func foldRows(c *build.Context, y [4]reg.VecVirtual, extract func(ops ...operand.Op)) reg.VecVirtual {
	high := c.YMM()
	for i := 0; i < 4; i += 2 { // pairs: sums of elements 0 and 2, 1 and 3
		c.VPUNPCKHDQ(y[i+1], y[i], high)
		c.VPUNPCKLDQ(y[i+1], y[i], y[i])
		c.VPADDD(high, y[i], y[i])
	}
	c.VPUNPCKHQDQ(y[2], y[0], high)
	c.VPUNPCKLQDQ(y[2], y[0], y[0])
	c.VPADDD(high, y[0], y[0])
	extract(operand.Imm(1), y[0], high.AsX())
	c.VPADDD(y[0].AsX(), high.AsX(), high.AsX())
	return high
}

// vpdpbusd adds to each 32-bit element of sum four products of unsigned bytes
// of u with signed bytes of s. avo does not have the instruction.
func vpdpbusd(c *build.Context, s, u, sum reg.VecVirtual) {
	c.Instruction(&ir.Instruction{
		Opcode: "VPDPBUSD", Operands: []operand.Op{s, u, sum},
		Inputs: []operand.Op{s, u, sum}, Outputs: []operand.Op{sum}, ISA: []string{"AVX512VNNI"},
	})
}

// dotsAVX2 are tiles of 1 to 4 rows.
func dotsAVX2(c *build.Context) {
	for rows := 1; rows <= 4; rows++ {
		name := fmt.Sprint("dotAVX2Rows", rows)
		beginFunction(c, name, dotSignature, name+" is acc[i][j] = sum over k of x[i][k] * w[j][k] of so many rows of x; k is a multiple of 16.", "There is no correction.")
		dotAVX2(c, rows)
	}
}

// dotAVX2 widens bytes to 16 bits and multiplies pairs. Two rows of x are handled at
// a time.
func dotAVX2(c *build.Context, rows int) {
	x := rowsApart(c, param(c, "x"), param(c, "xStride"), rows)
	w := rowsApart(c, param(c, "w"), param(c, "wStride"), 4)
	k, acc, accStride := param(c, "k"), param(c, "acc"), param(c, "accStride")
	at := c.GP64()
	for i := 0; i < rows; i += 2 {
		sum := make([][4]reg.VecVirtual, min(2, rows-i))
		for a := range sum {
			for j := range sum[a] {
				sum[a][j] = c.YMM()
				c.VPXOR(sum[a][j], sum[a][j], sum[a][j])
			}
		}
		block, done := fmt.Sprint("block", i), fmt.Sprint("done", i)
		c.XORQ(at, at)
		c.Label(block)
		branch(c.CMPQ, at, k, c.JGE, done)
		xv := make([]reg.VecVirtual, len(sum))
		for a := range xv {
			xv[a] = c.YMM()
			c.VPMOVSXBW(operand.Mem{Base: x[i+a], Index: at, Scale: 1}, xv[a])
		}
		for j := range w {
			wv, product := c.YMM(), c.YMM()
			c.VPMOVSXBW(operand.Mem{Base: w[j], Index: at, Scale: 1}, wv)
			for a := range sum {
				c.VPMADDWD(wv, xv[a], product)
				c.VPADDD(product, sum[a][j], sum[a][j])
			}
		}
		c.ADDQ(operand.Imm(16), at)
		c.JMP(operand.LabelRef(block))
		c.Label(done)
		for a := range sum {
			total := foldRows(c, sum[a], func(ops ...operand.Op) { c.VEXTRACTI128(ops[0], ops[1], ops[2]) })
			c.VMOVDQU(total.AsX(), operand.Mem{Base: acc})
			c.ADDQ(accStride, acc)
		}
	}
	endFunction(c)
}

// scaleSums emits the scaling of sums, for each instruction set.
func scaleSums(c *build.Context) {
	for _, isa := range isas {
		name := "scaleSums" + isa.name
		beginFunction(c, name, "func(y *float32, acc *int32, n int, xScale float32, wScale *float32, bias *float32)",
			name+" is y[i] = acc[i] * (xScale * wScale[i]) + bias[i], without bias if that is nil.",
			"n is a multiple of 16.")
		k := &kernel{c: c, isa: isa, compute: f32, lanes: isa.bytes / 4}
		y, acc, n, wScale, bias := param(c, "y"), param(c, "acc"), param(c, "n"), param(c, "wScale"), param(c, "bias")
		scale := k.vector()
		c.Load(c.Param("xScale"), scale.AsX())
		k.emit("VBROADCASTSS", scale.AsX(), scale)
		at := c.GP64()
		c.XORQ(at, at)
		loop, store, done := k.newLabel("block"), k.newLabel("store"), k.newLabel("done")
		c.Label(loop)
		branch(c.CMPQ, at, n, c.JGE, done)
		element := func(base reg.GPVirtual) operand.Mem { return operand.Mem{Base: base, Index: at, Scale: 4} }
		both, sum := k.vector(), k.vector()
		k.emit("VMULPS", element(wScale), scale, both)
		k.emit("VCVTDQ2PS", element(acc), sum)
		k.emit("VMULPS", both, sum, sum)
		branch(c.TESTQ, bias, bias, c.JEQ, store)
		k.emit("VADDPS", element(bias), sum, sum)
		c.Label(store)
		k.emit("VMOVUPS", sum, element(y))
		c.ADDQ(operand.Imm(uint64(k.lanes)), at)
		c.JMP(operand.LabelRef(loop))
		c.Label(done)
		endFunction(c)
	}
}
