package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Comparisons of autodiff on rows, of which one may be a number, and logic of truth values: blocks of 32
// elements (AVX2) or 64.

// comparison is one, for elements of some types; of truth values the mask is the result.
type comparison struct {
	name  string
	types []*storage
	emit  func(k *kernel, x, y value) mask
}

var comparisons = []comparison{
	{"equal", []*storage{f32, f64}, func(k *kernel, x, y value) mask { return k.compare(x, equal, y) }},
	{"less", []*storage{f32, f64}, func(k *kernel, x, y value) mask { return k.compare(x, lessThan, y) }},
	{"lessEqual", []*storage{f32, f64}, func(k *kernel, x, y value) mask { return k.compare(x, lessEqual, y) }},
	{"equal", []*storage{i32, i64}, func(k *kernel, x, y value) mask { return k.compareInts("VPCMPEQ", x, y) }},
	{"less", []*storage{i32, i64}, func(k *kernel, x, y value) mask { return k.compareInts("VPCMPGT", y, x) }},
	{"and", []*storage{u8}, truthsBy("VPAND")},
	{"or", []*storage{u8}, truthsBy("VPOR")},
	{"xor", []*storage{u8}, truthsBy("VPXOR")},
}

func truthsBy(name string) func(k *kernel, x, y value) mask {
	return func(k *kernel, x, y value) mask {
		k.emit(name+either(k.isa.masks, "D", ""), y[0], x[0], x[0])
		return mask{x[0].(reg.Register)}
	}
}

func (k *kernel) compareInts(name string, x, y value) mask {
	m := k.vector().(reg.Register)
	if k.isa.masks {
		m = k.c.K()
	}
	k.emit(name+either(k.out.size == 8, "Q", "D"), y[0], x[0], m)
	return mask{m}
}

// compareRows emits all of them.
func compareRows(c *build.Context, globals *tables) {
	for _, l := range comparisons {
		for _, isa := range isas {
			for _, t := range l.types {
				k := newKernel(c, globals, isa, t)
				k.lanes = isa.bytes / t.size
				l.function(k)
			}
		}
	}
}

func (l *comparison) function(k *kernel) {
	c, block := k.c, k.isa.bytes
	beginFunction(c, l.name+k.isa.name+k.out.name, "func(z, x, y *uint8, xNumber, yNumber, not bool, n int)",
		fmt.Sprintf("z[i] = %s(x[i], y[i]) != not, for n a multiple of %d, not 0; x or y may be a number.", l.name, block))
	z, n := param(c, "z"), param(c, "n")
	number := c.AllocLocal(block*k.out.size + k.isa.bytes)
	x, y := k.rowOrNumber("x", number, block*k.out.size), k.rowOrNumber("y", number, block*k.out.size)
	one, not := k.spread(k.constant(uint32(0x01010101)))[0], k.vector()
	k.emit("VPBROADCASTB", place(c, "not"), not)
	c.Label("block")
	of := func(i int) reg.Register { return l.emit(k, x.at(i), y.at(i))[0] }
	var bytes operand.Op
	if k.out.size == 1 {
		bytes = of(0)
	} else {
		bytes = k.truths(one, of)
	}
	k.emit(either(k.isa.masks, "VPXORD", "VPXOR"), not, bytes, bytes)
	k.emit(either(k.isa.masks, "VMOVDQU64", "VMOVDQU"), bytes, operand.Mem{Base: z})
	c.ADDQ(operand.Imm(uint64(block)), z)
	c.ADDQ(x.step, x.base)
	c.ADDQ(y.step, y.base)
	c.SUBQ(operand.Imm(uint64(block)), n)
	c.JNZ(operand.LabelRef("block"))
	endFunction(c)
}

// rowOrNumber is an operand whose next block is a step away: a number is a block of it, which does not move.
type rowOrNumber struct {
	k          *kernel
	base, step reg.GPVirtual
}

// rowOrNumber is a parameter with blocks of some bytes; many has room for one, and a vector more to begin where one may.
func (k *kernel) rowOrNumber(name string, many operand.Mem, block int) rowOrNumber {
	c, o := k.c, rowOrNumber{k, param(k.c, name), k.c.GP64()}
	c.MOVQ(operand.U32(block), o.step)
	branch(c.CMPB, place(c, name+"Number"), operand.U8(0), c.JEQ, name+"_row")
	number := k.vector()
	k.emit(map[int]string{1: "VPBROADCASTB", 4: "VBROADCASTSS", 8: "VBROADCASTSD"}[k.out.size], operand.Mem{Base: o.base}, number)
	c.LEAQ(many.Offset(k.isa.bytes-1), o.base)
	c.ANDQ(operand.I32(-k.isa.bytes), o.base)
	for at := 0; at < block; at += k.isa.bytes {
		k.emit("VMOVUPS", number, operand.Mem{Base: o.base, Disp: at})
	}
	c.XORQ(o.step, o.step)
	c.Label(name + "_row")
	return o
}

func (o rowOrNumber) at(i int) value {
	v := o.k.vector()
	o.k.emit("VMOVUPS", operand.Mem{Base: o.base, Disp: i * o.k.isa.bytes}, v)
	return value{v}
}

// load returns a number of vectors.
func (o rowOrNumber) load(count int) (v value) {
	for i := range count {
		v = append(v, o.at(i)...)
	}
	return v
}

// truths makes a vector of bytes, 1 or 0, of the masks of vectors.
func (k *kernel) truths(one reg.VecVirtual, of func(vector int) reg.Register) reg.VecVirtual {
	if !k.isa.masks {
		return k.packTruths(one, of)
	}
	var joined func(first, bits int) reg.Register
	joined = func(first, bits int) reg.Register {
		if bits == k.lanes {
			return of(first)
		}
		low, high, both := joined(first, bits/2), joined(first+bits/2/k.lanes, bits/2), k.c.K()
		k.emit(map[int]string{16: "KUNPCKBW", 32: "KUNPCKWD", 64: "KUNPCKDQ"}[bits], low, high, both)
		return both
	}
	bytes := k.vector()
	k.emit("VMOVDQU8_Z", one, joined(0, 64), bytes)
	return bytes
}

// packTruths does so with masks that are vectors. Packing works within halves of a register.
func (k *kernel) packTruths(one reg.VecVirtual, of func(vector int) reg.Register) reg.VecVirtual {
	var m [4]reg.Register
	for i := range m {
		if k.lanes == 8 {
			m[i] = of(i)
			continue
		}
		low, high := of(2*i), of(2*i+1) // of 64 bits each, whose lower halves say the same
		k.emit("VSHUFPS", 0x88, high, low, low)
		k.emit("VPERMQ", 0xD8, low, low)
		m[i] = low
	}
	k.emit("VPACKSSDW", m[1], m[0], m[0])
	k.emit("VPACKSSDW", m[3], m[2], m[2])
	k.emit("VPACKSSWB", m[2], m[0], m[0])
	var order []operand.Constant
	for i := range 8 {
		order = append(order, operand.U32(i%2*4+i/2))
	}
	bytes := k.vector()
	k.emit("VMOVUPS", k.table("halves32", order...), bytes)
	k.emit("VPERMD", m[0], bytes, bytes)
	k.emit("VPAND", one, bytes, bytes)
	return bytes
}
