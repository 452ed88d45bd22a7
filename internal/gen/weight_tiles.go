package main

import (
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// The kernels of weight_only_linear add products of rows of x with 4 rows of
// weights to sums: for each row of x, one after the other, 4 times 64 lanes.
const (
	weightRows = 4
	laneBytes  = 4 * stripeLanes
	sumBytes   = weightRows * laneBytes
)

// weightKernel is one of them.
type weightKernel struct {
	*kernel
	x, rows, steps, lanes reg.GPVirtual
	more                  reg.GPVirtual // 0: lanes are written, and not added to
	none                  reg.VecVirtual
}

func newWeightKernel(c *build.Context, isa *isa) weightKernel {
	return weightKernel{kernel: &kernel{c: c, isa: isa, compute: f32, lanes: isa.bytes / 4}, steps: param(c, "steps")}
}

// sums loads what kernels that multiply have.
func (k *weightKernel) sums() {
	k.x, k.rows, k.lanes, k.more = param(k.c, "x"), param(k.c, "rows"), param(k.c, "lanes"), param(k.c, "more")
	k.none = k.vector()
	k.emit("VXORPS", k.none.AsX(), k.none.AsX(), k.none.AsX())
}

// accumulators are some for each row of x, which lie bytes apart. They begin with
// what is there if there are more and they go onto it.
type accumulators struct {
	vectors [][]reg.VecVirtual
	apart   int
}

func (k weightKernel) accumulators(rows, count, apart int, onto bool) accumulators {
	acc := accumulators{make([][]reg.VecVirtual, rows), apart}
	for row := range rows {
		for range count {
			acc.vectors[row] = append(acc.vectors[row], k.vector())
		}
	}
	begin, begun := k.newLabel("begin"), k.newLabel("begun")
	if onto {
		branch(k.c.TESTQ, k.more, k.more, k.c.JEQ, begin)
		k.eachOf(acc, func(at operand.Mem, v reg.VecVirtual) { k.emit("VMOVUPS", at, v) })
		k.c.JMP(operand.LabelRef(begun))
		k.c.Label(begin)
	}
	k.eachOf(acc, func(_ operand.Mem, v reg.VecVirtual) { k.emit("VMOVAPS", k.none, v) })
	k.c.Label(begun)
	return acc
}

func (k weightKernel) eachOf(acc accumulators, f func(at operand.Mem, v reg.VecVirtual)) {
	for row, vectors := range acc.vectors {
		for i, v := range vectors {
			f(operand.Mem{Base: k.lanes, Disp: row*sumBytes + i*acc.apart}, v)
		}
	}
}

func (k weightKernel) store(acc accumulators) {
	k.eachOf(acc, func(at operand.Mem, v reg.VecVirtual) { k.emit("VMOVUPS", v, at) })
}

// add adds a product to an accumulator, each rounded.
func (k weightKernel) add(x any, w, to reg.VecVirtual) {
	product := k.vector()
	k.emit("VMULPS", x, w, product)
	k.emit("VADDPS", product, to, to)
}

// weightTiles are the kernels for packed stripes: of each row the first lanes, a
// vector, of all stripes, one after the other.
func weightTiles(c *build.Context) {
	for _, isa := range isas {
		name := "weightTiles" + isa.name
		beginFunction(c, name, "func(x *float32, rows int, w *float32, steps int, lanes *float32, more int)",
			name+" adds the products of so many vectors of some rows of x with those of 4 rows of w",
			"to a vector's lanes, or to 0 unless there are more: rows follow each other in x and in w.")
		k := newWeightKernel(c, isa)
		k.sums()
		w, row := param(c, "w"), c.GP64()
		c.IMUL3Q(operand.U32(isa.bytes), k.steps, row)
		most := either(isa.masks, 6, 2)
		for count := most; count > 0; count-- {
			more, fewer := k.newLabel("rows"), k.newLabel("fewer")
			c.Label(more)
			branch(c.CMPQ, k.rows, operand.U32(count), c.JLT, fewer)
			k.tile(count, w, row)
			c.JMP(operand.LabelRef(more))
			c.Label(fewer)
		}
		endFunction(c)
	}
}

// tile multiplies some rows of x, and moves on by them.
func (k weightKernel) tile(count int, wFirst, row reg.GPVirtual) {
	c := k.c
	acc := k.accumulators(count, weightRows, laneBytes, true)
	x, w, left := k.rowsFrom(k.x, row, count), k.rowsFrom(wFirst, row, weightRows), c.GP64()
	loop, end := k.newLabel("step"), k.newLabel("end")
	c.MOVQ(k.steps, left)
	while(c, left, 1, loop, end, func() {
		var weights [weightRows]reg.VecVirtual
		for i := range weights {
			weights[i] = k.vector()
			k.emit("VMOVUPS", w.at(i), weights[i])
		}
		for i, vectors := range acc.vectors {
			v := k.vector()
			k.emit("VMOVUPS", x.at(i), v)
			for j, to := range vectors {
				k.add(v, weights[j], to)
			}
		}
		x.moveOn(c, operand.U32(k.isa.bytes))
		w.moveOn(c, operand.U32(k.isa.bytes))
	})
	k.store(acc)
	for range count {
		c.ADDQ(row, k.x)
	}
	c.ADDQ(operand.U32(count*sumBytes), k.lanes)
	c.SUBQ(operand.U32(count), k.rows)
}

// rows lie a step apart; every third has a pointer.
type rows struct {
	third []reg.GPVirtual
	step  reg.GPVirtual
}

func (k *kernel) rowsFrom(first, step reg.GPVirtual, count int) rows {
	r := rows{step: step}
	for i := 0; i < count; i += 3 {
		p := k.c.GP64()
		if i == 0 {
			k.c.MOVQ(first, p)
		} else {
			k.c.LEAQ(operand.Mem{Base: r.third[len(r.third)-1], Index: step, Scale: 2}, p)
			k.c.ADDQ(step, p)
		}
		r.third = append(r.third, p)
	}
	return r
}

func (r rows) at(row int) operand.Mem {
	base := r.third[row/3]
	if row%3 == 0 {
		return operand.Mem{Base: base}
	}
	return operand.Mem{Base: base, Index: r.step, Scale: uint8(row % 3)}
}

// moveOn moves all rows on by so many bytes.
func (r rows) moveOn(c *build.Context, bytes operand.Op) {
	for _, p := range r.third {
		c.ADDQ(bytes, p)
	}
}

// packStripes are the kernels that pack the stripes of a row.
func packStripes(c *build.Context) {
	for _, isa := range isas {
		name := "packStripes" + isa.name
		beginFunction(c, name, "func(from *float32, steps int, to *float32, apart int)",
			name+" stores vector v of each of so many stripes of 64 elements one after the other,",
			"from v times apart, in bytes, on.")
		k := &kernel{c: c, isa: isa, compute: f32, lanes: isa.bytes / 4}
		from, steps, vectors := param(c, "from"), param(c, "steps"), stripeLanes/k.lanes
		to := k.rowsFrom(param(c, "to"), param(c, "apart"), vectors)
		while(c, steps, 1, "stripe", "done", func() {
			for v := range vectors {
				x := k.vector()
				k.emit("VMOVUPS", operand.Mem{Base: from, Disp: v * isa.bytes}, x)
				k.emit("VMOVUPS", x, to.at(v))
			}
			c.ADDQ(operand.U32(laneBytes), from)
			to.moveOn(c, operand.U32(isa.bytes))
		})
		endFunction(c)
	}
}

// foldTiles are the kernels that fold sums.
func foldTiles(c *build.Context) {
	for _, isa := range isas {
		name := "foldTiles" + isa.name
		beginFunction(c, name, "func(lanes *float32, rows int, y *float32, yRow int)",
			name+" folds 4 times 64 lanes of each of some rows by halves, and stores the 4 sums;",
			"rows of y lie yRow bytes apart.")
		k := &kernel{c: c, isa: isa, compute: f32, lanes: isa.bytes / 4}
		lanes, rows, y, yRow := param(c, "lanes"), param(c, "rows"), param(c, "y"), param(c, "yRow")
		while(c, rows, 1, "row", "done", func() {
			var four [weightRows]reg.VecVirtual
			for i := range four {
				four[i] = k.foldToFour(operand.Mem{Base: lanes, Disp: i * laneBytes})
			}
			var two [2]reg.VecVirtual
			for i := range two {
				a, b := four[2*i], four[2*i+1]
				low := c.XMM()
				two[i] = c.XMM()
				c.VUNPCKLPD(b, a, low)
				c.VUNPCKHPD(b, a, two[i])
				c.VADDPS(two[i], low, two[i])
			}
			even, odd := c.XMM(), c.XMM()
			c.VSHUFPS(operand.Imm(0x88), two[1], two[0], even)
			c.VSHUFPS(operand.Imm(0xDD), two[1], two[0], odd)
			c.VADDPS(odd, even, even)
			c.VMOVUPS(even, operand.Mem{Base: y})
			c.ADDQ(operand.U32(sumBytes), lanes)
			c.ADDQ(yRow, y)
		})
		endFunction(c)
	}
}

// foldToFour adds the upper half of 64 lanes to the lower one, and so on, until
// there are four.
func (k *kernel) foldToFour(lanes operand.Mem) reg.VecVirtual {
	vectors := make([]reg.VecVirtual, stripeLanes/k.lanes)
	for i := range vectors {
		vectors[i] = k.vector()
		k.emit("VMOVUPS", lanes.Offset(i*k.isa.bytes), vectors[i])
	}
	for n := len(vectors) / 2; n > 0; n /= 2 {
		for i := range n {
			k.emit("VADDPS", vectors[n+i], vectors[i], vectors[i])
		}
	}
	sum := vectors[0]
	if k.isa.masks {
		half := k.c.YMM()
		k.c.VEXTRACTF64X4(operand.Imm(1), sum, half)
		k.c.VADDPS(half, sum.AsY(), half)
		sum = half
	}
	quarter := k.c.XMM()
	k.c.VEXTRACTF128(operand.Imm(1), sum, quarter)
	k.c.VADDPS(quarter, sum.AsX(), quarter)
	return quarter
}
