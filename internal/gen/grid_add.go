package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// The kernels of the input's gradient.

// pixels numbers the taps' pixels from those of the pairs.
func (k *gridKernel) pixels() {
	one := k.number(1)
	k.forVectors(func() {
		pitch, first := k.integer(paramPitch), k.integer(paramFirst)
		pair := k.apply("VPSUBD", first, k.loadPlane(planePair))
		// Steps from the pair's first element to the near and the far tap.
		var step [2][2]value
		for axis, unit := range []value{one, pitch} {
			near, far := k.maskPlane(planeSwap+2*axis), k.maskPlane(planeSwap+2*axis+1)
			step[axis] = [2]value{k.keep(near, unit), k.pick(far, k.zero(), unit)}
		}
		count := k.integer(paramPixels)
		for tap := range 4 {
			pixel := k.apply("VPADDD", step[0][tap&1], k.apply("VPADDD", step[1][tap>>1], pair))
			pixel = k.pick(k.maskPlane(planeInside+tap), pixel, k.number(0xFFFFFFFF))
			k.storePlane(planePixel+tap, k.pick(k.lessThan(pixel, count), pixel, k.number(0xFFFFFFFF)))
		}
	})
}

// lessThan returns where signed integers a are less than b.
func (k *gridKernel) lessThan(a, b value) mask {
	if k.isa.masks {
		m := k.c.K()
		k.emit("VPCMPGTD", a[0], b[0], m)
		return mask{m}
	}
	m := k.vector()
	k.emit("VPCMPGTD", a[0], b[0], m)
	return mask{m}
}

// maxAddChannels is how many channels are added at once: they share pixels
// and weights.
const maxAddChannels = 4

// gridAdd emits the additions of the input's gradient: g * w to every tap's
// pixel, in the order of positions, then taps.
func gridAdd(c *build.Context, channels int) {
	name := fmt.Sprintf("gridAdd%d", channels)
	beginFunction(c, name, "func(cells *byte, n int, plane *float32, planeStride int, dy *float32, dyStride int)",
		fmt.Sprintf("%s adds dy times weight to every tap's pixel, for each of %d channels.", name, channels))
	planes := rowsApart(c, param(c, "plane"), param(c, "planeStride"), channels)
	dy := rowsApart(c, param(c, "dy"), param(c, "dyStride"), channels)
	cells, n := param(c, "cells"), param(c, "n")
	c.Label("position")
	c.TESTQ(n, n)
	c.JLE(operand.LabelRef("done"))
	var g []reg.VecVirtual
	for _, r := range dy {
		x := c.XMM()
		c.VMOVSS(operand.Mem{Base: r}, x)
		c.ADDQ(operand.Imm(4), r)
		g = append(g, x)
	}
	for tap := range 4 {
		skip := fmt.Sprintf("skip%d", tap)
		at := c.GP64()
		c.MOVLQSX(operand.Mem{Base: cells, Disp: (planePixel + tap) * planeBytes}, at)
		c.TESTQ(at, at)
		c.JLT(operand.LabelRef(skip))
		w := c.XMM()
		c.VMOVSS(operand.Mem{Base: cells, Disp: (planeWeight + tap) * planeBytes}, w)
		for i, p := range planes {
			place, term := operand.Mem{Base: p, Index: at, Scale: 4}, c.XMM()
			c.VMULSS(w, g[i], term)
			c.VADDSS(place, term, term)
			c.VMOVSS(term, place)
		}
		c.Label(skip)
	}
	c.ADDQ(operand.Imm(4), cells)
	c.DECQ(n)
	c.JMP(operand.LabelRef("position"))
	c.Label("done")
	c.RET()
}

// addInterleaved is gridAdd for channels that lie side by side.
func (k *gridKernel) addInterleaved() {
	c := k.c
	sums, dy := param(c, "sums"), param(c, "dy")
	vectors := 64 / k.isa.bytes
	c.Label("position")
	c.TESTQ(k.n, k.n)
	c.JLE(operand.LabelRef("done"))
	var g value
	for i := range vectors {
		g = append(g, loadWhole(k.kernel, memory{operand.Mem{Base: dy, Disp: i * k.isa.bytes}}))
	}
	for tap := range 4 {
		skip := fmt.Sprintf("skip%d", tap)
		at := c.GP64()
		c.MOVLQSX(operand.Mem{Base: k.cells, Disp: (planePixel + tap) * planeBytes}, at)
		c.TESTQ(at, at)
		c.JLT(operand.LabelRef(skip))
		c.SHLQ(operand.Imm(6), at)
		w := k.vector()
		k.emit("VBROADCASTSS", operand.Mem{Base: k.cells, Disp: (planeWeight + tap) * planeBytes}, w)
		for i := range vectors {
			place, term := operand.Mem{Base: sums, Index: at, Scale: 1, Disp: i * k.isa.bytes}, k.vector()
			k.emit("VMULPS", w, g[i], term)
			k.emit("VADDPS", place, term, term)
			k.emit("VMOVUPS", term, place)
		}
		c.Label(skip)
	}
	c.ADDQ(operand.Imm(4), k.cells)
	c.ADDQ(operand.Imm(64), dy)
	c.DECQ(k.n)
	c.JMP(operand.LabelRef("position"))
	c.Label("done")
	c.VZEROUPPER()
	c.RET()
}

// gridCount emits the count of contributions.
func gridCount(c *build.Context) {
	beginFunction(c, "gridCount", "func(cells *byte, n int, count *uint8) (wraps int)",
		"gridCount counts the contributions of n positions to each pixel, and returns how",
		"often a count wrapped to 0.")
	cells, n, count, wraps := param(c, "cells"), param(c, "n"), param(c, "count"), c.GP64()
	c.XORQ(wraps, wraps)
	c.Label("position")
	c.TESTQ(n, n)
	c.JLE(operand.LabelRef("done"))
	for tap := range 4 {
		skip := fmt.Sprintf("skip%d", tap)
		at := c.GP64()
		c.MOVLQSX(operand.Mem{Base: cells, Disp: (planePixel + tap) * planeBytes}, at)
		c.TESTQ(at, at)
		c.JLT(operand.LabelRef(skip))
		c.ADDB(operand.Imm(1), operand.Mem{Base: count, Index: at, Scale: 1})
		c.ADCQ(operand.Imm(0), wraps)
		c.Label(skip)
	}
	c.ADDQ(operand.Imm(4), cells)
	c.DECQ(n)
	c.JMP(operand.LabelRef("position"))
	c.Label("done")
	c.Store(wraps, c.Return("wraps"))
	c.RET()
}

// turnTile emits the transposition of squares of 16 by 16 elements, by squares
// of a vector's length.
func (k *kernel) turnTile() {
	c, name := k.c, "turnTile"+k.isa.name+k.out.name
	beginFunction(c, name, "func(from *byte, fromRow int, fromTile int, to *float32, toRow int, toTile int, tiles int)",
		name+" transposes squares of 16 by 16 elements.")
	from, fromRow, fromTile := param(c, "from"), param(c, "fromRow"), param(c, "fromTile")
	to, toRow, toTile, tiles := param(c, "to"), param(c, "toRow"), param(c, "toTile"), param(c, "tiles")
	source, target := c.GP64(), c.GP64()
	c.Label("tile")
	c.TESTQ(tiles, tiles)
	c.JLE(operand.LabelRef("done"))
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
				k.emit("VMOVUPS", v[i], operand.Mem{Base: target, Disp: row * 4})
				if i < side-1 {
					c.ADDQ(toRow, target)
				}
			}
		}
	}
	c.ADDQ(fromTile, from)
	c.ADDQ(toTile, to)
	c.DECQ(tiles)
	c.JMP(operand.LabelRef("tile"))
	c.Label("done")
	c.VZEROUPPER()
	c.RET()
}

// transpose turns as many vectors as each has lanes.
func (k *kernel) transpose(v value) value {
	pair := func(name string, immediate []any, a, b reg.VecVirtual) reg.VecVirtual {
		to := k.vector()
		k.emit(name, append(immediate, b, a, to)...)
		return to
	}
	// Within quarters: elements, then pairs of elements.
	step := func(names [2]string, distance int) {
		next := make(value, len(v))
		for i := range v {
			if i/distance%2 == 0 {
				next[i] = pair(names[0], nil, v[i], v[i+distance])
				next[i+distance] = pair(names[1], nil, v[i], v[i+distance])
			}
		}
		v = next
	}
	step([2]string{"VUNPCKLPS", "VUNPCKHPS"}, 1)
	step([2]string{"VUNPCKLPD", "VUNPCKHPD"}, 2)
	// Of four vectors a, b, c, d the columns now lie in a, c, b, d.
	for i := 0; i < len(v); i += 4 {
		v[i+1], v[i+2] = v[i+2], v[i+1]
	}
	// Then quarters of registers.
	quarters := func(distance, low, high int) {
		name := "VPERM2F128"
		if k.isa.masks {
			name = "VSHUFF32X4"
		}
		next := make(value, len(v))
		for i := range v {
			if i/distance%2 == 0 {
				next[i] = pair(name, []any{low}, v[i], v[i+distance])
				next[i+distance] = pair(name, []any{high}, v[i], v[i+distance])
			}
		}
		v = next
	}
	if !k.isa.masks {
		quarters(4, 0x20, 0x31)
		return v
	}
	quarters(4, 0x88, 0xDD)
	quarters(8, 0x88, 0xDD)
	return v
}
