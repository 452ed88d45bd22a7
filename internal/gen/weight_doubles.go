package main

import (
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// The kernel of weight_only_linear in f64. Registers have room for a line of the 64 sums of three rows of x
// and two of weights: lines are taken one after the other, and sums meet in memory before they fold.
const (
	doubleColumns   = 4 // rows of weights whose sums lie side by side
	doubleLanes     = 8 * stripeLanes
	lineBytes       = 64
	vectorsOfALine  = 2
	doublesTogether = 2 // rows of weights that are multiplied at a time
)

// doubleTile is what it takes at a time.
type doubleTile struct {
	*kernel
	x, w          []reg.GPVirtual // rows
	acc           [][]reg.VecVirtual
	lanes, lineAt reg.GPVirtual
}

func weightDoubles(c *build.Context) {
	beginFunction(c, "weightDoublesAVX2", "func(x *float64, xRow, rows int, w *float64, wRow, columns, steps int, lanes *float64, laneRow, more, folding int, sums *float64, sumsRow int)",
		"weightDoublesAVX2 multiplies rows of x with 2 or 4 rows of w, as columns says, of so many stripes of 64. Sums begin with",
		"lanes if there are more, else with 0; each row has 4 times 64 of them, laneRow bytes after those of the row before.",
		"If folding is 1 they are folded then, and go to sums.")
	k := &kernel{c: c, isa: avx2, compute: f64, lanes: 4}
	for count := 3; count > 0; count-- {
		more, fewer := k.newLabel("rows"), k.newLabel("fewer")
		c.Label(more)
		branch(c.CMPQ, place(c, "rows"), operand.U32(count), c.JLT, fewer)
		k.doubleTiles(count)
		c.SUBQ(operand.U32(count), place(c, "rows"))
		c.JMP(operand.LabelRef(more))
		c.Label(fewer)
	}
	endFunction(c)
}

// doubleTiles multiplies some rows of x with all of w, and moves on by them.
func (k *kernel) doubleTiles(count int) {
	c := k.c
	w, columns, lanes, sums := param(c, "w"), param(c, "columns"), param(c, "lanes"), param(c, "sums")
	while(c, columns, doublesTogether, k.newLabel("columns"), k.newLabel("multiplied"), func() {
		t := &doubleTile{kernel: k, lanes: lanes}
		t.x = k.eachRow(param(c, "x"), "xRow", count)
		t.w = k.eachRow(w, "wRow", doublesTogether)
		t.lines()
		t.fold(sums)
		for range doublesTogether {
			c.ADDQ(place(c, "wRow"), w)
		}
		c.ADDQ(operand.U32(doublesTogether*doubleLanes), lanes)
		c.ADDQ(operand.U32(doublesTogether*8), sums)
	})
	for _, moved := range [][2]string{{"x", "xRow"}, {"lanes", "laneRow"}, {"sums", "sumsRow"}} {
		row := param(c, moved[1])
		c.IMUL3Q(operand.U32(count), row, row)
		c.ADDQ(row, place(c, moved[0]))
	}
}

// eachRow returns a pointer to each of some rows.
func (k *kernel) eachRow(first reg.GPVirtual, apart string, count int) []reg.GPVirtual {
	rows := make([]reg.GPVirtual, count)
	for i := range rows {
		rows[i] = k.c.GP64()
		k.c.MOVQ(first, rows[i])
		if first = rows[i]; i > 0 {
			k.c.ADDQ(place(k.c, apart), rows[i])
		}
	}
	return rows
}

// lines adds the products of one line of each stripe after the other.
func (t *doubleTile) lines() {
	c := t.c
	again, end, at := t.newLabel("line"), param(c, "steps"), c.GP64()
	c.SHLQ(operand.Imm(9), end) // 512 bytes of a stripe
	t.lineAt = c.GP64()
	c.MOVQ(t.lanes, t.lineAt)
	left := c.GP64()
	c.MOVQ(operand.U32(doubleLanes/lineBytes), left)
	c.Label(again)
	t.begin()
	c.XORQ(at, at)
	step := t.newLabel("step")
	c.Label(step)
	for half := range vectorsOfALine {
		t.multiply(at, half)
	}
	c.ADDQ(operand.U32(doubleLanes), at)
	branch(c.CMPQ, at, end, c.JLT, step)
	t.each(func(at operand.Mem, v reg.VecVirtual) { c.VMOVUPD(v, at) })
	for _, p := range append(append([]reg.GPVirtual{t.lineAt}, t.x...), t.w...) {
		c.ADDQ(operand.U32(lineBytes), p)
	}
	c.DECQ(left)
	c.JNE(operand.LabelRef(again))
}

// begin begins sums with what is there, or with 0.
func (t *doubleTile) begin() {
	t.acc = make([][]reg.VecVirtual, len(t.x))
	for row := range t.acc {
		for range doublesTogether * vectorsOfALine {
			t.acc[row] = append(t.acc[row], t.vector())
		}
	}
	begin, begun := t.newLabel("begin"), t.newLabel("begun")
	branch(t.c.CMPQ, place(t.c, "more"), operand.Imm(0), t.c.JEQ, begin)
	t.each(func(at operand.Mem, v reg.VecVirtual) { t.c.VMOVUPD(at, v) })
	t.c.JMP(operand.LabelRef(begun))
	t.c.Label(begin)
	t.each(func(_ operand.Mem, v reg.VecVirtual) { t.c.VXORPD(v, v, v) })
	t.c.Label(begun)
}

// each ranges over the sums, and where they lie.
func (t *doubleTile) each(f func(at operand.Mem, v reg.VecVirtual)) {
	for row, vectors := range t.acc {
		for i, v := range vectors {
			column, half := i/vectorsOfALine, i%vectorsOfALine
			f(operand.Mem{Base: t.lineAt, Disp: (row*doubleColumns+column)*doubleLanes + half*t.isa.bytes}, v)
		}
	}
}

// multiply adds the products of a vector of each row.
func (t *doubleTile) multiply(at reg.GPVirtual, half int) {
	c := t.c
	from := func(row reg.GPVirtual) operand.Mem {
		return operand.Mem{Base: row, Index: at, Scale: 1, Disp: half * t.isa.bytes}
	}
	var w [doublesTogether]reg.VecVirtual
	for i := range w {
		w[i] = t.vector()
		c.VMOVUPD(from(t.w[i]), w[i])
	}
	for row, acc := range t.acc {
		x := t.vector()
		c.VMOVUPD(from(t.x[row]), x)
		for i, v := range w {
			product, sum := x, acc[i*vectorsOfALine+half]
			if i+1 < len(w) {
				product = t.vector()
			}
			c.VMULPD(x, v, product)
			c.VADDPD(product, sum, sum)
		}
	}
}

// fold folds the sums, if they are whole.
func (t *doubleTile) fold(to reg.GPVirtual) {
	c, done := t.c, t.newLabel("kept")
	branch(c.CMPQ, place(c, "folding"), operand.Imm(0), c.JEQ, done)
	at := c.GP64()
	c.MOVQ(to, at)
	for row := range t.x {
		var two [doublesTogether]reg.VecVirtual
		for column := range two {
			v := foldDoubles(c, operand.Mem{Base: t.lanes, Disp: (row*doubleColumns + column) * doubleLanes})
			two[column] = c.XMM()
			c.VEXTRACTF128(operand.Imm(1), v, two[column])
			c.VADDPD(v.AsX(), two[column], two[column])
		}
		low, high := c.XMM(), c.XMM()
		c.VUNPCKLPD(two[1], two[0], low)
		c.VUNPCKHPD(two[1], two[0], high)
		c.VADDPD(high, low, low)
		c.VMOVUPD(low, operand.Mem{Base: at})
		c.ADDQ(place(c, "sumsRow"), at)
	}
	c.Label(done)
}
