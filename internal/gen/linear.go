package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/ir"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// The kernels of a quantized linear layer: tiles of up to 4 rows of codes against 4,
// exact sums of products in 32 bits. Sums that exceed 32 bits on the way wrap,
// and are right in the end if the result fits.

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

// dotsVNNI are tiles of 1 to 4 rows, and what corrects them.
func dotsVNNI(c *build.Context) {
	for rows := 1; rows <= 4; rows++ {
		name := fmt.Sprint("dotVNNIRows", rows)
		beginFunction(c, name, dotSignature, name+" is acc[i][j] = sum over k of x[i][k] * (w[j][k] + 128), less correction[i], of groups of so many rows of x.")
		dotVNNI(c, rows)
	}
	beginFunction(c, "correctionVNNI", "func(x *int8, k int) int32", "correctionVNNI is 128 times the sum of x.")
	correctionVNNI(c)
}

// tailMask is the mask of the last elements, fewer than 64, of k bytes.
func tailMask(c *build.Context, k reg.GPVirtual) reg.Register {
	bits, mask := c.GP64(), c.K()
	c.MOVQ(operand.I64(-1), bits)
	c.ANDQ(operand.Imm(63), k)
	c.BZHIQ(k, bits, bits)
	c.KMOVQ(bits, mask)
	return mask
}

// flipped is 128 in each byte.
func flipped(c *build.Context) reg.VecVirtual {
	flip, bits := c.ZMM(), c.GP64()
	c.MOVQ(operand.I64(0x80808080), bits)
	c.VPBROADCASTD(bits.As32(), flip)
	return flip
}

// dotVNNI multiplies unsigned with signed bytes, which is what VPDPBUSD does: w is
// shifted by 128, and what that adds is taken off again.
func dotVNNI(c *build.Context, rows int) {
	flip, mask := flipped(c), tailMask(c, param(c, "k"))
	sums := sumsOf(rows, func() reg.VecVirtual { return c.ZMM() })
	x, w := c.ZMM(), [4]reg.VecVirtual{c.ZMM(), c.ZMM(), c.ZMM(), c.ZMM()}
	emitTiles(c, func(t *dotTiles) {
		products := func(load func(from operand.Mem, to reg.VecVirtual)) {
			for j := range w {
				load(t.w.row(j), w[j])
				c.VPXORD(flip, w[j], w[j])
			}
			for i, sum := range sums {
				load(t.x.row(i), x)
				for j := range w {
					vpdpbusd(c, x, w[j], sum[j])
				}
			}
		}
		for _, row := range sums {
			for _, sum := range row {
				c.VPXORD(sum, sum, sum)
			}
		}
		t.start()
		c.MOVQ(place(c, "ahead"), t.ahead)
		branch(c.TESTQ, t.ahead, t.ahead, c.JEQ, "near")
		c.ADDQ(t.column, t.ahead)
		c.Label("near")
		c.SUBQ(operand.Imm(64), t.k)
		c.JLT(operand.LabelRef("rest"))
		c.Label("block")
		branch(c.TESTQ, t.ahead, t.ahead, c.JEQ, "multiply")
		for line := range 4 {
			c.PREFETCHT0(operand.Mem{Base: t.ahead, Disp: 64 * line})
		}
		c.ADDQ(operand.U32(256), t.ahead)
		c.Label("multiply")
		products(func(from operand.Mem, to reg.VecVirtual) { c.VMOVDQU8(from, to) })
		t.step(64)
		c.JGE(operand.LabelRef("block"))
		c.Label("rest")
		branch(c.CMPQ, t.k, operand.I8(-64), c.JEQ, "done")
		products(func(from operand.Mem, to reg.VecVirtual) { c.VMOVDQU8_Z(from, mask, to) })
		c.Label("done")
		for i, y := range sums {
			foldRows(c, y, x)
			addQuarters(c, y[0], x)
			c.VPBROADCASTD(operand.Mem{Base: t.correction, Disp: 4 * i}, x.AsX())
			c.VPSUBD(x.AsX(), y[0].AsX(), y[0].AsX())
			t.store(func(ops ...operand.Op) { c.VMOVDQU32(ops...) }, y[0].AsX())
		}
	})
}

// addQuarters leaves the sum of the quarters of v in its first one.
func addQuarters(c *build.Context, v, free reg.VecVirtual) {
	c.VEXTRACTI64X4(operand.Imm(1), v, free.AsY())
	c.VPADDD(free.AsY(), v.AsY(), v.AsY())
	c.VEXTRACTI32X4(operand.Imm(1), v.AsY(), free.AsX())
	c.VPADDD(free.AsX(), v.AsX(), v.AsX())
}

func correctionVNNI(c *build.Context) {
	x, k, flip, sum, v := param(c, "x"), param(c, "k"), flipped(c), c.ZMM(), c.ZMM()
	c.VPXORD(sum, sum, sum)
	c.SUBQ(operand.Imm(64), k)
	c.JLT(operand.LabelRef("rest"))
	c.Label("block")
	c.VMOVDQU8(operand.Mem{Base: x}, v)
	vpdpbusd(c, v, flip, sum)
	c.ADDQ(operand.Imm(64), x)
	c.SUBQ(operand.Imm(64), k)
	c.JGE(operand.LabelRef("block"))
	c.Label("rest")
	c.VMOVDQU8_Z(operand.Mem{Base: x}, tailMask(c, k), v)
	vpdpbusd(c, v, flip, sum)
	addQuarters(c, sum, v)
	for _, half := range []uint64{0xee, 0x55} {
		c.VPSHUFD(operand.Imm(half), sum.AsX(), v.AsX())
		c.VPADDD(v.AsX(), sum.AsX(), sum.AsX())
	}
	result := c.GP32()
	c.VMOVD(sum.AsX(), result)
	c.VZEROUPPER()
	c.Store(result, c.ReturnIndex(0))
	c.RET()
}

// foldRows leaves in y[0], in each 4 elements, parts of the sums of 4 registers: of the elements
// of y[0], y[1], y[2], y[3].
func foldRows(c *build.Context, y [4]reg.VecVirtual, high reg.VecVirtual) {
	for i := 0; i < 4; i += 2 { // pairs: sums of elements 0 and 2, 1 and 3
		c.VPUNPCKHDQ(y[i+1], y[i], high)
		c.VPUNPCKLDQ(y[i+1], y[i], y[i])
		c.VPADDD(high, y[i], y[i])
	}
	c.VPUNPCKHQDQ(y[2], y[0], high)
	c.VPUNPCKLQDQ(y[2], y[0], y[0])
	c.VPADDD(high, y[0], y[0])
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
		beginFunction(c, name, dotSignature, name+" is acc[i][j] = sum over k of x[i][k] * w[j][k] of groups of so many rows of x; k is a multiple of 16.", "There is no correction.")
		dotAVX2(c, rows)
	}
}

// dotAVX2 widens bytes to 16 bits and multiplies pairs. Two rows of x are handled at
// a time.
func dotAVX2(c *build.Context, rows int) {
	sums := sumsOf(2, func() reg.VecVirtual { return c.YMM() })
	x, w, product := [2]reg.VecVirtual{c.YMM(), c.YMM()}, c.YMM(), c.YMM()
	emitTiles(c, func(t *dotTiles) {
		for i := 0; i < rows; i += 2 {
			pair := sums[:min(2, rows-i)]
			for _, row := range pair {
				for _, sum := range row {
					c.VPXOR(sum, sum, sum)
				}
			}
			block := fmt.Sprint("block", i)
			t.start()
			c.Label(block)
			for a := range pair {
				c.VPMOVSXBW(t.x.row(i+a), x[a])
			}
			for j := range 4 {
				c.VPMOVSXBW(t.w.row(j), w)
				for a, sum := range pair {
					c.VPMADDWD(w, x[a], product)
					c.VPADDD(product, sum[j], sum[j])
				}
			}
			t.step(16)
			c.JNE(operand.LabelRef(block))
			for _, y := range pair {
				foldRows(c, y, product)
				c.VEXTRACTI128(operand.Imm(1), y[0], product.AsX())
				c.VPADDD(product.AsX(), y[0].AsX(), y[0].AsX())
				t.store(func(ops ...operand.Op) { c.VMOVDQU(ops[0], ops[1]) }, y[0].AsX())
			}
		}
	})
}

// scaleSums emits the scaling of sums, for each instruction set.
func scaleSums(c *build.Context) {
	for _, isa := range isas {
		name := "scaleSums" + isa.name
		beginFunction(c, name, "func(y *float32, yStride int, acc *int32, accStride int, n int, rows int, xScale *float32, wScale *float32, bias *float32)",
			name+" is y[r][i] = acc[r][i] * (xScale[r] * wScale[i]) + bias[i], without bias if that is nil.",
			"n is a multiple of 16; rows lie a stride of bytes apart.")
		k := &kernel{c: c, isa: isa, compute: f32, lanes: isa.bytes / 4}
		y, acc, n, wScale, bias := param(c, "y"), param(c, "acc"), param(c, "n"), param(c, "wScale"), param(c, "bias")
		xScale, rows, scale, at := param(c, "xScale"), param(c, "rows"), k.vector(), c.GP64()
		row, loop, store, done := k.newLabel("row"), k.newLabel("block"), k.newLabel("store"), k.newLabel("done")
		c.Label(row)
		k.emit("VBROADCASTSS", operand.Mem{Base: xScale}, scale)
		c.XORQ(at, at)
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
		c.ADDQ(place(c, "yStride"), y)
		c.ADDQ(place(c, "accStride"), acc)
		c.ADDQ(operand.Imm(4), xScale)
		c.DECQ(rows)
		c.JNE(operand.LabelRef(row))
		endFunction(c)
	}
}
