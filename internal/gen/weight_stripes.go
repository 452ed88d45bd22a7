package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// weightCode is a type of codes that few rows of x are multiplied with as they are read: bytes
// that are widened to 32 bits, or two in a byte, whose 16 weights are in a table, or whose halves
// are shifted down to where codes lie.
type weightCode struct {
	name, widen string
	bytes       int // of a stripe
	shift       string
}

var weightCodes = []weightCode{
	{"S8", "VPMOVSXBD", stripeLanes, ""},
	{"U8", "VPMOVZXBD", stripeLanes, ""},
	{"Packed", "", stripeLanes / 2, ""},
	{"S4", "VPMOVSXBD", stripeLanes / 2, "VPSRAD"},
	{"U4", "VPMOVZXBD", stripeLanes / 2, "VPSRLD"},
}

// packed reports whether codes are two in a byte.
func (t weightCode) packed() bool { return t.bytes < stripeLanes }

// weightStripes are the kernels for few rows of x, whose weights are made on the
// way, and those that pack weights for tiles.
func weightStripes(c *build.Context) {
	globals := newTables()
	for _, isa := range isas {
		for _, t := range weightCodes {
			if t.packed() && isa.masks != (t.widen == "") {
				continue // tables have 16 elements
			}
			for _, grouped := range []bool{false, true} {
				w := newWeightReader(c, globals, isa, t, grouped)
				w.multiply()
				if t.shift == "" { // what makes bytes of them takes less time than reordering weights
					w.pack()
				}
			}
		}
	}
}

// weightReader makes weights of codes.
type weightReader struct {
	weightKernel
	weightCode
	grouped                 bool // each element has a number of its scale; else 32 have, or a power of two times as many
	q, at, run, scale, zero reg.GPVirtual
	s, z                    [2]reg.VecVirtual // of half a stripe each; z is nil where there are no zero points
	// Of codes that are two in a byte: what halves stand for, which weights that
	// is, and how even and odd elements become neighbours.
	codes, low, high reg.VecVirtual
	table            [2]reg.VecVirtual
}

func newWeightReader(c *build.Context, globals *tables, isa *isa, t weightCode, grouped bool) weightReader {
	w := weightReader{weightKernel: newWeightKernel(c, isa), weightCode: t, grouped: grouped}
	w.globals = globals
	return w
}

// begin begins a function with a name, or one for groups.
func (w *weightReader) begin(name, ofGroups, parameters string, doc ...string) {
	c := w.c
	name = either(w.grouped, ofGroups, name) + w.isa.name + w.weightCode.name
	doc[0] = name + " " + doc[0]
	beginFunction(c, name, "func(q *byte, steps, shift int, numbers *int32, scale, zero, codes, "+parameters+", columns, qRow, scaleRow, zeroRow int, rest uint64)",
		append(doc, "There are so many columns of codes, scales and zero points, which lie bytes apart.",
			"Bits of rest are elements of one more stripe, in the order of lanes in registers"+either(w.isa.masks, ".", ", whose codes are read as a whole."),
			either(w.grouped, "Numbers are those of elements' scales; scales begin with a multiple of as many as a vector has elements.",
				"Numbers of 32 positions >> shift are those of their scales."))...)
	w.q, w.at, w.scale, w.zero, w.steps = param(c, "q"), c.GP64(), param(c, "scale"), param(c, "zero"), param(c, "steps")
	for half := range w.s {
		w.s[half], w.z[half] = w.vector(), w.vector()
		if w.makesTables() {
			w.table[half] = w.vector()
		}
	}
	if w.widen == "" {
		from := param(c, "codes")
		for i, v := range []*reg.VecVirtual{&w.codes, &w.low, &w.high} {
			*v = w.vector()
			w.emit("VMOVUPS", operand.Mem{Base: from, Disp: i * w.isa.bytes}, *v)
		}
	}
	if w.grouped {
		return
	}
	w.run = c.GP64()
	c.Load(c.Param("shift"), reg.RCX)
	c.MOVQ(operand.U32(1), w.run) // (1 << shift + 1) / 2 stripes have the same scales
	c.SHLQ(reg.CL, w.run)
	c.INCQ(w.run)
	c.SHRQ(operand.Imm(1), w.run)
}

// multiply is the kernel for few rows of x.
func (w weightReader) multiply() {
	order := either(w.packed(), fmt.Sprintf(": of %d elements of x the even ones come first.", w.isa.bytes/2), ".")
	w.begin("weightStripes", "weightGroups", "x *float32, xRow, rows int, lanes *float32, more",
		"adds the products of so many stripes of rows of x, xRow bytes apart, with",
		"weights (q - zero) * scale to lanes, or to 0 unless there are more"+order+w.ofZeros())
	w.sums()
	row := param(w.c, "xRow")
	for count := either(w.isa.masks, 4, 1); count > 1; count-- {
		fewer := w.newLabel("fewer")
		branch(w.c.CMPQ, w.rows, operand.U32(count), w.c.JLT, fewer)
		w.stripes(count, row)
		w.c.Label(fewer)
	}
	w.stripes(1, row)
}

// ofZeros says what withZeros does.
func (w weightReader) ofZeros() string {
	return either(w.makesTables(), "", " Where zero is nil there are no zero points.")
}

// makesTables reports whether the 16 weights of codes are in a table.
func (w weightReader) makesTables() bool { return w.widen == "" && !w.grouped }

// stripes handles some rows of x, and returns.
func (w weightReader) stripes(count int, xRow reg.GPVirtual) {
	bytes, column := w.isa.bytes, w.newLabel("column")
	w.c.Label(column)
	acc := w.accumulators(count, stripeLanes/w.kernel.lanes, bytes, true)
	w.reorder(acc, w.part)
	x := w.rowsFrom(w.x, xRow, count)
	w.withZeros(func(w weightReader) {
		add := func(v int, weights reg.VecVirtual) {
			for row := range count {
				w.add(x.at(row).Offset(v*bytes), weights, acc.vectors[row][v])
			}
		}
		w.each(add, x, laneBytes)
		w.rest(func() {}, add)
	})
	w.reorder(acc, w.interleave)
	w.store(acc)
	w.c.ADDQ(operand.U32(laneBytes), w.lanes)
	w.nextColumn(column, moved{"q", "qRow", w.q}, moved{"scale", "scaleRow", w.scale}, moved{"zero", "zeroRow", w.zero})
	endFunction(w.c)
}

// withZeros emits code for codes that have zero points, and once more for those that have none.
// Tables are made of them so seldom that there it would save nothing.
func (w weightReader) withZeros(code func(w weightReader)) {
	if w.makesTables() {
		code(w)
		return
	}
	none, done := w.newLabel("none"), w.newLabel("made")
	branch(w.c.TESTQ, w.zero, w.zero, w.c.JEQ, none)
	code(w)
	w.c.JMP(operand.LabelRef(done))
	w.c.Label(none)
	w.z = [2]reg.VecVirtual{}
	code(w)
	w.c.Label(done)
}

// moved is a parameter that moves on by a row, and the register that has it.
type moved struct {
	name, row string
	to        reg.GPVirtual
}

// nextColumn goes on with the next column, if there is one.
func (w weightReader) nextColumn(column string, all ...moved) {
	c, end := w.c, w.newLabel("end")
	c.DECQ(place(c, "columns"))
	c.JLE(operand.LabelRef(end))
	for _, m := range all {
		c.MOVQ(place(c, m.row), m.to)
		c.ADDQ(place(c, m.name), m.to)
		c.MOVQ(m.to, place(c, m.name))
	}
	c.MOVQ(place(c, "steps"), w.steps)
	c.JMP(operand.LabelRef(column))
	c.Label(end)
}

// reorder changes the order of lanes, two vectors at a time, where that of elements
// is another.
func (w weightReader) reorder(acc accumulators, change func(a, b reg.VecVirtual) (reg.VecVirtual, reg.VecVirtual)) {
	if !w.packed() {
		return
	}
	for _, vectors := range acc.vectors {
		for v := 0; v < len(vectors); v += 2 {
			vectors[v], vectors[v+1] = change(vectors[v], vectors[v+1])
		}
	}
}

// each makes the weights of all stripes; rows move on by bytes with each.
func (w weightReader) each(use func(v int, weights reg.VecVirtual), r rows, bytes int) {
	const ahead = 32 // stripes: rows of codes are longer than what processors fetch by themselves
	c, stripes, stripe, end := w.c, w.steps, w.newLabel("stripe"), w.newLabel("end")
	group := w.newLabel("group")
	w.beginGroups()
	c.Label(group)
	branch(c.TESTQ, w.steps, w.steps, c.JLE, end)
	if !w.grouped {
		stripes = c.GP64()
		c.MOVQ(w.run, stripes)
		c.CMPQ(stripes, w.steps)
		c.CMOVQGT(w.steps, stripes)
		c.SUBQ(stripes, w.steps)
		for half := range w.s {
			w.parameters(half)
		}
		c.LEAQ(operand.Mem{Base: w.at, Index: stripes, Scale: 2, Disp: -2}, w.at)
	}
	c.Label(stripe)
	c.PREFETCHT0(operand.Mem{Base: w.q, Disp: ahead * w.bytes})
	for half := range w.s {
		w.weights(half, nil, use)
	}
	c.ADDQ(operand.U32(w.bytes), w.q)
	if w.grouped {
		c.ADDQ(operand.U32(w.numberBytes()), w.at)
	}
	r.moveOn(c, operand.U32(bytes))
	c.DECQ(stripes)
	c.JNE(operand.LabelRef(stripe))
	if !w.grouped {
		c.JMP(operand.LabelRef(group))
	}
	c.Label(end)
}

// rest makes the weights of a stripe that is not whole, 0 where it has none, if there is one: it begins, and then there
// may be but one half.
func (w weightReader) rest(begin func(), use func(v int, weights reg.VecVirtual)) {
	c, bits, end := w.c, param(w.c, "rest"), w.newLabel("whole")
	for half := range w.s {
		branch(c.TESTQ, bits, bits, c.JEQ, end)
		if half == 0 {
			begin()
		}
		within, keep := w.within(half, bits)
		w.parameters(half)
		w.weights(half, within, func(v int, weights reg.VecVirtual) {
			keep(v, weights)
			use(v, weights)
		})
	}
	c.Label(end)
}

// within takes the next 32 bits. It returns masks for each vector of half a stripe, where there are such, and what makes
// weights 0 that have no bit, one vector after the other.
func (w weightReader) within(half int, bits reg.GPVirtual) (mask, func(v int, weights reg.VecVirtual)) {
	c := w.c
	if !w.isa.masks {
		left, ends := w.vector(), w.kernel.table("ends", operand.U32(31), operand.U32(30), operand.U32(29), operand.U32(28),
			operand.U32(27), operand.U32(26), operand.U32(25), operand.U32(24)) // what makes a lane's bit the sign
		c.VMOVD(bits.As32(), left.AsX())
		c.VPBROADCASTD(left.AsX(), left)
		c.SHRQ(operand.Imm(32), bits)
		return nil, func(_ int, weights reg.VecVirtual) {
			m := w.vector()
			w.emit("VPSLLVD", ends, left, m)
			w.emit("VPSRAD", 31, m, m)
			w.emit("VPSRLD", w.kernel.lanes, left, left)
			w.emit("VANDPS", m, weights, weights)
		}
	}
	within := make(mask, stripeLanes/w.kernel.lanes)
	for v := range within {
		if v/(len(within)/2) == half {
			within[v] = c.K()
			c.KMOVW(bits.As32(), within[v])
			c.SHRQ(operand.Imm(16), bits)
		}
	}
	return within, func(v int, weights reg.VecVirtual) { w.emit("VMOVAPS_Z", weights, within[v], weights) }
}
