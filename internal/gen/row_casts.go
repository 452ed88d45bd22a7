package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Casts of autodiff between f32 and other floats: 8 elements of f32, a vector, at a time.

// cast is one; emit loads, converts and stores.
type cast struct {
	name, doc string
	from, to  int // bytes of an element
	emit      func(k *kernel, x, z operand.Mem)
}

var casts = []cast{
	{"bf16ToF32", "f32(x[i])", 2, 4, func(k *kernel, x, z operand.Mem) {
		k.emit("VMOVUPS", loadBF16(k, memory{x}), z)
	}},
	{"f16ToF32", "f32(x[i])", 2, 4, func(k *kernel, x, z operand.Mem) {
		k.emit("VMOVUPS", loadF16(k, memory{x}), z)
	}},
	{"f64ToF32", "f32(x[i])", 8, 4, func(k *kernel, x, z operand.Mem) {
		for half := range 2 {
			v := k.c.XMM()
			k.emit("VCVTPD2PSY", x.Offset(32*half), v)
			k.emit("VMOVUPS", v, z.Offset(16*half))
		}
	}},
	{"f32ToF64", "f64(x[i])", 4, 8, func(k *kernel, x, z operand.Mem) {
		for half := range 2 {
			v := k.vector()
			k.emit("VCVTPS2PD", x.Offset(16*half), v)
			k.emit("VMOVUPS", v, z.Offset(32*half))
		}
	}},
	{"f32ToF16", "f16(x[i])", 4, 2, func(k *kernel, x, z operand.Mem) {
		k.emit("VMOVDQU", packF16(k, value{loadWhole(k, memory{x})})[0], z)
	}},
	{"f32ToBF16", "bf16(x[i]), a NaN keeping its upper bits", 4, 2, func(k *kernel, x, z operand.Mem) {
		v, r, nan := loadWhole(k, memory{x}), k.vector(), k.vector()
		k.emit("VPSRLD", 16, v, r)
		k.emit("VPAND", k.constant(uint32(1)), r, r)
		k.emit("VPADDD", v, r, r)
		k.emit("VPADDD", k.constant(halfLess), r, r)
		k.emit("VPOR", k.constant(uint32(1<<22)), v, nan)
		k.emit("VBLENDVPS", k.compare(value{v}, unordered, value{v})[0], nan, r, r)
		k.emit("VPSRLD", 16, r, r)
		k.emit("VPACKUSDW", r, r, r)
		k.emit("VPERMQ", 0x08, r, r)
		k.emit("VMOVDQU", r.(reg.Vec).AsX(), z)
	}},
}

// castRows emits all of them.
func castRows(c *build.Context, globals *tables) {
	const block = 8
	for _, l := range casts {
		k := newKernel(c, globals, avx2, f32)
		beginFunction(c, l.name+k.isa.name, "func(z, x *uint8, n int)", fmt.Sprintf("z[i] = %s, for n a multiple of %d, not 0.", l.doc, block))
		z, x, n := param(c, "z"), param(c, "x"), param(c, "n")
		c.Label("block")
		l.emit(k, operand.Mem{Base: x}, operand.Mem{Base: z})
		c.ADDQ(operand.Imm(uint64(block*l.from)), x)
		c.ADDQ(operand.Imm(uint64(block*l.to)), z)
		c.SUBQ(operand.Imm(block), n)
		c.JNZ(operand.LabelRef("block"))
		endFunction(c)
	}
}
