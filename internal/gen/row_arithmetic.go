package main

import (
	"fmt"
	"math/bits"
	"strings"

	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
)

// Arithmetic of autodiff on rows, of which one may be a number: whole vectors, of which Go does the rest.

// arithmetic is an operation, on floats and on whole numbers, if there is a loop of them.
type arithmetic struct {
	name         string
	floats, ints func(k *kernel, x, y value) value
}

var arithmetics = []arithmetic{
	{"add", (*kernel).add, intsBy("VPADD")},
	{"sub", (*kernel).sub, intsBy("VPSUB")},
	{"mul", (*kernel).mul, (*kernel).mulInts},
	{"div", (*kernel).div, nil},
	{"max", (*kernel).maximum, nil},
	{"min", (*kernel).minimum, nil},
}

func intsBy(name string) func(k *kernel, x, y value) value {
	return func(k *kernel, x, y value) value { return k.apply(name+either(k.out.size == 8, "Q", "D"), y, x) }
}

// mulInts multiplies; 64 bits by their halves where no instruction does.
func (k *kernel) mulInts(x, y value) value {
	if k.out.size == 4 || k.isa.masks {
		return intsBy("VPMULL")(k, x, y)
	}
	half := func(x, y value) value { return k.apply("VPMULUDQ", y, k.apply("VPSRLQ", 32, x)) }
	cross := k.apply("VPADDQ", half(x, y), half(y, x))
	return k.apply("VPADDQ", k.apply("VPSLLQ", 32, cross), k.apply("VPMULUDQ", x, y))
}

// eachArithmetic ranges over the loops that there are; kinds of numbers are counted as Go's kindOf does.
func eachArithmetic(do func(a *arithmetic, kind int, t *storage, isa *isa, emit func(k *kernel, x, y value) value)) {
	for i := range arithmetics {
		a := &arithmetics[i]
		for kind, t := range []*storage{f32, f64, i32, i64} {
			emit := either(kind < 2, a.floats, a.ints)
			for _, isa := range isas {
				if emit != nil {
					do(a, kind, t, isa, emit)
				}
			}
		}
	}
}

// arithmeticRows emits all of them.
func arithmeticRows(c *build.Context, globals *tables) {
	eachArithmetic(func(a *arithmetic, _ int, t *storage, isa *isa, emit func(k *kernel, x, y value) value) {
		k := newKernel(c, globals, isa, t)
		a.function(k, emit)
	})
}

func (a *arithmetic) function(k *kernel, emit func(k *kernel, x, y value) value) {
	c, group := k.c, k.isa.group
	block := group * k.isa.bytes
	beginFunction(c, a.name+k.isa.name+k.out.name, "func(z, x, y *uint8, xNumber, yNumber bool, n int)")
	z, n, number := param(c, "z"), param(c, "n"), c.AllocLocal(block+k.isa.bytes)
	x, y := k.rowOrNumber("x", number, block), k.rowOrNumber("y", number, block)
	loop := func(label string, count int) {
		k.group = count
		elements := operand.I32(count * k.isa.bytes / k.out.size)
		c.SUBQ(elements, n)
		c.JLT(operand.LabelRef(label + "_end"))
		c.Label(label)
		for i, v := range emit(k, x.load(count), y.load(count)) {
			k.emit("VMOVUPS", v, operand.Mem{Base: z, Disp: i * k.isa.bytes})
		}
		c.ADDQ(operand.I32(count*k.isa.bytes), z)
		c.ADDQ(x.step, x.base)
		c.ADDQ(y.step, y.base)
		c.SUBQ(elements, n)
		c.JGE(operand.LabelRef(label))
		c.Label(label + "_end")
		c.ADDQ(elements, n)
	}
	loop("wide", group)
	for _, o := range []rowOrNumber{x, y} {
		c.SHRQ(operand.Imm(uint64(bits.TrailingZeros(uint(group)))), o.step)
	}
	loop("narrow", 1)
	endFunction(c)
}

// chooseArithmetic writes what runs a loop and reports whether there is one.
func chooseArithmetic(b *strings.Builder) {
	b.WriteString("// runArithmetic runs the loop of an operation, a kind of numbers and an instruction set, and reports whether there is one.\n")
	b.WriteString("func runArithmetic(of arithmetic, kind, avx512 int, z, x, y *uint8, xNumber, yNumber bool, n int) bool {\nswitch int(of)*8 + kind*2 + avx512 {\n")
	eachArithmetic(func(a *arithmetic, kind int, t *storage, isa *isa, _ func(k *kernel, x, y value) value) {
		fmt.Fprintf(b, "case int(%sOf)*8 + %d:\n%s(z, x, y, xNumber, yNumber, n)\n", a.name, kind*2+either(isa == avx512, 1, 0), a.name+isa.name+t.name)
	})
	b.WriteString("default:\nreturn false\n}\nreturn true\n}\n")
}
