package main

import (
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Packed rows are for kernels that multiply some vectors of all stripes, then others: as many as there are
// registers for. Lanes fold by halves, so that what is multiplied last folds with what is next to last.

// together is how many vectors of a stripe are multiplied at a time.
func (k *kernel) together() int { return either(k.isa.masks, 2, 1) }

// times is how many times there are vectors to multiply.
func (k *kernel) times() int { return stripeLanes / k.lanes / k.together() }

// packedAt returns when a vector of a stripe is multiplied, and where it is among those of that time.
func (k *kernel) packedAt(v int) (time, at int) {
	for bit, n := 1, k.times()/2; n > 0; bit, n = 2*bit, n/2 {
		if v&bit != 0 {
			time += n
		}
	}
	return time, v / k.times()
}

// packStripes are the kernels that pack the stripes of a row.
func packStripes(c *build.Context) {
	for _, isa := range isas {
		name := "packStripes" + isa.name
		beginFunction(c, name, "func(from *float32, steps int, to *float32, apart int)",
			name+" packs so many stripes of 64 elements; vectors that are multiplied at another time lie apart bytes apart.")
		k := &kernel{c: c, isa: isa, compute: f32, lanes: isa.bytes / 4}
		from, steps, vectors := param(c, "from"), param(c, "steps"), stripeLanes/k.lanes
		to := k.newPackedRows(param(c, "to"), param(c, "apart"))
		while(c, steps, 1, "stripe", "done", func() {
			for v := range vectors {
				x := k.vector()
				k.emit("VMOVUPS", operand.Mem{Base: from, Disp: v * isa.bytes}, x)
				k.emit("VMOVUPS", x, to.at(v))
			}
			c.ADDQ(operand.U32(laneBytes), from)
			to.moveOn(c, operand.U32(k.together()*isa.bytes))
		})
		endFunction(c)
	}
}

// packedRows is where vectors of a stripe are packed to.
type packedRows struct {
	rows
	*kernel
}

func (k *kernel) newPackedRows(to, apart reg.GPVirtual) packedRows {
	return packedRows{k.rowsFrom(to, apart, k.times()), k}
}

func (r packedRows) at(v int) operand.Mem {
	time, at := r.packedAt(v)
	return r.rows.at(time).Offset(at * r.isa.bytes)
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
				four[i] = k.foldToVector(operand.Mem{Base: lanes, Disp: i * laneBytes})
			}
			c.VMOVUPS(k.foldFour(four), operand.Mem{Base: y})
			c.ADDQ(operand.U32(sumBytes), lanes)
			c.ADDQ(yRow, y)
		})
		endFunction(c)
	}
}

// foldToVector adds the upper half of 64 lanes to the lower one, and so on, until
// there is one vector.
func (k *kernel) foldToVector(lanes operand.Mem) reg.VecVirtual {
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
	return vectors[0]
}

// foldFour goes on until there is an element of each of four vectors.
func (k *kernel) foldFour(vectors [4]reg.VecVirtual) reg.VecVirtual {
	c := k.c
	for i, v := range vectors {
		if k.isa.masks {
			half := c.YMM()
			c.VEXTRACTF64X4(operand.Imm(1), v, half)
			c.VADDPS(half, v.AsY(), half)
			v = half
		}
		quarter := c.XMM()
		c.VEXTRACTF128(operand.Imm(1), v.AsY(), quarter)
		c.VADDPS(quarter, v.AsX(), quarter)
		vectors[i] = quarter
	}
	var two [2]reg.VecVirtual
	for i := range two {
		a, b := vectors[2*i], vectors[2*i+1]
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
	return even
}

// pack stores the weights of a row of codes in packed rows.
func (w weightReader) pack() {
	w.begin("packWeights", "packGroups", "to *float32, toRow, apart int", "packs so many stripes of weights (q - zero) * scale, as packStripes"+w.isa.name+" does,", "for columns toRow bytes apart."+w.ofZeros())
	column := w.newLabel("column")
	w.c.Label(column)
	to := w.newPackedRows(param(w.c, "to"), param(w.c, "apart"))
	store := func(v int, weights reg.VecVirtual) { w.emit("VMOVUPS", weights, to.at(v)) }
	var even reg.VecVirtual
	put := func(v int, weights reg.VecVirtual) {
		switch {
		case !w.packed():
			store(v, weights)
		case v%2 == 0:
			even = weights
		default:
			low, high := w.interleave(even, weights)
			store(v-1, low)
			store(v, high)
		}
	}
	w.withZeros(func(w weightReader) {
		w.each(put, to.rows, w.together()*w.isa.bytes)
		w.rest(func() {
			none, vectors := w.vector(), stripeLanes/w.kernel.lanes
			w.emit("VXORPS", none.AsX(), none.AsX(), none.AsX())
			for v := vectors / 2; v < vectors; v++ {
				store(v, none)
			}
		}, put)
	})
	w.nextColumn(column, moved{"q", "qRow", w.q}, moved{"scale", "scaleRow", w.scale}, moved{"zero", "zeroRow", w.zero}, moved{"to", "toRow", w.c.GP64()})
	endFunction(w.c)
}
