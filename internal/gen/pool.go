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
	p := pooling{c: c, y: param(c, "y"), at: param(c, "at"), a: param(c, "a"), b: param(c, "b")}
	n := param(c, "n")
	lanes := words(c, "poolLanes", 0, 2, 8, 10, 4, 6, 12, 14)
	masks := words(c, "poolMasks", append(slices.Repeat([]uint32{0xffffffff}, 16), make([]uint32, 16)...)...)
	p.pos, p.w = p.broadcast("first"), p.broadcast("w")
	c.VPADDD(lanes, p.pos, p.pos)
	p.one = c.YMM()
	sixteen := c.YMM()
	c.VPCMPEQD(p.one, p.one, p.one)
	c.VPSRLD(operand.Imm(31), p.one, p.one)
	c.VPSLLD(operand.Imm(4), p.one, sixteen)
	p.best, p.where = c.YMM(), c.YMM()

	c.JMP(operand.LabelRef("test"))
	c.Label("whole")
	p.whole()
	c.VPADDD(sixteen, p.pos, p.pos)
	for _, r := range []reg.GPVirtual{p.y, p.at} {
		c.ADDQ(operand.I32(32), r)
	}
	for _, r := range []reg.GPVirtual{p.a, p.b} {
		c.ADDQ(operand.I32(64), r)
	}
	c.SUBQ(operand.I32(8), n)
	c.Label("test")
	branch(c.CMPQ, n, operand.I32(8), c.JGE, "whole")

	branch(c.TESTQ, n, n, c.JE, "done")
	p.some(n, masks)
	c.Label("done")
	endFunction(c)
}

// words makes a table of them.
func words(c *build.Context, name string, values ...uint32) operand.Mem {
	m := c.StaticGlobal(name)
	c.DataAttributes(attr.RODATA | attr.NOPTR)
	for i, v := range values {
		c.AddDatum(4*i, operand.U32(v))
	}
	return m
}

// pooling is maxPool2 under construction.
type pooling struct {
	c           *build.Context
	y, at, a, b reg.GPVirtual
	pos, w, one reg.VecVirtual // the positions of the even elements of a, how far those of b are from them, 1
	best, where reg.VecVirtual // the largest elements and their positions
}

func (p pooling) broadcast(name string) reg.VecVirtual {
	r, v := p.c.GP32(), p.c.YMM()
	p.c.Load(p.c.Param(name), r)
	p.c.VMOVD(r, v.AsX())
	p.c.VPBROADCASTD(v.AsX(), v)
	return v
}

// consider takes elements that are larger than the best, or NaNs where these are none.
func (p pooling) consider(v, place reg.VecVirtual) {
	take, real := p.c.YMM(), p.c.YMM()
	p.c.VCMPPS(operand.Imm(notLessOrEqual), p.best, v, take)
	p.c.VCMPPS(operand.Imm(ordered), p.best, p.best, real)
	p.c.VANDPS(real, take, take)
	p.c.VBLENDVPS(take, v, p.best, p.best)
	p.c.VBLENDVPS(take, place, p.where, p.where)
}

// windows finds the best of 8 windows, whose two rows row loads.
func (p pooling) windows(row func(base reg.GPVirtual) (lo, hi reg.VecVirtual)) {
	c := p.c
	part := func(base reg.GPVirtual) (even, odd reg.VecVirtual) {
		lo, hi := row(base)
		even, odd = c.YMM(), c.YMM()
		c.VSHUFPS(operand.Imm(0x88), hi, lo, even)
		c.VSHUFPS(operand.Imm(0xdd), hi, lo, odd)
		return even, odd
	}
	even, odd := part(p.a)
	place := c.YMM()
	c.VMOVAPS(even, p.best)
	c.VMOVAPS(p.pos, p.where)
	c.VPADDD(p.one, p.pos, place)
	p.consider(odd, place)
	even, odd = part(p.b)
	c.VPADDD(p.w, p.pos, place)
	p.consider(even, place)
	c.VPADDD(p.one, place, place)
	p.consider(odd, place)
	c.VPERMPD(operand.Imm(0xd8), p.best, p.best)
	c.VPERMQ(operand.Imm(0xd8), p.where, p.where)
}

// whole emits 8 windows.
func (p pooling) whole() {
	c := p.c
	p.windows(func(base reg.GPVirtual) (lo, hi reg.VecVirtual) {
		lo, hi = c.YMM(), c.YMM()
		c.VMOVUPS(operand.Mem{Base: base}, lo)
		c.VMOVUPS(operand.Mem{Base: base, Disp: 32}, hi)
		return lo, hi
	})
	c.VMOVUPS(p.best, operand.Mem{Base: p.y})
	c.VMOVUPS(p.where, operand.Mem{Base: p.at})
}

// some emits fewer, n: they are loaded and stored under masks, of 2n, 2n-8 and n
// elements.
func (p pooling) some(n reg.GPVirtual, masks operand.Mem) {
	c := p.c
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
	p.windows(func(base reg.GPVirtual) (lo, hi reg.VecVirtual) {
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
	c.VMASKMOVPS(p.best, store, operand.Mem{Base: p.y})
	c.VMASKMOVPS(p.where, store, operand.Mem{Base: p.at})
}
