package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// The storage types; bf16 is in bfloat16.go, 8-bit floats are in float8.go. A
// type of codes needs its load, its pack and its masked store, and nothing
// elsewhere. Codes of one size have kernels in common: loads branch on the call's
// kind of them, and of whole numbers that are stored the lowest bits are the code.
var (
	f32  = &storage{"F32", 4, loadWhole, packWhole, packWhole, storeMaskedWhole, nil}
	f64  = &storage{"F64", 8, loadWhole, packWhole, packWhole, storeMaskedWhole, nil}
	f16  = &storage{"F16", 2, loadF16, packF16, packF16, storeMasked16, nil}
	bf16 = &storage{"BF16", 2, loadBF16, packBF16, truncateBF16, storeMasked16, nil}
	s8   = &storage{name: "S8", size: 1, load: loadCodes("VPMOVSXBD")}
	u8   = &storage{name: "U8", size: 1, load: loadCodes("VPMOVZXBD")}
	s16  = &storage{name: "S16", size: 2, load: loadCodes("VPMOVSXWD")}
	u16  = &storage{name: "U16", size: 2, load: loadCodes("VPMOVZXWD")}

	// What stands for several types: numbers of 16 bits, codes of a byte that are read,
	// whole codes.
	anyHalf = &storage{name: "H16", size: 2, of: []*storage{f16, bf16}}
	anyByte = &storage{name: "C8", size: 1, of: []*storage{s8, u8, f8e4m3, f8e5m2}}
	code8   = &storage{"I8", 1, nil, packCodes, nil, storeMaskedCodes("VPMOVDB"), []*storage{s8, u8}}
	code16  = &storage{"I16", 2, nil, packWords, nil, storeMaskedCodes("VPMOVDW"), []*storage{s16, u16}}
)

// load returns elements of a data input.
func (k *kernel) load(input int) value {
	if k.split && k.tail == nil {
		return k.loadSplit(input)
	}
	return k.ofType(k.in[input], func(one *storage) value { return k.loadOf(one, input) })
}

// forType emits code for elements of a type, or for those of each that it stands for:
// the same branches are taken all along a call.
func (k *kernel) forType(t *storage, code func(one *storage)) {
	if t.of == nil {
		code(t)
		return
	}
	number, done := either(t == anyHalf, k.halfKind, k.kind), k.newLabel("done")
	for kind, one := range t.of {
		other := k.newLabel("kind")
		if last := len(t.of) - 1; kind < last {
			branch(k.c.CMPB, number, operand.U8(kind), k.c.JNE, other)
		}
		code(one)
		k.c.JMP(operand.LabelRef(done))
		k.c.Label(other)
	}
	k.c.Label(done)
}

// ofType returns what code makes of elements of a type, see forType.
func (k *kernel) ofType(t *storage, code func(one *storage) value) (v value) {
	k.forType(t, func(one *storage) {
		u := code(one)
		if v == nil {
			v = u
			return
		}
		for i := range v {
			k.emit(k.ps("VMOVA"), u[i], v[i])
		}
	})
	return v
}

// loadOf returns elements of a data input that has a type.
func (k *kernel) loadOf(t *storage, input int) value {
	v := make(value, k.group)
	for i := range v {
		v[i] = t.load(k, k.pointer(fmt.Sprintf("in%d", input), i, t.size))
	}
	return v
}

// half returns a register of half a vector's size.
func (k *kernel) half() reg.VecVirtual {
	if k.isa.bytes == 64 {
		return k.c.YMM()
	}
	return k.c.XMM()
}

// fetch emits a load that widens, masked in the tail.
func (k *kernel) fetch(name string, from memory, to reg.VecVirtual) reg.VecVirtual {
	if k.tail != nil {
		k.emit(name+"_Z", from, k.tail, to)
	} else {
		k.emit(name, from, to)
	}
	return to
}

// The compute type as it is.

func loadWhole(k *kernel, from memory) reg.VecVirtual {
	return k.fetch(k.ps("VMOVU"), from, k.vector())
}

func packWhole(_ *kernel, v value) []reg.Register { return registers(v) }

func storeMaskedWhole(k *kernel, v []reg.Register, to memory) {
	k.emit(k.ps("VMOVU"), v[0], k.tail, to)
}

func registers(v value) (r []reg.Register) {
	for _, x := range v {
		r = append(r, x)
	}
	return r
}

// f16: the conversions of F16C, which keep denormals.

func loadF16(k *kernel, from memory) reg.VecVirtual {
	return k.fetch("VCVTPH2PS", from, k.vector())
}

func packF16(k *kernel, v value) (packed []reg.Register) {
	for _, x := range v {
		h := k.half()
		k.emit("VCVTPS2PH", nearestEven, x, h)
		packed = append(packed, h)
	}
	return packed
}

const nearestEven = 0

func storeMasked16(k *kernel, v []reg.Register, to memory) {
	k.emit("VMOVDQU16", v[0], k.tail, to)
}

// Codes of 8 and of 16 bits; i32 is in int32.go. Values are whole numbers within the codes' bounds.

func loadCodes(widen string) func(k *kernel, from memory) reg.VecVirtual {
	return func(k *kernel, from memory) reg.VecVirtual {
		if k.double() {
			v := k.vector()
			k.emit("VCVTDQ2PD", k.fetch(widen, from, k.half()), v)
			return v
		}
		v := k.fetch(widen, from, k.vector())
		k.emit("VCVTDQ2PS", v, v)
		return v
	}
}

func packCodes(k *kernel, v value) []reg.Register { return k.toBytes(k.toInt32(v)) }

// toBytes narrows vectors of 32-bit integers: to be stored, whole ones are
// packed, those of a tail stay as they are.
func (k *kernel) toBytes(whole value) (packed []reg.Register) {
	switch {
	case k.tail != nil:
		return registers(whole)
	case len(whole) == 4:
		// Packing works within 16 bytes of a register: the dwords come
		// out transposed.
		a, b := k.vector(), k.vector()
		k.emit("VPACKSSDW", whole[1], whole[0], a)
		k.emit("VPACKSSDW", whole[3], whole[2], b)
		k.lowBytes(value{a, b})
		k.emit("VPACKUSWB", b, a, a)
		var transposed []operand.Constant
		parts := k.isa.bytes / 16
		for i := range 4 * parts {
			transposed = append(transposed, operand.U32(i%parts*4+i/parts))
		}
		k.emit("VPERMD", a, k.inRegister(k.table(fmt.Sprintf("transposed%d", k.isa.bytes), transposed...)), a)
		return []reg.Register{a}
	case !k.isa.masks:
		return k.packWordsToBytes(k.packPairs("VPACKSSDW", whole))
	}
	for _, x := range whole {
		bytes := k.c.XMM()
		k.emit("VPMOVDB", x, bytes)
		packed = append(packed, bytes)
	}
	return packed
}

// lowBytes clears the upper byte of words: packing takes numbers of more than 8
// bits for 255.
func (k *kernel) lowBytes(words value) {
	for _, w := range words {
		k.emit(k.bits("VPAND"), k.pinned(k.constant(uint32(0x00FF00FF))), w, w)
	}
}

// packWordsToBytes packs 16-bit codes, a group of vectors.
func (k *kernel) packWordsToBytes(words value) []reg.Register {
	k.lowBytes(words)
	switch {
	case len(words) == 1 && words[0].Size() == 16:
		eight := k.c.GP64()
		k.emit("VPACKUSWB", words[0], words[0], words[0])
		k.emit("VMOVQ", words[0], eight)
		return []reg.Register{eight}
	case len(words) == 1:
		upper, bytes := k.c.XMM(), k.c.XMM()
		k.emit("VEXTRACTI128", 1, words[0], upper)
		k.emit("VPACKUSWB", upper, words[0].AsX(), bytes)
		return []reg.Register{bytes}
	}
	return registers(k.packPairs("VPACKUSWB", words))
}

// packWords narrows vectors of 32-bit integers to 16 bits.
func packWords(k *kernel, v value) (packed []reg.Register) {
	whole := k.toInt32(v)
	switch {
	case k.tail != nil:
		return registers(whole)
	case len(whole)%2 == 0:
		return registers(k.words(whole, 0))
	}
	for _, x := range whole {
		words := k.half()
		k.emit("VPMOVDW", x, words)
		packed = append(packed, words)
	}
	return packed
}

// packPairs narrows pairs of vectors to half the bits. Packing works within
// quarters of a register, which are put in order then.
func (k *kernel) packPairs(name string, v value) (packed value) {
	for i := 0; i < len(v); i += 2 {
		to := k.sameSize(v[i])
		k.emit(name, v[i+1], v[i], to)
		switch to.Size() {
		case 64:
			var quarters []operand.Constant
			for i := range 8 {
				quarters = append(quarters, operand.U64(i%4*2+i/4))
			}
			k.emit("VPERMQ", to, k.inRegister(k.table("quarters64", quarters...)), to)
		case 32:
			k.emit("VPERMQ", 0xD8, to, to)
		}
		packed = append(packed, to)
	}
	return packed
}

// toInt32 converts whole numbers to vectors of 32-bit integers.
func (k *kernel) toInt32(v value) value {
	if !k.double() {
		return k.apply("VCVTPS2DQ", v)
	}
	return k.halves("VCVTPD2DQ", v)
}

// halves joins vectors whose elements an instruction narrows to 32 bits; in
// the tail they fill half a vector. On AVX2 they stay apart: what lies in one
// quarter of a register each is packed in order.
func (k *kernel) halves(name string, v value) (whole value) {
	if !k.isa.masks {
		for _, x := range v {
			whole = append(whole, k.c.XMM())
			k.emit(name+"Y", x, whole[len(whole)-1])
		}
		return whole
	}
	for i := 0; i < len(v); i += 2 {
		low := k.half()
		k.emit(name, v[i], low)
		if k.tail != nil {
			return value{low}
		}
		high, both := k.half(), k.vector()
		k.emit(name, v[i+1], high)
		k.emit("VINSERTI64X4", 1, high, low.AsZ(), both)
		whole = append(whole, both)
	}
	return whole
}

func storeMaskedCodes(direct string) func(k *kernel, v []reg.Register, to memory) {
	return func(k *kernel, v []reg.Register, to memory) { k.emit(direct, v[0], k.tail, to) }
}
