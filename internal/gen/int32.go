package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/reg"
)

// i32: more bits than an f32 holds.
var i32 = &storage{"I32", 4, loadI32, packI32, nil, storeMaskedI32, nil}

func loadI32(k *kernel, from memory) reg.VecVirtual {
	if k.double() {
		return k.fetch("VCVTDQ2PD", from, k.vector())
	}
	return k.fetch("VCVTDQ2PS", from, k.vector())
}

// packI32 makes the largest i32 of 2^31, which an f32 holds in its stead. The
// conversion gives -2^31 for it.
func packI32(k *kernel, v value) []reg.Register {
	whole := k.toInt32(v)
	if k.double() {
		return registers(whole)
	}
	beyond := k.compare(v, greaterEqual, k.spread(k.constant(uint32(0x4F000000))))
	for i, x := range whole {
		if k.isa.masks {
			k.emit("VMOVDQU32", k.constant(uint32(0x7FFFFFFF)), beyond[i], x)
		} else {
			k.emit("VPXOR", beyond[i], x, x)
		}
	}
	return registers(whole)
}

func storeMaskedI32(k *kernel, v []reg.Register, to memory) { k.emit("VMOVDQU32", v[0], k.tail, to) }

// codeLessZero returns codes less their zero points, rounded once: those of i32
// by way of f64, which holds both and the difference.
func (k *kernel) codeLessZero(input int) value {
	if k.in[input] != i32 || k.double() {
		return k.sub(k.load(input), k.zero())
	}
	load, narrow, join := "VMOVDQU", "VCVTPD2PSY", "VINSERTF128"
	if k.isa.masks {
		load, narrow, join = "VMOVDQU32", "VCVTPD2PS", "VINSERTF64X4"
	}
	difference := k.newValue()
	for i, zero := range k.zero() {
		codes := k.fetch(load, k.pointer(fmt.Sprintf("in%d", input), i, i32.size), k.vector())
		d := difference[i]
		k.emit("VXORPS", d, d, d) // for avo, which takes what is below for a part of it
		for half, to := range []reg.Register{k.lower(d), k.half()} {
			q, z := k.vector(), k.vector()
			k.emit("VCVTDQ2PD", k.halfOf(codes, half), q)
			k.emit("VCVTPS2PD", k.halfOf(zero, half), z)
			k.emit("VSUBPD", z, q, q)
			k.emit(narrow, q, to)
			if half == 1 {
				k.emit(join, 1, to, d, d)
			}
		}
	}
	return difference
}

// lower returns the lower half of a register.
func (k *kernel) lower(v reg.VecVirtual) reg.Register {
	if k.isa.masks {
		return v.AsY()
	}
	return v.AsX()
}

// halfOf returns the lower (0) or upper (1) half of a register.
func (k *kernel) halfOf(v reg.VecVirtual, half int) reg.Register {
	if half == 0 {
		return k.lower(v)
	}
	upper := k.half()
	if k.isa.masks {
		k.emit("VEXTRACTF64X4", 1, v, upper)
	} else {
		k.emit("VEXTRACTF128", 1, v, upper)
	}
	return upper
}
