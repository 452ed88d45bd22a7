package main

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// How weightReaders make weights of codes.

// beginGroups begins with the parameters of a column.
func (w weightReader) beginGroups() {
	if !w.grouped {
		w.c.XORQ(w.at, w.at)
		return
	}
	first := w.c.GP64()
	w.c.MOVQ(place(w.c, "numbers"), w.at)
	w.blockOf(0, first)
	w.c.SHLQ(operand.Imm(2), first)
	w.c.SUBQ(first, w.scale)
	if w.z[0] != nil {
		w.c.SUBQ(first, w.zero)
	}
}

// blockOf loads the number of the first scale of those that elements of a vector permute: of as many as it has lanes, of
// which elements no vector has some and none of others.
func (w weightReader) blockOf(disp int, first reg.GPVirtual) {
	w.c.MOVL(operand.Mem{Base: w.at, Disp: disp}, first.As32())
	w.c.ANDL(operand.I32(-w.kernel.lanes), first.As32())
}

// numberBytes is how many bytes the numbers of a stripe have: neighbours whose codes are in a byte share one.
func (w weightReader) numberBytes() int { return 4 * w.bytes }

// ofVector returns a reader that has the parameters of each element of a vector of codes.
func (w weightReader) ofVector(number, half int) weightReader {
	if !w.grouped {
		return w
	}
	first, order, disp := w.c.GP64(), w.vector(), number*w.isa.bytes
	w.blockOf(disp, first)
	w.emit("VMOVUPS", operand.Mem{Base: w.at, Disp: disp}, order)
	permuted := func(from reg.GPVirtual) reg.VecVirtual {
		v := w.vector()
		w.c.VPERMPS(operand.Mem{Base: from, Index: first, Scale: 4}, order, v)
		return v
	}
	w.s[half] = permuted(w.scale)
	if w.z[half] != nil {
		w.z[half] = permuted(w.zero)
	}
	return w
}

// parameters loads those of the next half of a stripe.
func (w weightReader) parameters(half int) {
	if w.grouped {
		return
	}
	number := w.c.GP64()
	w.c.MOVQ(w.at, number)
	w.c.SHRQ(reg.CL, number)
	w.c.INCQ(w.at)
	w.emit("VBROADCASTSS", operand.Mem{Base: w.scale, Index: number, Scale: 4}, w.s[half])
	if w.z[half] != nil {
		w.emit("VBROADCASTSS", operand.Mem{Base: w.zero, Index: number, Scale: 4}, w.z[half])
	}
	if w.table[half] != nil {
		w.emit("VSUBPS", w.z[half], w.codes, w.table[half])
		w.emit("VMULPS", w.s[half], w.table[half], w.table[half])
	}
}

// weights makes those of half a stripe, of codes in a byte the even ones first. A mask says which codes there are;
// others are not read.
func (w weightReader) weights(half int, within mask, use func(v int, weights reg.VecVirtual)) {
	vectors := stripeLanes / w.kernel.lanes / 2
	if w.packed() {
		for i := 0; i < vectors; i += 2 {
			v := half*vectors + i
			even, odd := w.ofVector(v/2, half).evenAndOdd(half, w.widened(v, v*w.kernel.lanes/2, within))
			use(v, even)
			use(v+1, odd)
		}
		return
	}
	for i := range vectors {
		v := half*vectors + i
		x := w.widened(v, v*w.kernel.lanes, within)
		w.ofVector(v, half).toWeights(half, x)
		use(v, x)
	}
}

// widened loads the bytes of vector v of a stripe from disp on, all or those of its mask.
func (w weightReader) widened(v, disp int, within mask) reg.VecVirtual {
	from, x, widen := operand.Mem{Base: w.q, Disp: disp}, w.vector(), either(w.widen == "", "VPMOVZXBD", w.widen)
	if within == nil {
		w.emit(widen, from, x)
	} else {
		w.emit(widen+"_Z", from, within[v], x)
	}
	return x
}

// evenAndOdd makes the weights of codes that are two in a byte.
func (w weightReader) evenAndOdd(half int, even reg.VecVirtual) (_, odd reg.VecVirtual) {
	odd = w.vector()
	if table := w.table[half]; table != nil {
		w.c.VPSRLD(operand.Imm(4), even, odd)
		w.c.VPERMPS(table, even, even) // the low 4 bits number a weight
		w.c.VPERMPS(table, odd, odd)
		return even, odd
	}
	if w.widen == "" {
		w.c.VPSRLD(operand.Imm(4), even, odd)
		w.c.VPERMPS(w.codes, even, even)
		w.c.VPERMPS(w.codes, odd, odd)
		w.scaled(half, even)
		w.scaled(half, odd)
		return even, odd
	}
	w.emit(w.shift, 4, even, odd)
	w.emit("VPSLLD", 28, even, even)
	w.emit(w.shift, 28, even, even)
	w.toWeights(half, even)
	w.toWeights(half, odd)
	return even, odd
}

// toWeights makes weights of widened codes.
func (w weightReader) toWeights(half int, x reg.VecVirtual) {
	w.emit("VCVTDQ2PS", x, x)
	w.scaled(half, x)
}

// scaled makes weights of what codes stand for.
func (w weightReader) scaled(half int, x reg.VecVirtual) {
	if z := w.z[half]; z != nil {
		w.emit("VSUBPS", z, x, x)
	}
	w.emit("VMULPS", w.s[half], x, x)
}

// interleave makes neighbours of even and odd elements.
func (w weightReader) interleave(even, odd reg.VecVirtual) (low, high reg.VecVirtual) {
	if w.low == nil {
		lower, upper := w.pairOf("VUNPCKLPS", nil, even, odd), w.pairOf("VUNPCKHPS", nil, even, odd)
		return w.pairOf("VPERM2F128", []any{0x20}, lower, upper), w.pairOf("VPERM2F128", []any{0x31}, lower, upper)
	}
	return w.permute(even, odd, w.low, w.high)
}

// part is the reverse.
func (w weightReader) part(low, high reg.VecVirtual) (even, odd reg.VecVirtual) {
	if w.low == nil {
		even, odd = w.pairOf("VSHUFPS", []any{0x88}, low, high), w.pairOf("VSHUFPS", []any{0xDD}, low, high)
		w.emit("VPERMPD", 0xD8, even, even)
		w.emit("VPERMPD", 0xD8, odd, odd)
		return even, odd
	}
	from := param(w.c, "codes")
	order := [2]reg.VecVirtual{w.vector(), w.vector()}
	for i, v := range order {
		w.emit("VMOVUPS", operand.Mem{Base: from, Disp: (3 + i) * w.isa.bytes}, v)
	}
	return w.permute(low, high, order[0], order[1])
}

func (w weightReader) permute(a, b, first, second reg.VecVirtual) (reg.VecVirtual, reg.VecVirtual) {
	v := w.vector()
	w.emit("VMOVAPS", a, v)
	w.c.VPERMT2PS(b, first, v)
	w.c.VPERMT2PS(b, second, a)
	return v, a
}
