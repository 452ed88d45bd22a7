package main

import (
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// What packs x and w for the kernels of a linear layer of codes in groups. With VNNI codes of x become unsigned, those of w
// signed bytes; what that and zero points add is taken off by pairs: of x, less its zero point, and less the sum of what
// is left of its codes; of w the sum of its codes, and its zero point.

// linearGroupPacks emits the kernels.
func linearGroupPacks(c *build.Context) {
	k := &kernel{c: c, isa: avx512, compute: f32, out: f32, lanes: 16}
	packGroupRow(k)
	packGroupPanel(k, false)
	packGroupPanel(k, true)
	groupPairs(k)
}

// packGroupRow emits what packs pieces of a row of x.
func packGroupRow(k *kernel) {
	c := k.c
	beginFunction(c, "packGroupRowAVX512", "func(from *byte, codes int, pieces int, size int, masks *[4]uint64, flip uint32, zero int, order *[16]byte, to *byte, pairs *int32)",
		"packGroupRowAVX512 packs pieces of so many codes, made up to a size of up to 128 by zeros: masks have a bit for each code, then for each",
		"place. Codes are flipped and come in an order; pairs are less zero, and less the sum of what is left of codes.")
	from, codes, pieces, size, zero := param(c, "from"), param(c, "codes"), param(c, "pieces"), param(c, "size"), param(c, "zero")
	masks, order, to, pairs, sum, all, none := param(c, "masks"), k.vector(), param(c, "to"), param(c, "pairs"), c.GP64(), c.GP64(), k.vector()
	address := param(c, "order")
	k.emit("VBROADCASTI32X4", operand.Mem{Base: address}, order)
	k.emit("VPXORD", none, none, none)
	var real, room [2]reg.OpmaskVirtual
	var flips [2]reg.VecVirtual
	flip := k.flips()
	for i := range real {
		real[i], room[i], flips[i] = c.K(), c.K(), k.vector()
		c.KMOVQ(operand.Mem{Base: masks, Disp: 8 * i}, real[i])
		c.KMOVQ(operand.Mem{Base: masks, Disp: 16 + 8*i}, room[i])
		k.emit("VMOVDQU8_Z", flip, real[i], flips[i])
	}
	c.MOVQ(zero, all)
	c.IMULQ(codes, all)
	c.NEGQ(zero)
	c.ANDQ(operand.U32(0xffff), zero)
	while(c, pieces, 1, "piece", "done", func() {
		var sums [2]reg.VecVirtual
		for i := range real {
			v := k.vector()
			sums[i] = k.vector()
			k.emit("VMOVDQU8_Z", operand.Mem{Base: from, Disp: 64 * i}, real[i], v)
			k.emit("VPXORD", flips[i], v, v)
			k.emit("VPSADBW", none, v, sums[i])
			k.emit("VPSHUFB", order, v, v)
			k.emit("VMOVDQU8", v, room[i], operand.Mem{Base: to, Disp: 64 * i})
		}
		k.emit("VPADDD", sums[1], sums[0], sums[0])
		addQuarters(c, sums[0], sums[1])
		k.emit("VPSHUFD", 0xee, sums[0].AsX(), sums[1].AsX())
		k.emit("VPADDD", sums[1].AsX(), sums[0].AsX(), sums[0].AsX())
		k.emit("VMOVD", sums[0].AsX(), sum.As32())
		c.NEGQ(sum)
		c.ADDQ(all, sum)
		c.SHLQ(operand.Imm(16), sum)
		c.ORQ(zero, sum)
		c.MOVL(sum.As32(), operand.Mem{Base: pairs})
		c.ADDQ(codes, from)
		c.ADDQ(size, to)
		c.ADDQ(operand.Imm(4), pairs)
	})
	endFunction(c)
}

// flips has the bits that codes are flipped by.
func (k *kernel) flips() reg.VecVirtual {
	bits, v := k.c.GP32(), k.vector()
	k.c.Load(k.c.Param("flip"), bits)
	k.emit("VMOVD", bits, v.AsX())
	k.emit("VPBROADCASTD", v.AsX(), v)
	return v
}

// packGroupPanel emits what packs blocks of 16 rows of w.
func packGroupPanel(k *kernel, halves bool) {
	c, name := k.c, either(halves, "packGroupHalvesAVX512", "packGroupBytesAVX512")
	beginFunction(c, name, "func(from *byte, stride int, blocks int, ahead int, flip uint32, to *byte)",
		name+" packs blocks of 64 bytes of 16 rows of w, flipped, a vector of 4 bytes of each every 256 bytes;",
		either(halves, "bytes are two codes, and the first ones become a vector before the second ones.", "bytes are codes.")+" What lies so many bytes ahead is asked for.")
	from, stride, ahead, to, source := param(c, "from"), param(c, "stride"), param(c, "ahead"), param(c, "to"), c.GP64()
	flip, low := k.flips(), k.bytesOf(0x0f)
	while(c, param(c, "blocks"), 1, "block", "done", func() {
		v := make(value, k.lanes)
		c.MOVQ(from, source)
		for i := range v {
			v[i] = k.vector()
			k.emit("VMOVUPS", operand.Mem{Base: source}, v[i])
			c.PREFETCHT0(operand.Mem{Base: source, Index: ahead, Scale: 1})
			if i < len(v)-1 {
				c.ADDQ(stride, source)
			}
		}
		at := 0
		store := func(v reg.VecVirtual) {
			k.emit("VMOVUPS", v, operand.Mem{Base: to, Disp: at})
			at += groupPitch
		}
		for _, codes := range k.transpose(v) {
			if halves {
				high := k.splitHalves(codes, flip, low)
				store(codes)
				store(high)
				continue
			}
			k.emit("VPXORD", flip, codes, codes)
			store(codes)
		}
		c.ADDQ(operand.Imm(64), from)
		c.ADDQ(operand.U32(uint32(at)), to)
	})
	endFunction(c)
}

// splitHalves leaves the lower halves of bytes, flipped, and returns the upper ones.
func (k *kernel) splitHalves(codes, flip, low reg.VecVirtual) (high reg.VecVirtual) {
	const flippedLow = 0b_00101000 // (codes ^ flip) & low
	high = k.vector()
	k.emit("VPSRLW", 4, codes, high)
	k.emit("VPTERNLOGD", flippedLow, low, flip, codes)
	k.emit("VPTERNLOGD", flippedLow, low, flip, high)
	return high
}

// groupPairs emits what makes the pairs of a panel of w.
func groupPairs(k *kernel) {
	c := k.c
	beginFunction(c, "groupPairsVNNI", "func(w *byte, steps int, pieces int, groups int, zero *float32, lo float32, hi float32, offset float32, to *byte)",
		"groupPairsVNNI makes the pairs of 64 columns: the sum of a piece's codes, and the zero point of its group, from lo to hi, plus offset;",
		"without zero points the offset alone.")
	w, steps, pieces, groups, zero, to := param(c, "w"), c.GP64(), c.GP64(), param(c, "groups"), param(c, "zero"), param(c, "to")
	ones := k.bytesOf(0x01)
	zeros, sums := make(value, 4), make(value, 4)
	for j := range zeros {
		zeros[j], sums[j] = k.vector(), k.vector()
		k.emit("VBROADCASTSS", place(c, "offset"), zeros[j])
		k.emit("VCVTPS2DQ", zeros[j], zeros[j])
		k.emit("VPSLLD", 16, zeros[j], zeros[j])
	}
	lo, hi, offset := k.spreadParam("lo"), k.spreadParam("hi"), k.spreadParam("offset")
	while(c, groups, 1, "group", "done", func() {
		branch(c.TESTQ, zero, zero, c.JEQ, "pieces")
		for j, z := range zeros {
			k.emit("VMAXPS", operand.Mem{Base: zero, Disp: 64 * j}, lo, z)
			k.emit("VMINPS", hi, z, z)
			k.emit("VADDPS", offset, z, z)
			k.emit("VCVTPS2DQ", z, z)
			k.emit("VPSLLD", 16, z, z)
		}
		c.ADDQ(operand.U32(groupPitch), zero)
		c.Label("pieces")
		c.MOVQ(place(c, "pieces"), pieces)
		c.Label("piece")
		for _, sum := range sums {
			k.emit("VPXORD", sum, sum, sum)
		}
		c.MOVQ(place(c, "steps"), steps)
		c.Label("step")
		for j, sum := range sums {
			codes := k.vector()
			k.emit("VMOVUPS", operand.Mem{Base: w, Disp: 64 * j}, codes)
			vpdpbusd(c, codes, ones, sum)
		}
		c.ADDQ(operand.U32(groupPitch), w)
		c.DECQ(steps)
		c.JNE(operand.LabelRef("step"))
		for j, sum := range sums {
			k.emit("VPSLLD", 16, sum, sum)
			k.emit("VPSRLD", 16, sum, sum)
			k.emit("VPORD", zeros[j], sum, sum)
			k.emit("VMOVUPS", sum, operand.Mem{Base: to, Disp: 64 * j})
		}
		c.ADDQ(operand.U32(groupPitch), to)
		c.DECQ(pieces)
		c.JNE(operand.LabelRef("piece"))
	})
	endFunction(c)
}
