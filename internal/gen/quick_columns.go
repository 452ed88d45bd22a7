package main

import (
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Quick codes of elements with a scale each, the same in many rows: what they are made of is
// made once for all of these, and read from memory with each element.

// quickColumns is of how many elements it is made at a time, so that it stays in the first cache.
const quickColumns = 1024

// columnParams is of the elements of some columns. Arrays do not lie a power of 2 apart.
var columnParams = newStruct("columnParams", "is what quick codes of elements with a scale each are made of.", []field{
	{"first", "[quickColumns + 16]float32", "what quick codes are made of"},
	{"last", "[quickColumns + 16]float32", ""},
	{"inverse", "[quickColumns + 16]float32", ""},
	{"rest", "[quickColumns + 16]float32", ""},
	{"zeros", "[quickColumns]uint8", "the lowest bytes of zero points"},
})

// columnPitch is how many bytes the arrays are apart.
var columnPitch = columnParams.offset("last")

// hasColumns reports whether kernels for some types have them. Elements of f32 are divided in
// the time in which it would load what their codes need; codes of 8 bits on AVX2 are quicker.
func (o *op) hasColumns(isa *isa, v variant) bool {
	return v.in[0] != f32 || v.out == code8 && !isa.masks
}

// columnBlocks handles all whole blocks of a row whose elements have what quick codes are made
// of, if they have.
func (k *kernel) columnBlocks(n reg.GPVirtual) {
	none, columns, zeros := k.newLabel("none"), k.c.GP64(), k.c.GP64()
	k.c.MOVQ(k.field("columns"), columns)
	branch(k.c.TESTQ, columns, columns, k.c.JEQ, none)
	k.c.LEAQ(operand.Mem{Base: columns, Disp: columnParams.offset("zeros")}, zeros)
	k.ptr["columns"], k.ptr["zeros"] = columns, zeros
	k.quick = &quick{columns: true}
	k.quickLoop(n, func(k *kernel) {
		k.op.quick(k)
		k.c.ADDQ(operand.U32(f32.size*k.group*k.lanes), columns)
		k.c.ADDQ(operand.U32(k.group*k.lanes), zeros)
	})
	k.c.Label(none)
}

// quickOf returns what quick codes of vector i of the group are made of. That of columns is read
// from memory by the instructions that use it, where a NaN may be in any operand.
func (k *kernel) quickOf(i int) (first, last reg.Register, inverse, rest any) {
	q := k.quick
	if !q.columns {
		return q.first, q.last, q.inverse, q.rest
	}
	at := func(array int) memory { return k.pointer("columns", i, f32.size).plus(array * columnPitch) }
	return k.fetch("VMOVUPS", at(0), k.vector()), k.fetch("VMOVUPS", at(1), k.vector()), at(2), at(3)
}

// quickElements returns where the group's elements are, and registers for them, which have them already but for
// columns in f32: these are read from memory by the first instruction that uses them.
func (k *kernel) quickElements() (from []any, x value) {
	inMemory := k.quick.columns && k.in[0] == f32
	if inMemory {
		x = k.newValue()
	} else {
		x = k.load(0)
	}
	for i, v := range x {
		from = append(from, either[any](inMemory, k.pointer("in0", i, f32.size), v))
	}
	return from, x
}

// zeroBytes makes the lowest bytes of the zero points of columns.
func zeroBytes(c *build.Context) {
	beginFunction(c, "zeroBytesAVX2", "func(to *uint8, zero *float32, zeroStep int, n int)",
		"zeroBytesAVX2 makes the lowest bytes of n zero points, a multiple of 8, of which 8 lie zeroStep bytes after the other.")
	to, from, step := param(c, "to"), param(c, "zero"), param(c, "zeroStep")
	inSteps(c, 8, func() {
		v, high := c.YMM(), c.XMM()
		c.VCVTPS2DQ(operand.Mem{Base: from}, v)
		c.VPSLLD(operand.Imm(24), v, v)
		c.VPSRLD(operand.Imm(24), v, v)
		c.VEXTRACTI128(operand.Imm(1), v, high)
		c.VPACKUSDW(high, v.AsX(), v.AsX())
		c.VPACKUSWB(v.AsX(), v.AsX(), v.AsX())
		c.VMOVQ(v.AsX(), operand.Mem{Base: to})
		c.ADDQ(step, from)
		c.ADDQ(operand.Imm(8), to)
	})
}

// columnParameter loads a parameter that elements of columns have each.
func (k *kernel) columnParameter(name string) {
	if k.quick.columns {
		k.parameter(name)
	}
}
