package main

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// transposedApart is how many bytes rows lie apart at least that are taken in strips.
const transposedApart = 1 << 13

// transposeTile emits the transposition of squares of 16 by 16 elements, by squares
// of a vector's length. Without masks squares that follow each other along rows are taken a strip at a time, of as many
// rows as a vector has elements: lines of 16 rows push each other out of the nearest cache before they are read.
func (k *kernel) transposeTile() {
	c, name := k.c, "transposeTile"+k.isa.name+k.out.name
	beginFunction(c, name, "func(from *byte, fromRow int, fromTile int, to *float32, toRow int, toTile int, tiles int)",
		name+" transposes squares of 16 by 16 elements.")
	t := &transposedTiles{
		kernel: k, from: param(c, "from"), fromRow: param(c, "fromRow"), fromTile: param(c, "fromTile"),
		to: param(c, "to"), toRow: param(c, "toRow"), toTile: param(c, "toTile"),
	}
	tiles := param(c, "tiles")
	t.source, t.target = c.GP64(), c.GP64()
	if !k.isa.masks {
		apart, strips, from, to := k.newLabel("apart"), c.GP64(), c.GP64(), c.GP64()
		branch(c.CMPQ, t.fromTile, operand.U32(16*k.out.size), c.JNE, apart)
		branch(c.CMPQ, t.fromRow, operand.U32(transposedApart), c.JLT, apart)
		c.MOVQ(operand.U32(16/k.lanes), strips)
		while(c, strips, 1, k.newLabel("strip"), k.newLabel("stripped"), func() {
			c.MOVQ(t.from, from)
			c.MOVQ(t.to, to)
			t.each(tiles, k.lanes)
			c.Load(c.Param("tiles"), tiles)
			c.MOVQ(from, t.from)
			c.MOVQ(to, t.to)
			for range k.lanes {
				c.ADDQ(t.fromRow, t.from)
			}
			c.ADDQ(operand.U32(k.lanes*k.compute.size), t.to)
		})
		c.RET()
		c.Label(apart)
	}
	t.each(tiles, 16)
	endFunction(c)
}

// transposedTiles are squares under way.
type transposedTiles struct {
	*kernel
	from, fromRow, fromTile, to, toRow, toTile reg.GPVirtual
	source, target                             reg.GPVirtual
}

// each transposes so many rows of all squares.
func (t *transposedTiles) each(tiles reg.GPVirtual, rows int) {
	while(t.c, tiles, 1, t.newLabel("tile"), t.newLabel("done"), func() {
		for row := 0; row < rows; row += t.lanes {
			for column := 0; column < 16; column += t.lanes {
				t.square(row, column)
			}
		}
		t.c.ADDQ(t.fromTile, t.from)
		t.c.ADDQ(t.toTile, t.to)
	})
}

// square transposes a square of a vector's length, row by row: avo has no registers for 16 addresses.
func (t *transposedTiles) square(row, column int) {
	c, side := t.c, t.lanes
	c.MOVQ(t.from, t.source)
	for range row {
		c.ADDQ(t.fromRow, t.source)
	}
	v := make(value, side)
	for i := range v {
		v[i] = t.out.load(t.kernel, memory{operand.Mem{Base: t.source, Disp: column * t.out.size}})
		if i < side-1 {
			c.ADDQ(t.fromRow, t.source)
		}
	}
	v = t.transpose(v)
	c.MOVQ(t.to, t.target)
	for range column {
		c.ADDQ(t.toRow, t.target)
	}
	for i := range v {
		t.emit("VMOVUPS", v[i], operand.Mem{Base: t.target, Disp: row * t.compute.size})
		if i < side-1 {
			c.ADDQ(t.toRow, t.target)
		}
	}
}

// transposeQuarters transposes as many vectors as a quarter of 16 bytes has elements, or several times as many,
// within quarters: elements, then pairs of elements.
func (k *kernel) transposeQuarters(v value) value {
	step := func(names [2]string, distance int) {
		next := make(value, len(v))
		for i := range v {
			if i/distance%2 == 0 {
				next[i] = k.pairOf(names[0], nil, v[i], v[i+distance])
				next[i+distance] = k.pairOf(names[1], nil, v[i], v[i+distance])
			}
		}
		v = next
	}
	doubles := [2]string{"VUNPCKLPD", "VUNPCKHPD"}
	if k.double() {
		step(doubles, 1)
		return v
	}
	step([2]string{"VUNPCKLPS", "VUNPCKHPS"}, 1)
	step(doubles, 2)
	// Of four vectors a, b, c, d the columns now lie in a, c, b, d.
	for i := 0; i < len(v); i += 4 {
		v[i+1], v[i+2] = v[i+2], v[i+1]
	}
	return v
}

// pairOf returns what an instruction makes of two vectors.
func (k *kernel) pairOf(name string, immediate []any, a, b reg.VecVirtual) reg.VecVirtual {
	to := k.vector()
	k.emit(name, append(immediate, b, a, to)...)
	return to
}

// transpose transposes as many vectors as each has lanes.
func (k *kernel) transpose(v value) value { return k.joinQuarters(k.transposeQuarters(v)) }

// joinQuarters transposes what transposeQuarters left, quarter by quarter.
func (k *kernel) joinQuarters(v value) value {
	quarter := 16 / k.compute.size
	if !k.isa.masks {
		return k.zipQuarters(v, quarter, 0x20, 0x31)
	}
	return k.zipQuarters(k.zipQuarters(v, quarter, 0x88, 0xDD), 2*quarter, 0x88, 0xDD)
}

// zipQuarters makes of each vector and of the one at a distance two with some quarters of both.
func (k *kernel) zipQuarters(v value, distance, low, high int) value {
	name, next := either(k.isa.masks, "VSHUFF32X4", "VPERM2F128"), make(value, len(v))
	for i := range v {
		if i/distance%2 == 0 {
			next[i] = k.pairOf(name, []any{low}, v[i], v[i+distance])
			next[i+distance] = k.pairOf(name, []any{high}, v[i], v[i+distance])
		}
	}
	return next
}
