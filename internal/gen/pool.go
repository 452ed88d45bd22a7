package main

import (
	"go/types"
	"slices"

	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// notLessOrEqual is a comparison that holds for a NaN on either side, too.
const notLessOrEqual = 22

// maxPool2 takes the largest of 2 x 2 elements, 8 windows at a time. The even
// and the odd elements of a row part by a shuffle within halves of a register,
// so that windows lie in the order 0 1 4 5 2 3 6 7 until the end.
func maxPool2(c *build.Context) {
	f32, i32 := types.Typ[types.Float32], types.Typ[types.Int32]
	rowSignature(c, "maxPool2AVX2", "y[i] = the largest of a[2*i], a[2*i+1], b[2*i], b[2*i+1], first of equals, first NaN before all, and at[i] = its position: first is a[0]'s, first+w b[0]'s", nil,
		pointerTo(f32, "y"), pointerTo(i32, "at"), pointerTo(f32, "a"), pointerTo(f32, "b"), types.NewVar(0, nil, "first", i32), types.NewVar(0, nil, "w", i32))
	y, at, a, b, n := param(c, "y"), param(c, "at"), param(c, "a"), param(c, "b"), param(c, "n")
	broadcast := func(name string) reg.VecVirtual {
		r, v := c.GP32(), c.YMM()
		c.Load(c.Param(name), r)
		c.VMOVD(r, v.AsX())
		c.VPBROADCASTD(v.AsX(), v)
		return v
	}
	table := func(name string, words ...uint32) operand.Mem {
		m := c.StaticGlobal(name)
		c.DataAttributes(attr.RODATA | attr.NOPTR)
		for i, v := range words {
			c.AddDatum(4*i, operand.U32(v))
		}
		return m
	}
	lanes := table("poolLanes", 0, 2, 8, 10, 4, 6, 12, 14)
	masks := table("poolMasks", append(slices.Repeat([]uint32{0xffffffff}, 16), make([]uint32, 16)...)...)
	pos, w := broadcast("first"), broadcast("w")
	c.VPADDD(lanes, pos, pos)
	one, sixteen := c.YMM(), c.YMM()
	c.VPCMPEQD(one, one, one)
	c.VPSRLD(operand.Imm(31), one, one)
	c.VPSLLD(operand.Imm(4), one, sixteen)

	best, where := c.YMM(), c.YMM()
	consider := func(v, place reg.VecVirtual) {
		take, real := c.YMM(), c.YMM()
		c.VCMPPS(operand.Imm(notLessOrEqual), best, v, take)
		c.VCMPPS(operand.Imm(ordered), best, best, real)
		c.VANDPS(real, take, take)
		c.VBLENDVPS(take, v, best, best)
		c.VBLENDVPS(take, place, where, where)
	}
	windows := func(row func(base reg.GPVirtual) (lo, hi reg.VecVirtual)) {
		part := func(base reg.GPVirtual) (even, odd reg.VecVirtual) {
			lo, hi := row(base)
			even, odd = c.YMM(), c.YMM()
			c.VSHUFPS(operand.Imm(0x88), hi, lo, even)
			c.VSHUFPS(operand.Imm(0xdd), hi, lo, odd)
			return even, odd
		}
		even, odd := part(a)
		place := c.YMM()
		c.VMOVAPS(even, best)
		c.VMOVAPS(pos, where)
		c.VPADDD(one, pos, place)
		consider(odd, place)
		even, odd = part(b)
		c.VPADDD(w, pos, place)
		consider(even, place)
		c.VPADDD(one, place, place)
		consider(odd, place)
		c.VPERMPD(operand.Imm(0xd8), best, best)
		c.VPERMQ(operand.Imm(0xd8), where, where)
	}

	c.JMP(operand.LabelRef("test"))
	c.Label("whole")
	windows(func(base reg.GPVirtual) (lo, hi reg.VecVirtual) {
		lo, hi = c.YMM(), c.YMM()
		c.VMOVUPS(operand.Mem{Base: base}, lo)
		c.VMOVUPS(operand.Mem{Base: base, Disp: 32}, hi)
		return lo, hi
	})
	c.VMOVUPS(best, operand.Mem{Base: y})
	c.VMOVUPS(where, operand.Mem{Base: at})
	c.VPADDD(sixteen, pos, pos)
	for _, r := range []reg.GPVirtual{y, at} {
		c.ADDQ(operand.I32(32), r)
	}
	for _, r := range []reg.GPVirtual{a, b} {
		c.ADDQ(operand.I32(64), r)
	}
	c.SUBQ(operand.I32(8), n)
	c.Label("test")
	c.CMPQ(n, operand.I32(8))
	c.JGE(operand.LabelRef("whole"))

	// What is left is loaded and stored under masks: of 2n, 2n-8 and n elements.
	c.TESTQ(n, n)
	c.JE(operand.LabelRef("done"))
	ones, end := c.GP64(), c.GP64()
	c.LEAQ(masks, ones)
	mask := func(at int) reg.VecVirtual {
		m := c.YMM()
		c.VMOVUPS(operand.Mem{Base: end, Disp: 4 * at}, m)
		return m
	}
	c.MOVQ(n, end)
	c.SHLQ(operand.Imm(3), end)
	c.NEGQ(end)
	c.ADDQ(ones, end) // where masks of 2n elements begin, less 16
	first, second := mask(16), mask(16+8)
	windows(func(base reg.GPVirtual) (lo, hi reg.VecVirtual) {
		lo, hi = c.YMM(), c.YMM()
		c.VMASKMOVPS(operand.Mem{Base: base}, first, lo)
		c.VMASKMOVPS(operand.Mem{Base: base, Disp: 32}, second, hi)
		return lo, hi
	})
	c.MOVQ(n, end)
	c.SHLQ(operand.Imm(2), end)
	c.NEGQ(end)
	c.ADDQ(ones, end) // of n elements
	store := mask(16)
	c.VMASKMOVPS(best, store, operand.Mem{Base: y})
	c.VMASKMOVPS(where, store, operand.Mem{Base: at})
	c.Label("done")
	c.VZEROUPPER()
	c.RET()
}
