package main

import (
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// rowNorms emits what max_norm does with whole stripes of a row: sums of
// absolute values, of squares and of cubes, the largest absolute value, and the
// product with a factor.
func rowNorms(c *build.Context) {
	eachFloat(c, func(k *kernel) {
		k.rowSum("Abs", "adds absolute values", func(x, acc reg.VecVirtual) {
			k.abs(x)
			k.emit(k.ps("VADD"), x, acc, acc)
		})
		k.rowSum("Square", "adds squares", func(x, acc reg.VecVirtual) {
			k.emit(k.ps("VMUL"), x, x, x)
			k.emit(k.ps("VADD"), x, acc, acc)
		})
		k.rowSum("Largest", "folds absolute values, a NaN being the largest,", func(x, acc reg.VecVirtual) {
			k.abs(x)
			k.keepLargest(x, acc)
		})
		if !k.double() {
			k.rowSum("Cube", "adds cubes of absolute values", func(x, acc reg.VecVirtual) {
				k.abs(x)
				k.emit("VADDPS", k.cube(x), acc, acc)
			})
		}
		k.scaleRow()
	})
}

// eachFloat calls emit with a kernel of two vectors at a time for each instruction set and float type.
func eachFloat(c *build.Context, emit func(k *kernel)) {
	eachKernel(c, []*storage{f32, f64, bf16, f16}, func(k *kernel) {
		k.group = 2
		emit(k)
	})
}

// rowSum emits a function that adds a term for each element to 64 lanes.
func (k *kernel) rowSum(what, doc string, add func(x, acc reg.VecVirtual)) {
	name := "row" + what + k.isa.name + k.out.name
	beginFunction(k.c, name, "func(x *byte, stripes int, lanes *byte)", name+" "+doc+" to 64 lanes.")
	s := &stripes{kernel: k, data: k.out, elements: 1, sums: 1}
	s.add = func(_ int, x reg.VecVirtual, acc []reg.VecVirtual) { add(x, acc[0]) }
	s.function()
}

// abs clears the signs.
func (k *kernel) abs(x reg.VecVirtual) {
	mask := k.constant(uint32(0x7fffffff))
	if k.double() {
		mask = k.constant(uint64(0x7fffffffffffffff))
	}
	k.emit(k.ps("VAND"), mask, x, x)
}

// cube returns the cubes of f32 elements, computed in f64.
func (k *kernel) cube(x reg.VecVirtual) reg.VecVirtual {
	low, extract, insert, narrow := reg.Register(x.AsX()), "VEXTRACTF128", "VINSERTF128", "VCVTPD2PSY"
	if k.isa.masks {
		low, extract, insert, narrow = x.AsY(), "VEXTRACTF64X4", "VINSERTF64X4", "VCVTPD2PS"
	}
	upper, both := k.half(), k.vector()
	k.emit(extract, 1, x, upper)
	of := func(half reg.Register) reg.VecVirtual {
		wide, square, cubes := k.vector(), k.vector(), k.half()
		k.emit("VCVTPS2PD", half, wide)
		k.emit("VMULPD", wide, wide, square)
		k.emit("VMULPD", square, wide, wide)
		k.emit(narrow, wide, cubes)
		return cubes
	}
	first := of(low)
	if k.isa.masks {
		k.emit(insert, 1, of(upper), first.AsZ(), both)
	} else {
		k.emit(insert, 1, of(upper), first.AsY(), both)
	}
	return both
}

// keepLargest keeps the larger of two absolute values, which compare as their bits
// do: so a NaN, once met, stays.
func (k *kernel) keepLargest(x, acc reg.VecVirtual) {
	switch {
	case !k.double():
		k.emit("VPMAXUD", x, acc, acc)
	case k.isa.masks:
		k.emit("VPMAXUQ", x, acc, acc)
	default:
		more := k.vector()
		k.emit("VPCMPGTQ", acc, x, more)
		k.emit("VBLENDVPD", more, x, acc, acc)
	}
}

// scaleRow multiplies in place.
func (k *kernel) scaleRow() {
	c, name := k.c, "rowScale"+k.isa.name+k.out.name
	beginFunction(c, name, "func(x *byte, n int, factor *byte)", name+" multiplies n elements, a multiple of 64, by a factor.")
	x, factor := param(c, "x"), k.vector()
	k.emit(k.broadcast(), operand.Mem{Base: param(c, "factor")}, factor)
	step := k.group * k.lanes
	inSteps(c, step, func() {
		v := k.newValue()
		for i := range v {
			v[i] = k.out.load(k, memory{operand.Mem{Base: x, Disp: i * k.lanes * k.out.size}})
			k.emit(k.ps("VMUL"), factor, v[i], v[i])
		}
		k.put(k.out.pack(k, v), memory{operand.Mem{Base: x}})
		c.ADDQ(operand.U32(step*k.out.size), x)
	})
}
