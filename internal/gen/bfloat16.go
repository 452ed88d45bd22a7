package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// bf16: the upper half of an f32. What is rounded off is the lower half.
const (
	upperHalf = uint32(0xffff0000)
	lastKept  = uint32(1 << 16)
	halfLess  = uint32(0x7fff) // than half of it, by one
	half      = uint32(0x8000)
	quietNaN  = uint32(0x7fc00000)
)

func loadBF16(k *kernel, from memory) reg.VecVirtual {
	v := k.fetch("VPMOVZXWD", from, k.vector())
	k.emit("VPSLLD", 16, v, v)
	return v
}

// widened returns elements of 16 bits, in half a register, in the compute type.
func (k *kernel) widened(t *storage, words reg.Register) value {
	if t == f16 {
		return k.apply("VCVTPH2PS", words)
	}
	return k.apply("VPSLLD", 16, k.apply("VPMOVZXWD", words))
}

// splits reports whether bf16 elements may be taken apart faster: the even ones
// of two vectors into one, the odd ones into the other, until words puts them
// together. Nothing may depend on an element's place.
func (k *kernel) splits() bool {
	for _, t := range k.in {
		if t != nil && t != bf16 {
			return false
		}
	}
	return k.op.sums == 0 && (k.out == bf16 || k.out == code8 && k.quick != nil)
}

func (k *kernel) loadSplit(input int) value {
	v := make(value, k.group)
	for i := 0; i < len(v); i += 2 {
		from := k.pointer(fmt.Sprintf("in%d", input), i, bf16.size)
		v[i], v[i+1] = k.loadPair(from, k.pinned(k.constant(upperHalf)))
	}
	return v
}

// loadPair returns the even elements of two vectors, and the odd ones, of which upper has the bits:
// twice as fast as in order, and words puts them together.
func (k *kernel) loadPair(from memory, upper any) (even, odd reg.VecVirtual) {
	even, odd = k.vector(), k.vector()
	k.emit(either(k.isa.masks, "VMOVDQU32", "VMOVDQU"), from, odd)
	k.emit("VPSLLD", 16, odd, even)
	k.emit(k.bits("VPAND"), upper, odd, odd)
	return even, odd
}

// packBF16 adds 0x7fff and the last bit kept: to nearest, ties to even,
// denormals as they are. VCVTNEPS2BF16 would flush those.
func packBF16(k *kernel, v value) []reg.Register {
	if k.split && !k.isa.masks {
		return packSplit(k, v)
	}
	rounded := k.newValue()
	for i, x := range v {
		r := rounded[i]
		if k.isa.masks {
			odd := k.c.K()
			k.emit("VPTESTMD", k.pinned(k.constant(lastKept)), x, odd)
			k.emit("VPADDD", k.pinned(k.constant(halfLess)), x, r)
			k.emit("VPADDD", k.pinned(k.constant(half)), x, odd, r)
			continue
		}
		k.emit("VPSRLD", 16, x, r)
		k.emit(k.bits("VPAND"), k.constant(uint32(1)), r, r)
		k.emit("VPADDD", x, r, r)
		k.emit("VPADDD", k.constant(halfLess), r, r)
	}
	if k.finite {
		return truncateBF16(k, rounded)
	}
	isNaN, quiet := k.compare(v, unordered, v), k.pinned(k.constant(quietNaN))
	for i, r := range rounded {
		if k.isa.masks {
			k.emit("VMOVDQU32", quiet, isNaN[i], r)
		} else {
			k.emit("VBLENDVPS", isNaN[i], quiet, r, r)
		}
	}
	return truncateBF16(k, rounded)
}

// packSplit is packBF16 of even and odd elements without masks, in words: an upper half grows by one where the lower half is
// above 0x8000, or is 0x8000 beside an odd one.
func packSplit(k *kernel, v value) (packed []reg.Register) {
	upper, lower := k.words(v, 1), k.words(v, 0)
	for i, to := range upper {
		even := k.vector()
		k.emit("VPANDN", k.constant(lastKept|1), to, even)
		k.emit("VPSUBUSW", even, lower[i], lower[i])
		k.emit("VPSRLW", 15, lower[i], lower[i])
		k.emit("VPADDW", lower[i], to, to)
		if !k.finite {
			isNaN, odd := k.vector(), k.vector()
			k.emit("VCMPPS", unordered, v[2*i], v[2*i], isNaN)
			k.emit("VCMPPS", unordered, v[2*i+1], v[2*i+1], odd)
			k.emit("VPBLENDW", 0xAA, odd, isNaN, isNaN)
			k.emit("VPBLENDVB", isNaN, k.constant(quietNaN|quietNaN>>16), to, to)
		}
		packed = append(packed, to)
	}
	return packed
}

// bits completes the name of a bitwise instruction.
func (k *kernel) bits(name string) string {
	if k.isa.masks {
		return name + "D"
	}
	return name
}

// truncateBF16 takes the upper halves.
func truncateBF16(k *kernel, v value) (packed []reg.Register) {
	if !k.isa.masks || len(v)%2 == 0 {
		return registers(k.words(v, 1))
	}
	for _, x := range k.apply("VPSRLD", 16, v) {
		h := k.half()
		k.emit("VPMOVDW", x, h)
		packed = append(packed, h)
	}
	return packed
}

// words returns the lower (0) or upper (1) halves of pairs of vectors, in order.
func (k *kernel) words(v value, upper int) (words value) {
	both := func(i int) reg.VecVirtual {
		words = append(words, k.vector())
		return words[i/2]
	}
	if k.isa.masks {
		index := k.inRegister(k.wordNumbers(upper))
		for i := 0; i < len(v); i += 2 {
			to := both(i)
			k.emit("VMOVDQA64", v[i], to)
			k.emit("VPERMT2W", v[i+1], index, to)
		}
		return words
	}
	if k.split {
		for i := 0; i < len(v); i += 2 {
			even, odd, to := v[i], v[i+1], both(i)
			if upper == 1 {
				k.emit("VPSRLD", 16, even, to)
				even = to
			} else {
				k.emit("VPSLLD", 16, odd, to)
				odd = to
			}
			k.emit("VPBLENDW", 0xAA, odd, even, to)
		}
		return words
	}
	var halves value
	for _, x := range v {
		half := k.sameSize(x)
		if upper == 1 {
			k.emit("VPSRLD", 16, x, half)
		} else {
			k.emit("VPAND", k.constant(uint32(0xffff)), x, half)
		}
		halves = append(halves, half)
	}
	if len(v) == 1 {
		upper, to := k.c.XMM(), k.c.XMM()
		k.emit("VEXTRACTI128", 1, halves[0], upper)
		k.emit("VPACKUSDW", upper, halves[0].AsX(), to)
		return value{to}
	}
	return k.packPairs("VPACKUSDW", halves)
}

// wordNumbers are those of the lower or upper halves of two vectors, in order.
func (k *kernel) wordNumbers(upper int) memory {
	var numbers []operand.Constant
	name := []string{"even16", "odd16"}[upper]
	for i := range 32 {
		number := 2 * i
		if k.split {
			number = i/2*2 + i%2*32
		}
		numbers = append(numbers, operand.U16(number+upper))
	}
	if k.split {
		name += "split"
	}
	return k.table(name, numbers...)
}
