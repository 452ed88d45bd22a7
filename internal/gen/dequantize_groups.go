package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
)

// dequantizeGroups are the kernels that make weights of codes: groups one after
// the other, each with a scale and a zero point. Those of f64 are of AVX2 alone.
func dequantizeGroups(c *build.Context) {
	for _, isa := range isas {
		for _, t := range []*storage{s8, u8} {
			dequantizeGroup(c, isa, f32, t)
		}
	}
	for _, t := range []*storage{s8, u8} {
		dequantizeGroup(c, avx2, f64, t)
	}
}

func dequantizeGroup(c *build.Context, isa *isa, compute, t *storage) {
	lanes, float, suffix := isa.bytes/compute.size, "float32", t.name
	if compute == f64 {
		float, suffix = "float64", suffix+"F64"
	}
	name := "dequantizeGroups" + isa.name + suffix
	beginFunction(c, name, fmt.Sprintf("func(q *byte, groups int, size int, scale *%s, zero *%[1]s, w *%[1]s)", float),
		name+" stores (q - zero) * scale of so many groups of a size, a multiple of 16 elements.")
	k := &kernel{c: c, isa: isa, compute: compute, lanes: lanes, group: 16 / lanes}
	q, groups, scale, zero, w := param(c, "q"), param(c, "groups"), param(c, "scale"), param(c, "zero"), param(c, "w")
	size, left, s, z := param(c, "size"), c.GP64(), k.vector(), k.vector()
	while(c, groups, 1, "group", "done", func() {
		k.emit(k.broadcast(), operand.Mem{Base: scale}, s)
		k.emit(k.broadcast(), operand.Mem{Base: zero}, z)
		c.MOVQ(size, left)
		c.Label("sixteen")
		for i := range k.group {
			v := t.load(k, memory{operand.Mem{Base: q, Disp: i * lanes}})
			k.emit(k.ps("VSUB"), z, v, v)
			k.emit(k.ps("VMUL"), s, v, v)
			k.emit(k.ps("VMOVU"), v, operand.Mem{Base: w, Disp: i * isa.bytes})
		}
		c.ADDQ(operand.Imm(16), q)
		c.ADDQ(operand.U32(16*compute.size), w)
		c.SUBQ(operand.Imm(16), left)
		c.JG(operand.LabelRef("sixteen"))
		c.ADDQ(operand.Imm(uint64(compute.size)), scale)
		c.ADDQ(operand.Imm(uint64(compute.size)), zero)
	})
	endFunction(c)
}
