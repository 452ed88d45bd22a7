package main

import (
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// The kernels of a quantized linear layer of many rows with AVX2: Winograd's inner product of codes that were widened to
// 16 bits. x0*w0 + x1*w1 is (x0 + w1) * (x1 + w0) - x0*x1 - w0*w1, and what is subtracted depends on one factor only, so
// that packs begin with its sum. Of each four codes those with even numbers lie before those with odd ones.

const (
	winogradCodes   = 4  // of a row that a vector has side by side, half of them in another one
	winogradColumns = 16 // of a panel of w
	winogradStart   = 32 // bytes before a row of x
)

// winogradRows are the numbers of rows that are multiplied at a time.
var winogradRows = []int{4, 2, 1}

// winograd emits the kernels.
func winograd(c *build.Context) {
	k := &kernel{c: c, isa: avx2, compute: f32, out: f32, lanes: 8}
	beginFunction(c, "dotWinogradAVX2", "func(a *byte, aRow int, rows int, b *byte, pairs int, y *int32, yRow int, more int)",
		"dotWinogradAVX2 multiplies packed rows of a with a packed panel of b, 16 wide and so many times 8 codes deep.",
		"Sums begin with y if there are more, else with what lies 32 bytes before a row of a.")
	k.multiplyRows(winogradRows, k.winogradSums)
	k.packWinogradRow()
	k.packWinogradPanel()
}

// winogradSums emits the sums of some rows of a.
func (k *kernel) winogradSums(count int, a, row, y reg.GPVirtual) {
	c := k.c
	sums := k.newSums(count, 2)
	rows, b, pairs := k.rowsFrom(a, row, count), param(c, "b"), param(c, "pairs")
	k.beginWinograd(sums, rows, y)
	for j := range 2 {
		start := k.vector()
		c.VMOVDQU(operand.Mem{Base: b, Disp: j * k.isa.bytes}, start)
		for _, sum := range sums {
			c.VPADDD(start, sum[j], sum[j])
		}
	}
	c.ADDQ(operand.Imm(uint64(2*k.isa.bytes)), b)
	loop := k.newLabel("step")
	c.Label(loop)
	for range 2 {
		k.winogradStep(sums, rows, b)
		c.ADDQ(operand.U32(4*k.isa.bytes), b)
		rows.moveOn(c, operand.U32(2*winogradCodes))
	}
	c.DECQ(pairs)
	c.JNE(operand.LabelRef(loop))
	c.MOVQ(k.eachSum(sums, y, func(at operand.Mem, v reg.VecVirtual) { c.VMOVDQU(v, at) }), y)
}

// beginWinograd loads what sums begin with.
func (k *kernel) beginWinograd(sums []value, rows rows, y reg.GPVirtual) {
	c, begin, begun := k.c, k.newLabel("begin"), k.newLabel("begun")
	branch(c.CMPQ, place(c, "more"), operand.Imm(0), c.JEQ, begin)
	k.eachSum(sums, y, func(at operand.Mem, v reg.VecVirtual) { c.VMOVDQU(at, v) })
	c.JMP(operand.LabelRef(begun))
	c.Label(begin)
	for i, sum := range sums {
		for _, v := range sum {
			c.VPBROADCASTD(rows.at(i).Offset(-winogradStart), v)
		}
	}
	c.Label(begun)
}

// winogradStep adds the products of four codes.
func (k *kernel) winogradStep(sums []value, rows rows, b reg.GPVirtual) {
	c := k.c
	var even, odd [2]reg.VecVirtual
	for j := range even {
		even[j], odd[j] = k.vector(), k.vector()
		c.VMOVDQU(operand.Mem{Base: b, Disp: j * k.isa.bytes}, even[j])
		c.VMOVDQU(operand.Mem{Base: b, Disp: (2 + j) * k.isa.bytes}, odd[j])
	}
	for i, sum := range sums {
		x := [2]reg.VecVirtual{k.vector(), k.vector()} // the even codes of a row, and the odd ones
		for j := range x {
			c.VPBROADCASTD(rows.at(i).Offset(4*j), x[j])
		}
		first := [2]reg.VecVirtual{k.vector(), k.vector()}
		for j, w := range [2][2]reg.VecVirtual{odd, even} {
			c.VPADDW(w[0], x[j], first[j])
			c.VPADDW(w[1], x[j], x[j])
		}
		for j, factors := range [2][2]reg.VecVirtual{first, x} {
			c.VPMADDWD(factors[0], factors[1], factors[0])
			c.VPADDD(factors[0], sum[j], sum[j])
		}
	}
}

// packWinogradRow emits what packs a row of a.
func (k *kernel) packWinogradRow() {
	c := k.c
	beginFunction(c, "packWinogradRowAVX2", "func(from *int8, steps int, to *byte) (start int32)",
		"packWinogradRowAVX2 packs so many times 16 codes, and returns what their sums begin with.")
	from, steps, to, start, v, odd := param(c, "from"), param(c, "steps"), param(c, "to"), k.vector(), k.vector(), k.vector()
	c.VPXOR(start, start, start)
	while(c, steps, 1, "step", "done", func() {
		c.VPMOVSXBW(operand.Mem{Base: from}, v)
		c.VPSRLD(operand.Imm(16), v, odd)
		c.VPMADDWD(odd, v, odd)
		c.VPSUBD(odd, start, start)
		const evenBeforeOdd = 0b_11_01_10_00
		c.VPSHUFLW(operand.Imm(evenBeforeOdd), v, v)
		c.VPSHUFHW(operand.Imm(evenBeforeOdd), v, v)
		c.VMOVDQU(v, operand.Mem{Base: to})
		c.ADDQ(operand.Imm(16), from)
		c.ADDQ(operand.Imm(32), to)
	})
	c.VEXTRACTI128(operand.Imm(1), start, v.AsX())
	c.VPADDD(v.AsX(), start.AsX(), start.AsX())
	for _, half := range []uint64{0xee, 0x55} {
		c.VPSHUFD(operand.Imm(half), start.AsX(), v.AsX())
		c.VPADDD(v.AsX(), start.AsX(), start.AsX())
	}
	result := c.GP32()
	c.VMOVD(start.AsX(), result)
	c.VZEROUPPER()
	c.Store(result, c.ReturnIndex(0))
	c.RET()
}

// packWinogradPanel emits what packs a panel of b.
func (k *kernel) packWinogradPanel() {
	c := k.c
	beginFunction(c, "packWinogradPanelAVX2", "func(from *byte, steps int, to *byte)",
		"packWinogradPanelAVX2 packs so many times 4 codes of each of 16 columns, behind what their sums begin with.")
	from, steps, to, begin := param(c, "from"), param(c, "steps"), param(c, "to"), c.GP64()
	starts := [2]reg.VecVirtual{k.vector(), k.vector()}
	for _, start := range starts {
		c.VPXOR(start, start, start)
	}
	c.MOVQ(to, begin)
	c.ADDQ(operand.Imm(uint64(4*winogradColumns)), to)
	while(c, steps, 1, "step", "done", func() {
		for j, start := range starts {
			odd, even := k.vector(), k.vector()
			c.VMOVDQU(operand.Mem{Base: from, Disp: j * k.isa.bytes}, odd)
			c.VPSLLW(operand.Imm(8), odd, even)
			c.VPSRAW(operand.Imm(8), even, even)
			c.VPSRAW(operand.Imm(8), odd, odd)
			c.VMOVDQU(even, operand.Mem{Base: to, Disp: j * k.isa.bytes})
			c.VMOVDQU(odd, operand.Mem{Base: to, Disp: (2 + j) * k.isa.bytes})
			c.VPMADDWD(odd, even, even)
			c.VPSUBD(even, start, start)
		}
		c.ADDQ(operand.Imm(uint64(winogradCodes*winogradColumns)), from)
		c.ADDQ(operand.U32(2*winogradCodes*winogradColumns), to)
	})
	for j, start := range starts {
		c.VMOVDQU(start, operand.Mem{Base: begin, Disp: j * k.isa.bytes})
	}
	endFunction(c)
}
