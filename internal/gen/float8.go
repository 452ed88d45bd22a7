package main

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// 8-bit floats. Loading goes by way of f16, whose exponents include theirs.
// Rounding adds a power of two that leaves as many bits as the type has, then
// takes it off again: to nearest, ties to even, denormals too.

// float8Type stands for both 8-bit types where codes are rounded to one, by numbers that
// the call points to.
var (
	f8e4m3     = &storage{name: "F8E4M3", size: 1, load: loadE4M3}
	f8e5m2     = &storage{name: "F8E5M2", size: 1, load: loadE5M2}
	float8Type = &storage{"F8", 1, nil, packFloat8, nil, storeMaskedCodes("VPMOVDB"), []*storage{f8e4m3, f8e5m2}}
)

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

// loadWords loads bytes and widens them to words.
func (k *kernel) loadWords(widen string, from memory) reg.VecVirtual {
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

// fromF16 widens words to the compute type, times a power of two.
func (k *kernel) fromF16(words reg.VecVirtual, times uint32) reg.VecVirtual {
	v := k.vector()
	if k.double() {
		v = k.half()
	}
	k.emit("VCVTPH2PS", words, v)
	if times != 0x3F800000 {
		k.emit("VMULPS", k.constant(times), v, v)
	}
	if !k.double() {
		return v
	}
	wide := k.vector()
	k.emit("VCVTPS2PD", v, wide)
	return wide
}

// loadE5M2 takes codes for the upper bytes of f16.
func loadE5M2(k *kernel, from memory) reg.VecVirtual {
	w := k.loadWords("VPMOVZXBW", from)
	k.emit("VPSLLW", 8, w, w)
	return k.fromF16(w, 0x3F800000)
}

// loadE4M3 moves exponent and mantissa to where f16 has them, whose exponents
// are larger by 8. All ones are a NaN.
func loadE4M3(k *kernel, from memory) reg.VecVirtual {
	w := k.loadWords("VPMOVSXBW", from)
	k.emit("VPSLLW", 7, w, w)
	ones := k.constant(uint32(0x3F803F80))
	if k.isa.masks {
		nan := k.c.K()
		low := k.sameSize(w)
		k.emit("VPANDD", ones, w, low)
		k.emit("VPCMPEQW", ones, low, nan)
		k.emit("VPANDD", k.constant(uint32(0xBF80BF80)), w, w)
		k.emit("VMOVDQU16", k.constant(uint32(0x7E007E00)), nan, w)
	} else {
		low := k.sameSize(w)
		k.emit("VPAND", ones, w, low)
		k.emit("VPCMPEQW", ones, low, low)
		k.emit("VPAND", k.constant(uint32(0xBF80BF80)), w, w)
		k.emit("VPOR", low, w, w)
	}
	return k.fromF16(w, 0x43800000)
}

// sameSize returns a register of another's size.
func (k *kernel) sameSize(r reg.VecVirtual) reg.VecVirtual {
	switch r.Size() {
	case 64:
		return k.c.ZMM()
	case 32:
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
	switch {
	case k.double() && k.isa.masks:
		code = k.halves("VPMOVQD", code)
	case k.double():
		code = k.lowDwords(code)
	}
	return k.toBytes(code)
}

// lowDwords returns the lower halves of 64-bit integers, on AVX2.
func (k *kernel) lowDwords(v value) (low value) {
	for _, x := range v {
		upper, four := k.c.XMM(), k.c.XMM()
		k.emit("VEXTRACTI128", 1, x, upper)
		k.emit("VSHUFPS", 0x88, upper, x.AsX(), four)
		low = append(low, four)
	}
	return low
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
