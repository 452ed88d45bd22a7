package main

import (
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// dotSignature is that of the tiles of some columns, a multiple of 4, and of groups of rows of
// x: rows of x and of w lie a stride of bytes apart, those of acc accStride. ahead is how many bytes later the
// next columns begin, for a row that asks for them in advance, or 0.
const dotSignature = "func(x *int8, xStride int, groups int, w *int8, wStride int, columns int, ahead int, k int, acc *int32, accStride int, correction *int32)"

// fourRows are rows a stride apart, of which up to 4 are read at a time.
type fourRows struct{ at, stride, stride3 reg.GPVirtual }

func newFourRows(c *build.Context, stride reg.GPVirtual) fourRows {
	r := fourRows{c.GP64(), stride, c.GP64()}
	c.LEAQ(operand.Mem{Base: stride, Index: stride, Scale: 2}, r.stride3)
	return r
}

// row is where the next elements of a row are.
func (r fourRows) row(i int) operand.Mem {
	return []operand.Mem{{Base: r.at}, {Base: r.at, Index: r.stride, Scale: 1}, {Base: r.at, Index: r.stride, Scale: 2}, {Base: r.at, Index: r.stride3, Scale: 1}}[i]
}

// dotTiles is a kernel under construction that goes through tiles: 4 columns with all groups of
// rows of x, whose codes stay in the first cache, then the next 4.
type dotTiles struct {
	c             *build.Context
	x, w          fourRows      // the next elements of a tile's rows
	k             reg.GPVirtual // how many are left
	group, column reg.GPVirtual // the first ones
	ahead         reg.GPVirtual // what is asked for of the 4 columns that come next, or 0
	correction    reg.GPVirtual // of the group
	acc           reg.GPVirtual
}

// emitTiles writes the kernel of what a tile does.
func emitTiles(c *build.Context, tile func(t *dotTiles)) {
	t := &dotTiles{
		c: c, x: newFourRows(c, param(c, "xStride")), w: newFourRows(c, param(c, "wStride")),
		k: c.GP64(), group: c.GP64(), column: param(c, "w"), ahead: c.GP64(), correction: c.GP64(), acc: c.GP64(),
	}
	columns, left := place(c, "columns"), c.GP64()
	c.Label("columns")
	c.MOVQ(place(c, "x"), t.group)
	c.MOVQ(place(c, "acc"), t.acc)
	c.MOVQ(place(c, "correction"), t.correction)
	c.MOVQ(place(c, "groups"), left)
	c.Label("group")
	tile(t)
	c.LEAQ(operand.Mem{Base: t.group, Index: t.x.stride, Scale: 4}, t.group)
	c.ADDQ(operand.Imm(16), t.correction)
	c.DECQ(left)
	c.JNE(operand.LabelRef("group"))
	c.LEAQ(operand.Mem{Base: t.column, Index: t.w.stride, Scale: 4}, t.column)
	c.ADDQ(operand.Imm(16), place(c, "acc"))
	c.SUBQ(operand.Imm(4), columns)
	c.JNE(operand.LabelRef("columns"))
	endFunction(c)
}

// start goes to the first elements of the tile.
func (t *dotTiles) start() {
	t.c.MOVQ(t.group, t.x.at)
	t.c.MOVQ(t.column, t.w.at)
	t.c.MOVQ(place(t.c, "k"), t.k)
}

// step goes on by some elements, fewer than 128.
func (t *dotTiles) step(elements uint64) {
	t.c.ADDQ(operand.Imm(elements), t.x.at)
	t.c.ADDQ(operand.Imm(elements), t.w.at)
	t.c.SUBQ(operand.Imm(elements), t.k)
}

// store writes the sums of the next row of x.
func (t *dotTiles) store(move func(...operand.Op), sums reg.Register) {
	move(sums, operand.Mem{Base: t.acc})
	t.c.ADDQ(place(t.c, "accStride"), t.acc)
}

// sumsOf returns registers for the sums of some rows of x.
func sumsOf(rows int, vector func() reg.VecVirtual) [][4]reg.VecVirtual {
	sums := make([][4]reg.VecVirtual, rows)
	for i := range sums {
		for j := range sums[i] {
			sums[i][j] = vector()
		}
	}
	return sums
}
