package main

import (
	"slices"

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
	folded, folds         reg.GPVirtual // where sums of tiles go
}

func newWeightKernel(c *build.Context, isa *isa) weightKernel {
	return weightKernel{kernel: &kernel{c: c, isa: isa, compute: f32, lanes: isa.bytes / 4}}
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
func (k weightKernel) add(x, w any, to reg.VecVirtual) {
	product := k.vector()
	k.emit("VMULPS", x, w, product)
	k.emit("VADDPS", product, to, to)
}

// weightTiles are the kernels for packed stripes.
func weightTiles(c *build.Context) {
	for _, isa := range isas {
		name := "weightTiles" + isa.name
		beginFunction(c, name, "func(x *float32, xRow, rows int, w *float32, wRow, columns, steps, time, end int, lanes *float32, more int, sums *float32, sumsRow, folding int, folds *float32, foldsTile int)",
			name+" multiplies rows of x and of w, whose number is columns, a multiple of 4, of so many packed stripes: what is multiplied",
			"from a time on, to an end. Rows lie xRow and wRow bytes apart. Sums begin with lanes, in an order of their own, if there are more,",
			"else with 0. They go there unless folding is 1: then they are folded with those of other times, which are in folds, foldsTile",
			"bytes from tile to tile, and those of the last time go to sums.")
		k := newWeightKernel(c, isa)
		k.none = k.vector()
		k.emit("VXORPS", k.none.AsX(), k.none.AsX(), k.none.AsX())
		k.lanes, k.folds = param(c, "lanes"), param(c, "folds")
		for count := either(isa.masks, 3, 2); count > 0; count-- {
			more, fewer := k.newLabel("rows"), k.newLabel("fewer")
			c.Label(more)
			branch(c.CMPQ, place(c, "rows"), operand.U32(count), c.JLT, fewer)
			k.tiles(count)
			c.JMP(operand.LabelRef(more))
			c.Label(fewer)
		}
		endFunction(c)
	}
}

// tiles multiplies some rows of x with all rows of w, and moves on by them.
func (k weightKernel) tiles(count int) {
	c := k.c
	w, columns := param(c, "w"), param(c, "columns")
	k.folded = param(c, "sums")
	while(c, columns, weightRows, k.newLabel("columns"), k.newLabel("multiplied"), func() {
		k.tile(count, w)
		wRow := param(c, "wRow")
		c.LEAQ(operand.Mem{Base: w, Index: wRow, Scale: weightRows}, w)
		c.ADDQ(operand.U32(4*weightRows), k.folded)
	})
	for _, moved := range [][2]string{{"x", "xRow"}, {"sums", "sumsRow"}} {
		row := param(c, moved[1])
		c.IMUL3Q(operand.U32(count), row, row)
		c.ADDQ(row, place(c, moved[0]))
	}
	c.SUBQ(operand.U32(count), place(c, "rows"))
}

// tile multiplies some rows of x with 4 of w.
func (k weightKernel) tile(count int, wFirst reg.GPVirtual) {
	c, bytes, together := k.c, k.isa.bytes, k.together()
	x := k.rowsFrom(param(c, "x"), param(c, "xRow"), count)
	w := k.rowsFrom(wFirst, param(c, "wRow"), weightRows)
	time, again := param(c, "time"), k.newLabel("time")
	c.Label(again)
	acc, left := k.tileSums(count), param(c, "steps")
	step := func(multiply func(x, weight any, sum reg.VecVirtual)) {
		for at := range together {
			var weights [weightRows]any
			for i := range weights {
				if from := w.at(i).Offset(at * bytes); i < k.heldWeights(count) {
					v := k.vector()
					k.emit("VMOVUPS", from, v)
					weights[i] = v
				} else {
					weights[i] = from
				}
			}
			for row, vectors := range acc {
				v := k.vector()
				k.emit("VMOVUPS", x.at(row).Offset(at*bytes), v)
				for i, weight := range weights {
					multiply(v, weight, vectors[i*together+at])
				}
			}
		}
		x.moveOn(c, operand.U32(together*bytes))
		w.moveOn(c, operand.U32(together*bytes))
	}
	begin, begun := k.newLabel("begin"), k.newLabel("begun")
	branch(c.CMPQ, place(c, "more"), operand.Imm(0), c.JEQ, begin)
	k.eachSum(acc, func(at operand.Mem, v reg.VecVirtual) { k.emit("VMOVUPS", at, v) })
	c.JMP(operand.LabelRef(begun))
	c.Label(begin)
	step(func(x, weight any, sum reg.VecVirtual) { k.emit("VMULPS", weight, x, sum) }) // 0 is added at the end
	c.DECQ(left)
	c.Label(begun)
	while(c, left, 1, k.newLabel("step"), k.newLabel("end"), func() {
		step(func(x, weight any, sum reg.VecVirtual) { k.add(weight, x, sum) })
	})
	fold, done := k.newLabel("fold"), k.newLabel("done")
	branch(c.CMPQ, place(c, "folding"), operand.Imm(0), c.JNE, fold)
	k.eachSum(acc, func(at operand.Mem, v reg.VecVirtual) { k.emit("VMOVUPS", v, at) })
	c.JMP(operand.LabelRef(done))
	c.Label(fold)
	k.foldTile(acc, time, done)
	c.Label(done)
	c.ADDQ(operand.U32(count*weightRows*together*bytes), k.lanes)
	c.INCQ(time)
	branch(c.CMPQ, time, place(c, "end"), c.JLT, again)
	c.ADDQ(place(c, "foldsTile"), k.folds)
}

// heldWeights returns how many of the weights that so many rows of x meet are loaded first. Others are read by the
// instructions that multiply: a load by itself takes the place of a product or a sum on Zen 3, which starts four
// of those a cycle, but reads no more than two vectors.
func (k weightKernel) heldWeights(rows int) int {
	switch {
	case k.isa.masks:
		return weightRows
	case rows == 1:
		return 0
	}
	return 1
}

// tileSums returns a row's registers for each row of x: vectors of the first row of w, and so on.
func (k weightKernel) tileSums(rows int) [][]reg.VecVirtual {
	acc := make([][]reg.VecVirtual, rows)
	for row := range acc {
		for range weightRows * k.together() {
			acc[row] = append(acc[row], k.vector())
		}
	}
	return acc
}

// eachSum moves each vector of sums from or to its place: kernels go through them in one order.
func (k weightKernel) eachSum(acc [][]reg.VecVirtual, move func(at operand.Mem, v reg.VecVirtual)) {
	for i, v := range slices.Concat(acc...) {
		move(operand.Mem{Base: k.lanes, Disp: i * k.isa.bytes}, v)
	}
}

// foldTile folds sums with those of earlier times that await them, and keeps them for a later one; those of
// the last time it folds until there is one for each row of x and of w.
func (k weightKernel) foldTile(acc [][]reg.VecVirtual, time reg.GPVirtual, done string) {
	c, together := k.c, k.together()
	four := make([][weightRows]reg.VecVirtual, len(acc))
	for row, vectors := range acc {
		for i := range four[row] {
			four[row][i] = vectors[i*together]
			if together == 2 {
				k.emit("VADDPS", vectors[i*together+1], four[row][i], four[row][i])
			}
		}
	}
	for level, n := 0, k.times(); n > 1; level, n = level+1, n/2 {
		each := func(f func(at operand.Mem, v reg.VecVirtual)) {
			for row, vectors := range four {
				for i, v := range vectors {
					f(operand.Mem{Base: k.folds, Disp: ((level*len(acc)+row)*weightRows + i) * k.isa.bytes}, v)
				}
			}
		}
		await := k.newLabel("await")
		branch(c.TESTQ, operand.U32(1<<level), time, c.JNE, await)
		each(func(at operand.Mem, v reg.VecVirtual) { k.emit("VMOVUPS", v, at) })
		c.JMP(operand.LabelRef(done))
		c.Label(await)
		each(func(at operand.Mem, v reg.VecVirtual) { k.emit("VADDPS", at, v, v) })
	}
	sums := k.rowsFrom(k.folded, param(c, "sumsRow"), len(acc))
	for row, vectors := range four {
		sum := k.foldFour(vectors)
		c.VADDPS(k.none.AsX(), sum, sum) // not -0
		c.VMOVUPS(sum, sums.at(row))
	}
}

// rows lie a step apart. Some have a pointer, from which others lie one, two, four or eight steps away.
type rows struct {
	step     reg.GPVirtual
	numbers  []int // of those that have one
	pointers []reg.GPVirtual
}

func (k *kernel) rowsFrom(first, step reg.GPVirtual, count int) rows {
	r := rows{step: step}
	for i := 0; i < count; i += 3 {
		r.numbers = append(r.numbers, i)
	}
	if count == 16 {
		r.numbers = []int{0, 3, 6, 8, 13} // one fewer
	}
	for i, number := range r.numbers {
		p := k.c.GP64()
		if i == 0 {
			k.c.MOVQ(first, p)
		} else {
			steps := number - r.numbers[i-1]
			k.c.LEAQ(operand.Mem{Base: r.pointers[i-1], Index: step, Scale: uint8(steps &^ 1)}, p)
			if steps%2 != 0 {
				k.c.ADDQ(step, p)
			}
		}
		r.pointers = append(r.pointers, p)
	}
	return r
}

func (r rows) at(row int) operand.Mem {
	for i, p := range slices.Backward(r.pointers) {
		switch steps := row - r.numbers[i]; steps {
		case 0:
			return operand.Mem{Base: p}
		case 1, 2, 4, 8:
			return operand.Mem{Base: p, Index: r.step, Scale: uint8(steps)}
		}
	}
	panic("a row that no pointer is near")
}

// moveOn moves all rows on by so many bytes.
func (r rows) moveOn(c *build.Context, bytes operand.Op) {
	for _, p := range r.pointers {
		c.ADDQ(bytes, p)
	}
}
