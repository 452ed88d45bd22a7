package main

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// transposeTile emits the transposition of squares of 16 by 16 elements, by squares
// of a vector's length.
func (k *kernel) transposeTile() {
	c, name := k.c, "transposeTile"+k.isa.name+k.out.name
	beginFunction(c, name, "func(from *byte, fromRow int, fromTile int, to *float32, toRow int, toTile int, tiles int)",
		name+" transposes squares of 16 by 16 elements.")
	from, fromRow, fromTile := param(c, "from"), param(c, "fromRow"), param(c, "fromTile")
	to, toRow, toTile, tiles := param(c, "to"), param(c, "toRow"), param(c, "toTile"), param(c, "tiles")
	source, target := c.GP64(), c.GP64()
	while(c, tiles, 1, "tile", "done", func() {
		side := k.lanes
		for row := 0; row < 16; row += side {
			for column := 0; column < 16; column += side {
				// Row by row: avo has no registers for 16 addresses.
				c.MOVQ(from, source)
				for range row {
					c.ADDQ(fromRow, source)
				}
				v := make(value, side)
				for i := range v {
					v[i] = k.out.load(k, memory{operand.Mem{Base: source, Disp: column * k.out.size}})
					if i < side-1 {
						c.ADDQ(fromRow, source)
					}
				}
				v = k.transpose(v)
				c.MOVQ(to, target)
				for range column {
					c.ADDQ(toRow, target)
				}
				for i := range v {
					k.emit("VMOVUPS", v[i], operand.Mem{Base: target, Disp: row * k.compute.size})
					if i < side-1 {
						c.ADDQ(toRow, target)
					}
				}
			}
		}
		c.ADDQ(fromTile, from)
		c.ADDQ(toTile, to)
	})
	endFunction(c)
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
