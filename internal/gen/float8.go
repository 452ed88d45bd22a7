package main

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// 8-bit floats. Loading goes by way of f16, whose exponents include theirs.
// Rounding adds a power of two that leaves as many bits as the type has, then
// takes it off again: to nearest, ties to even, denormals too.

// float8Type stands for both 8-bit types. Which one codes have is a flag of the frame,
// for loads, and the numbers that it points to, by which they are rounded.
var float8Type = &storage{"F8", 1, loadFloat8, packFloat8, nil, storeMaskedCodes("VPMOVDB"), []*storage{{name: "F8E4M3"}, {name: "F8E5M2"}}}

// The numbers of a type, as float8Words in cpu/float8.go has them: vectors of words
// of the compute type's size.
const (
	float8Least = iota // the smallest normal number
	float8Unit         // added to an exponent: that of the number with this one's last bit
	float8Shift        // how many bits of the compute type's mantissa go
	float8Zero         // what packFloat8 makes of the smallest power of two
	float8NaN          // the code
)

// float8 returns the place of a number.
func (k *kernel) float8(number int) memory {
	return memory{operand.Mem{Base: k.ptr["float8"], Disp: 64 * number}}
}

// loadWords loads bytes and widens them to words, with their signs.
func (k *kernel) loadWords(from memory) reg.VecVirtual {
	const widen = "VPMOVSXBW"
	switch {
	case !k.double():
		return k.fetch(widen, from, k.half())
	case k.isa.masks:
		return k.fetch(widen, from, k.c.XMM())
	}
	four := k.c.XMM() // there may be no more than four bytes
	k.emit("VMOVD", from, four)
	k.emit(widen, four, four)
	return four
}

// loadFloat8 makes f16 of codes: those of f8e5m2 are the upper bytes of one; of
// f8e4m3 exponent and mantissa move to where f16 has them, whose exponents are larger
// by 8, and all ones are a NaN.
func loadFloat8(k *kernel, from memory) reg.VecVirtual {
	w, v := k.loadWords(from), k.vector()
	if k.double() {
		v = k.half()
	}
	e5m2, done := k.newLabel("e5m2"), k.newLabel("widened")
	k.jumpIf("e5m2", e5m2)
	k.emit("VPSLLW", 7, w, w)
	ones, low := k.constant(uint32(0x3F803F80)), k.sameSize(w)
	if k.isa.masks {
		nan := k.c.K()
		k.emit("VPANDD", ones, w, low)
		k.emit("VPCMPEQW", ones, low, nan)
		k.emit("VPANDD", k.constant(uint32(0xBF80BF80)), w, w)
		k.emit("VMOVDQU16", k.constant(uint32(0x7E007E00)), nan, w)
	} else {
		k.emit("VPAND", ones, w, low)
		k.emit("VPCMPEQW", ones, low, low)
		k.emit("VPAND", k.constant(uint32(0xBF80BF80)), w, w)
		k.emit("VPOR", low, w, w)
	}
	k.emit("VCVTPH2PS", w, v)
	k.emit("VMULPS", k.constant(uint32(0x43800000)), v, v)
	k.c.JMP(operand.LabelRef(done))
	k.c.Label(e5m2)
	k.emit("VPSLLW", 8, w, w)
	k.emit("VCVTPH2PS", w, v)
	k.c.Label(done)
	if !k.double() {
		return v
	}
	wide := k.vector()
	k.emit("VCVTPS2PD", v, wide)
	return wide
}

// sameSize returns a register of another's size.
func (k *kernel) sameSize(r reg.VecVirtual) reg.VecVirtual {
	if r.Size() == 32 {
		return k.c.YMM()
	}
	return k.c.XMM()
}

// whole returns a constant of the compute type's size: bits of an f32 or of an
// f64, which have their exponent above 23 or 52 bits of mantissa.
func (k *kernel) whole(f32, f64 uint64) memory {
	if k.double() {
		return k.constant(f64)
	}
	return k.constant(uint32(f32))
}

// integer completes the name of an instruction on integers of that size.
func (k *kernel) integer(name string) string {
	if k.double() {
		return name + "Q"
	}
	return name + "D"
}

func (k *kernel) magnitude(u value) value {
	return k.apply(k.ps("VAND"), k.whole(0x7FFFFFFF, 0x7FFFFFFFFFFFFFFF), u)
}

func (k *kernel) sign(u value) value {
	return k.apply(k.ps("VAND"), k.whole(0x80000000, 0x8000000000000000), u)
}

// power returns the power of two whose last bit is the last one that the type
// has of numbers like u. It is of no use where u is infinite.
func (k *kernel) power(u value) value {
	exponent := k.apply(k.ps("VAND"), k.whole(0x7F800000, 0x7FF0000000000000), u)
	exponent = k.apply(k.ps("VMAX"), k.float8(float8Least), exponent)
	return k.apply(k.integer("VPADD"), k.float8(float8Unit), exponent)
}

// roundFloat8 rounds to values of the type, of which it keeps to the range
// that numbers like u have.
func (k *kernel) roundFloat8(u value) value {
	sign := k.sign(u)
	power := k.apply(k.ps("VOR"), sign, k.power(u))
	return k.apply(k.ps("VOR"), sign, k.sub(k.add(u, power), power))
}

// packFloat8 rounds and encodes. What is added to a power of two lies in its
// last bits: for a normal number with the 1 in front of the mantissa, which
// adds 1 to the exponent's place.
func packFloat8(k *kernel, u value) []reg.Register {
	power := k.power(u)
	code := k.apply(k.integer("VPSUB"), power, k.add(k.magnitude(u), power))
	code = k.apply(k.integer("VPADD"), k.apply(k.integer("VPSRLV"), k.float8(float8Shift), power), code)
	code = k.apply(k.integer("VPSUB"), k.float8(float8Zero), code)
	sign := k.apply(k.integer("VPSRL"), 8*k.compute.size-8, k.sign(u))
	code = k.apply(k.ps("VOR"), sign, code)
	code = k.pick(k.compare(u, unordered, u), k.spread(k.float8(float8NaN)), code)
	if k.double() {
		code = k.halves("VPMOVQD", code)
	}
	return k.toBytes(code)
}

// spread loads a constant.
func (k *kernel) spread(c memory) value {
	r := k.vector()
	k.emit(k.ps("VMOVU"), c, r)
	v := make(value, k.group)
	for i := range v {
		v[i] = r
	}
	return v
}
