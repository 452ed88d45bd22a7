package main

import (
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// outside emits searches of lists of indices of 64 and of 32 bits: for one that
// names no row, and for one that does not go on from the one before.
func outside(c *build.Context) {
	for _, t := range []indexType{{"64", 8, c.VPBROADCASTQ, c.VPSUBQ}, {"32", 4, c.VPBROADCASTD, c.VPSUBD}} {
		t.largest(c)
		t.search(c, "outsideAVX2I"+t.bits, "last", "reports whether one of n indices, a multiple of 32, is negative or more than the last, which is -1 at least.", false)
		t.search(c, "leapsAVX2I"+t.bits, "most", "reports whether one of n indices, a multiple of 32, that follow the first is negative, less than the one before or larger by more than most.", true)
	}
}

type indexType struct {
	bits      string
	size      int
	broadcast func(...operand.Op)
	sub       func(...operand.Op)
}

// largest emits the search for one outside by the largest, without a sign: negative ones
// are larger than all others.
func (t indexType) largest(c *build.Context) {
	name := "outsideAVX512I" + t.bits
	beginFunction(c, name, "func(indices *int"+t.bits+", n int, last int"+t.bits+") bool",
		name+" reports whether one of n indices, a multiple of 32, is negative or more than the last, which is -1 at least.")
	k := &kernel{c: c, isa: avx512}
	indices, limit, first := param(c, "indices"), k.vector(), c.XMM()
	largest := value{k.vector(), k.vector()}
	for _, r := range largest {
		k.emit("VPXORQ", r, r, r)
	}
	whole := map[string]string{"64": "Q", "32": "D"}[t.bits]
	while(c, param(c, "n"), 32, "next", "done", func() {
		for at := 0; at < 32*t.size; at += 64 {
			r := largest[at/64%2]
			k.emit("VPMAXU"+whole, operand.Mem{Base: indices, Disp: at}, r, r)
		}
		c.ADDQ(operand.U32(32*t.size), indices)
	})
	end := param(c, "last")
	c.INCQ(end)
	c.VMOVQ(end, first)
	k.emit("VPBROADCAST"+whole, first, limit)
	k.emit("VPMAXU"+whole, largest[1], largest[0], largest[0])
	const notLess = 5 // of whole numbers
	outside, found, any := c.K(), c.GP32(), c.GP8()
	k.emit("VPCMPU"+whole, notLess, limit, largest[0], outside)
	c.KMOVW(outside, found)
	c.TESTL(found, found)
	c.SETNE(any)
	c.Store(any, c.ReturnIndex(0))
	endFunction(c)
}

// search emits the search of indices, or of what is from one to the next, for
// what is negative or too large.
func (t indexType) search(c *build.Context, name, limit, doc string, steps bool) {
	beginFunction(c, name, "func(indices *int"+t.bits+", n int, "+limit+" int"+t.bits+") bool", name+" "+doc)
	indices, first, most, signs := param(c, "indices"), c.XMM(), c.YMM(), []reg.VecVirtual{c.YMM(), c.YMM()}
	c.VMOVQ(param(c, limit), first)
	t.broadcast(first, most)
	for _, s := range signs {
		c.VPXOR(s, s, s)
	}
	n := param(c, "n")
	while(c, n, 32, "next", "done", func() {
		for at := 0; at < 32*t.size; at += 32 {
			index, left, signs := c.YMM(), c.YMM(), signs[at/32%2] // two chains of sums of signs
			if steps {
				c.VMOVDQU(operand.Mem{Base: indices, Disp: at + t.size}, index)
				c.VPOR(index, signs, signs)
				t.sub(operand.Mem{Base: indices, Disp: at}, index, index)
			} else {
				c.VMOVDQU(operand.Mem{Base: indices, Disp: at}, index)
			}
			t.sub(index, most, left)
			c.VPOR(index, left, left)
			c.VPOR(left, signs, signs)
		}
		c.ADDQ(operand.U32(32*t.size), indices)
	})
	c.VPOR(signs[1], signs[0], signs[0])
	found, sign := c.GP32(), c.GP8()
	if t.size == 8 {
		c.VMOVMSKPD(signs[0], found)
	} else {
		c.VMOVMSKPS(signs[0], found)
	}
	c.VZEROUPPER()
	c.TESTL(found, found)
	c.SETNE(sign)
	c.Store(sign, c.ReturnIndex(0))
	c.RET()
}

// widen emits the conversion of indices of 32 bits to 64.
func widen(c *build.Context) {
	beginFunction(c, "widenAVX2", "func(to *int64, from *int32, n int)",
		"widenAVX2 converts n indices, a multiple of 16.")
	to, from := param(c, "to"), param(c, "from")
	inSteps(c, 16, func() {
		for at := 0; at < 16; at += 4 {
			index := c.YMM()
			c.VPMOVSXDQ(operand.Mem{Base: from, Disp: 4 * at}, index)
			c.VMOVDQU(index, operand.Mem{Base: to, Disp: 8 * at})
		}
		c.ADDQ(operand.Imm(64), from)
		c.ADDQ(operand.U32(128), to)
	})
}
