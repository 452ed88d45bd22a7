package main

import (
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// weightCodes are the types of codes that few rows of x are multiplied with as
// they are read: bytes that are widened, or two in a byte, whose 16 weights are
// in a table.
var weightCodes = []struct {
	name, widen string
	bytes       int // of a stripe
}{
	{"S8", "VPMOVSXBD", stripeLanes},
	{"U8", "VPMOVZXBD", stripeLanes},
	{"Packed", "", stripeLanes / 2},
}

// weightStripes are the kernels for few rows of x, whose weights are made on the
// way, and those that pack weights for tiles.
func weightStripes(c *build.Context) {
	for _, isa := range isas {
		for _, t := range weightCodes {
			if t.widen == "" && !isa.masks {
				continue // tables have 8 elements
			}
			begin := func(name, parameters string, doc ...string) weightReader {
				beginFunction(c, name, "func(q *byte, steps int, shift int, scale, zero, codes, "+parameters,
					append(doc, "Numbers of 32 positions >> shift are those of their scales.",
						"codes are those that halves of bytes stand for.")...)
				w := weightReader{weightKernel: newWeightKernel(c, isa), q: param(c, "q"), at: c.GP64(), scale: param(c, "scale"), zero: param(c, "zero"), bytes: t.bytes, widen: t.widen}
				if t.widen == "" {
					w.codes, w.table = w.vector(), w.vector()
					w.emit("VMOVUPS", operand.Mem{Base: param(c, "codes")}, w.codes)
				}
				c.XORQ(w.at, w.at)
				c.Load(c.Param("shift"), reg.RCX)
				return w
			}
			name := isa.name + t.name
			w := begin("weightStripes"+name, "x *float32, xRow, rows int, lanes *float32, more int)",
				"weightStripes"+name+" adds the products of so many stripes of rows of x, xRow bytes apart, with",
				"weights (q - zero) * scale to lanes, or to 0 unless there are more.")
			w.sums()
			w.row = param(c, "xRow")
			for count := map[bool]int{true: 4, false: 1}[isa.masks]; count > 1; count-- {
				fewer := w.newLabel("fewer")
				c.CMPQ(w.rows, operand.U32(count))
				c.JLT(operand.LabelRef(fewer))
				w.stripes(count)
				c.Label(fewer)
			}
			w.stripes(1)
			begin("packWeights"+name, "to *float32, apart int)",
				"packWeights"+name+" stores vector v of so many stripes of weights (q - zero) * scale one after the",
				"other, from v times apart, in bytes, on.").pack()
		}
	}
}

// weightReader makes weights of codes.
type weightReader struct {
	weightKernel
	q, at, scale, zero, row reg.GPVirtual
	bytes                   int    // of a stripe
	widen                   string // to 32 bits
	s, z, codes, table      reg.VecVirtual
}

// stripes handles some rows of x, and returns.
func (w weightReader) stripes(count int) {
	c, bytes := w.c, w.isa.bytes
	vectors := stripeLanes / w.kernel.lanes
	acc := w.accumulators(count, vectors, bytes)
	x := w.rowsFrom(w.x, w.row, count)
	w.each(func(v int, weights reg.VecVirtual) {
		for row := range count {
			w.add(x.at(row).Offset(v*bytes), weights, acc.vectors[row][v])
		}
	}, x, laneBytes)
	w.store(acc)
	c.VZEROUPPER()
	c.RET()
}

// pack stores weights.
func (w weightReader) pack() {
	to := w.rowsFrom(param(w.c, "to"), param(w.c, "apart"), stripeLanes/w.kernel.lanes)
	w.each(func(v int, weights reg.VecVirtual) { w.emit("VMOVUPS", weights, to.at(v)) }, to, w.isa.bytes)
	w.c.VZEROUPPER()
	w.c.RET()
}

// each makes the weights of all stripes; rows move on by bytes with each.
func (w weightReader) each(use func(v int, weights reg.VecVirtual), r rows, bytes int) {
	const ahead = 32 // stripes: rows of codes are longer than what processors fetch by themselves
	c, vectors := w.c, stripeLanes/w.kernel.lanes
	w.s, w.z = w.vector(), w.vector()
	loop, end := w.newLabel("stripe"), w.newLabel("end")
	c.Label(loop)
	c.TESTQ(w.steps, w.steps)
	c.JLE(operand.LabelRef(end))
	c.PREFETCHT0(operand.Mem{Base: w.q, Disp: ahead * w.bytes})
	for v := range vectors {
		if v%(vectors/2) == 0 {
			w.group()
		}
		use(v, w.weights(v))
	}
	c.ADDQ(operand.U32(w.bytes), w.q)
	r.moveOn(c, bytes)
	c.DECQ(w.steps)
	c.JMP(operand.LabelRef(loop))
	c.Label(end)
}

// group loads the parameters of 32 positions.
func (w weightReader) group() {
	number := w.c.GP64()
	w.c.MOVQ(w.at, number)
	w.c.SHRQ(reg.CL, number)
	w.c.INCQ(w.at)
	w.emit("VBROADCASTSS", operand.Mem{Base: w.scale, Index: number, Scale: 4}, w.s)
	w.emit("VBROADCASTSS", operand.Mem{Base: w.zero, Index: number, Scale: 4}, w.z)
	if w.table != nil {
		w.emit("VSUBPS", w.z, w.codes, w.table)
		w.emit("VMULPS", w.s, w.table, w.table)
	}
}

// weights makes those of vector v of a stripe.
func (w weightReader) weights(v int) reg.VecVirtual {
	x := w.vector()
	if w.table == nil {
		w.emit(w.widen, operand.Mem{Base: w.q, Disp: v * w.kernel.lanes}, x)
		w.emit("VCVTDQ2PS", x, x)
		w.emit("VSUBPS", w.z, x, x)
		w.emit("VMULPS", w.s, x, x)
		return x
	}
	// The low 4 bits of an element of 32 bits number a weight: a byte b becomes
	// b | b<<28 in 64 bits, the upper half of which is b>>4.
	upper := w.vector()
	w.c.VPMOVZXBQ(operand.Mem{Base: w.q, Disp: v * w.kernel.lanes / 2}, x)
	w.c.VPSLLQ(operand.Imm(28), x, upper)
	w.c.VPORQ(upper, x, x)
	w.c.VPERMPS(w.table, x, x)
	return x
}
