package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Extremes of short groups that lie one after the other, as those of their bits (see heldExtremes): as many groups at a
// time as a vector has lanes, so that what is left of each is folded by a transposition, and the results are a vector.

// groupsBeside is how many groups are read side by side.
const groupsBeside = 4

// extremeFold is a kernel under construction.
type extremeFold struct {
	*kernel
	x, bytes, whole, count reg.GPVirtual // bytes are a group's, whole those of its whole vectors
	zero, keep             reg.VecVirtual
}

// extremePair has what is smallest and what is largest.
type extremePair [2]reg.VecVirtual

// groupExtremes emits the kernels. AVX2 has no largest of bits of f64.
func groupExtremes(c *build.Context) {
	eachKernel(c, []*storage{f32, f16, bf16, f64}, func(k *kernel) {
		if k.isa.masks || !k.double() {
			k.groupExtremes(false)
		}
		if !k.isa.masks && !k.double() {
			k.groupExtremes(true)
		}
	})
}

// groupExtremes emits one of them. Without masks groups of fewer elements than a vector has a kernel of their own.
func (k *kernel) groupExtremes(few bool) {
	c, name, signature := k.c, "groupExtremes"+k.isa.name+k.out.name, "func(x *byte, n, count int, lo, hi *byte)"
	doc := []string{name + " stores the smallest and the largest of the elements, and of 0, of count groups of n elements, or NaNs."}
	switch {
	case few:
		name, signature = "fewExtremes"+k.isa.name+k.out.name, "func(x *byte, n, count int, keep *int32, lo, hi *byte)"
		doc = []string{name + " does so for groups of fewer elements than a vector has: keep has all bits of the n lanes that these are,", "and no others of those, which are read, too."}
	case !k.isa.masks:
		doc = append(doc, fmt.Sprintf("n is %d or more.", k.lanes))
	}
	beginFunction(c, name, signature, doc...)
	f := &extremeFold{kernel: k, x: param(c, "x"), count: param(c, "count"), bytes: c.GP64(), whole: c.GP64(), zero: k.vector()}
	k.emit(k.bits("VPXOR"), f.zero, f.zero, f.zero)
	n, lo, hi := param(c, "n"), param(c, "lo"), param(c, "hi")
	c.IMUL3Q(operand.Imm(uint64(k.out.size)), n, f.bytes)
	if few {
		f.keep = k.vector()
		k.emit("VMOVDQU", operand.Mem{Base: param(c, "keep")}, f.keep)
	} else {
		c.MOVQ(f.bytes, f.whole)
		c.ANDQ(operand.I32(-k.lanes*k.out.size), f.whole)
	}
	if k.isa.masks {
		c.ANDQ(operand.Imm(uint64(k.lanes-1)), n)
		k.maskTail(n)
	}
	tail := k.tail
	c.Label("groups")
	v := f.fold(0, k.lanes)
	f.numbers(v)
	k.tail = tail
	f.store(v, lo, hi)
	c.SUBQ(operand.Imm(uint64(k.lanes)), f.count)
	c.JG(operand.LabelRef("groups"))
	endFunction(c)
	k.tail = nil
}

// fold takes some groups, which become the lanes of a pair in turn.
func (f *extremeFold) fold(first, groups int) extremePair {
	if groups == groupsBeside {
		v := f.read(first)
		return f.join(f.join(v[0], v[1], 2), f.join(v[2], v[3], 2), 4)
	}
	a := f.fold(first, groups/2)
	return f.join(a, f.fold(first+groups/2, groups/2), groups)
}

// join folds the lanes of two pairs, of which the result has so many groups.
func (f *extremeFold) join(a, b extremePair, groups int) (joined extremePair) {
	for i := range joined {
		var low, high reg.VecVirtual
		switch quarter := 16 / f.compute.size; {
		case groups > quarter && f.isa.masks:
			low, high = f.pairOf("VSHUFF32X4", []any{0x88}, a[i], b[i]), f.pairOf("VSHUFF32X4", []any{0xDD}, a[i], b[i])
		case groups > quarter:
			low, high = f.pairOf("VPERM2F128", []any{0x20}, a[i], b[i]), f.pairOf("VPERM2F128", []any{0x31}, a[i], b[i])
		case groups == quarter:
			low, high = f.pairOf("VUNPCKLPD", nil, a[i], b[i]), f.pairOf("VUNPCKHPD", nil, a[i], b[i])
		default:
			low, high = f.pairOf("VUNPCKLPS", nil, a[i], b[i]), f.pairOf("VUNPCKHPS", nil, a[i], b[i])
		}
		f.emit(f.largest(i), high, low, low)
		joined[i] = low
	}
	return joined
}

// largest is the instruction that keeps the smallest (0) or the largest (1) of numbers, see heldExtremes.
func (f *extremeFold) largest(i int) string {
	return []string{"VPMAXU", "VPMAXS"}[i] + either(f.double(), "Q", "D")
}

// read takes some groups side by side, and moves on. Those that do not exist are others.
func (f *extremeFold) read(first int) (v [groupsBeside]extremePair) {
	c, none, all, at := f.c, f.newLabel("none"), f.newLabel("all"), f.c.GP64()
	move := either(f.isa.masks, "VMOVDQA64", "VMOVDQA")
	for i := range v {
		for j := range v[i] {
			v[i][j] = f.vector()
			f.emit(move, f.zero, v[i][j])
		}
	}
	if first > 0 {
		branch(c.CMPQ, f.count, operand.Imm(uint64(first)), c.JLE, none)
	}
	from := []reg.GPVirtual{f.x}
	for i := 1; i < groupsBeside; i++ {
		p := c.GP64()
		c.LEAQ(operand.Mem{Base: from[i-1], Index: f.bytes, Scale: 1}, p)
		from = append(from, p)
	}
	branch(c.CMPQ, f.count, operand.Imm(uint64(first+groupsBeside)), c.JGE, all)
	for i := 1; i < groupsBeside; i++ {
		c.CMPQ(f.count, operand.Imm(uint64(first+i)))
		c.CMOVQLE(f.x, from[i])
	}
	c.Label(all)
	take := func(place func(p reg.GPVirtual) operand.Mem) {
		for i, p := range from {
			x := f.out.load(f.kernel, memory{place(p)})
			for j, e := range v[i] {
				f.emit(f.largest(j), x, e, e)
			}
		}
	}
	if f.keep != nil {
		for i, p := range from {
			x := f.out.load(f.kernel, memory{operand.Mem{Base: p}})
			f.emit("VPAND", f.keep, x, v[i][0])
			f.emit("VMOVDQA", v[i][0], v[i][1])
		}
	} else {
		f.vectors(at, take)
	}
	c.LEAQ(operand.Mem{Base: from[groupsBeside-1], Index: f.bytes, Scale: 1}, f.x)
	c.Label(none)
	return v
}

// vectors emits what takes all vectors of groups: with masks the last one under a mask, else it begins with elements that
// were taken before.
func (f *extremeFold) vectors(at reg.GPVirtual, take func(place func(p reg.GPVirtual) operand.Mem)) {
	c, next, rest, done, tail := f.c, f.newLabel("next"), f.newLabel("rest"), f.newLabel("done"), f.tail
	c.XORQ(at, at)
	f.tail = nil
	indexed := func(p reg.GPVirtual) operand.Mem { return operand.Mem{Base: p, Index: at, Scale: 1} }
	if f.isa.masks {
		branch(c.TESTQ, f.whole, f.whole, c.JEQ, rest)
	}
	c.Label(next)
	take(indexed)
	c.ADDQ(operand.U32(f.lanes*f.out.size), at)
	branch(c.CMPQ, at, f.whole, c.JLT, next)
	branch(c.CMPQ, at, f.bytes, c.JEQ, done)
	c.Label(rest)
	if f.tail = tail; !f.isa.masks {
		c.MOVQ(f.bytes, at)
		c.SUBQ(operand.U32(f.lanes*f.out.size), at)
	}
	take(indexed)
	c.Label(done)
}

// numbers makes numbers of bits.
func (f *extremeFold) numbers(v extremePair) {
	f.emit(f.largest(1), f.zero, v[1], v[1])
	f.group = 1
	isNaN := f.compare(value{v[0]}, unordered, value{v[1]})[0]
	f.emit(f.ps("VMIN"), f.zero, v[0], v[0])
	for _, r := range v {
		if f.isa.masks {
			f.emit(either(f.double(), "VMOVDQU64", "VMOVDQU32"), f.quiet(), isNaN, r)
		} else {
			f.emit("VORPS", isNaN, r, r)
		}
	}
}

// quiet returns the NaN that is larger than all numbers.
func (f *extremeFold) quiet() memory {
	if f.double() {
		return f.constant(uint64(0x7fffffffffffffff))
	}
	return f.constant(uint32(0x7fffffff))
}

// store stores the results of as many groups as there are, and moves on.
func (f *extremeFold) store(v extremePair, lo, hi reg.GPVirtual) {
	c, partly, stored := f.c, f.newLabel("partly"), f.newLabel("stored")
	branch(c.CMPQ, f.count, operand.Imm(uint64(f.lanes)), c.JLT, partly)
	to := [2]operand.Mem{{Base: lo}, {Base: hi}}
	for i, r := range v {
		f.emit(f.ps("VMOVU"), r, to[i])
		c.ADDQ(operand.U32(f.isa.bytes), to[i].Base)
	}
	c.JMP(operand.LabelRef(stored))
	c.Label(partly)
	if f.isa.masks {
		f.maskTail(f.count)
		for i, r := range v {
			f.emit(f.ps("VMOVU"), r, f.tail, to[i])
		}
	} else {
		some := f.vector()
		c.VMOVQ(f.count, some.AsX())
		f.emit("VPBROADCASTD", some.AsX(), some)
		f.emit("VPCMPGTD", f.laneNumbers(), some, some)
		for i, r := range v {
			f.emit("VMASKMOVPS", r, some, to[i])
		}
	}
	c.Label(stored)
}
