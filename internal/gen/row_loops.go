package main

import (
	"fmt"
	"go/format"
	"strings"

	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
)

// Functions of autodiff on rows of f32 and f64, whole vectors of them, of which Go does the rest.
// Each step rounds by itself, as in Go.

// rowLoop is a function and its operands: rows x, y and z, which is the result, and numbers a and b.
type rowLoop struct {
	name, operands string
	emit           func(k *kernel, v ...value) value
}

var rowLoops = []rowLoop{
	{"descend", "zxa", func(k *kernel, v ...value) value { return k.sub(v[0], k.mul(v[1], v[2])) }},
	{"neg", "x", func(k *kernel, v ...value) value { return k.apply(k.ps("VXOR"), k.signBit(), v[0]) }},
	{"abs", "x", func(k *kernel, v ...value) value { return k.apply(k.ps("VANDN"), v[0], k.spread(k.signBit())) }},
	{"sign", "x", func(k *kernel, v ...value) value {
		x, one, zero := v[0], k.spread(k.one()), k.zeros()
		size := k.pick(k.compare(x, otherThan, zero), one, k.sub(x, x)) // where x is a NaN, so is the difference
		return k.apply(k.ps("VOR"), k.keep(k.compare(x, lessThan, zero), k.spread(k.signBit())), size)
	}},
	{"sqrt", "x", func(k *kernel, v ...value) value { return k.apply(k.ps("VSQRT"), v[0]) }},
	{"floor", "x", func(k *kernel, v ...value) value { return k.apply(k.ps(k.isa.rint), 9, v[0]) }},
	{"ceil", "x", func(k *kernel, v ...value) value { return k.apply(k.ps(k.isa.rint), 10, v[0]) }},
	{"round", "x", func(k *kernel, v ...value) value { return k.rint(v[0]) }},
	{"relu", "x", func(k *kernel, v ...value) value {
		return k.max(k.zeros(), k.add(v[0], k.zeros())) // -0 becomes +0, a NaN stays
	}},
	{"reluGrad", "xy", func(k *kernel, v ...value) value {
		const notEqual = 4 // or a NaN
		return k.keep(k.compare(v[1], notEqual, k.zeros()), v[0])
	}},
	{"tanhGrad", "xy", func(k *kernel, v ...value) value {
		return k.mul(v[0], k.sub(k.spread(k.one()), k.mul(v[1], v[1])))
	}},
	{"sigmoidGrad", "xy", func(k *kernel, v ...value) value {
		return k.mul(v[0], k.mul(v[1], k.sub(k.spread(k.one()), v[1])))
	}},
	{"clamp", "xab", func(k *kernel, v ...value) value { return k.minimum(k.maximum(v[0], v[1]), v[2]) }},
	{"clampGrad", "xyab", func(k *kernel, v ...value) value { return k.keep(k.within(v[1], v[2], v[3]), v[0]) }},
}

func (k *kernel) signBit() memory { return k.whole(1<<31, 1<<63) }

// zeros is +0 in every lane.
func (k *kernel) zeros() value { return k.spread(k.whole(0, 0)) }

// maximum and minimum are Go's max and min: a NaN before all, and +0 above -0.
func (k *kernel) maximum(a, b value) value {
	return k.orNaN(a, b, k.apply(k.ps("VAND"), k.max(a, b), k.max(b, a)))
}

func (k *kernel) minimum(a, b value) value {
	return k.orNaN(a, b, k.apply(k.ps("VOR"), k.min(a, b), k.min(b, a)))
}

func (k *kernel) orNaN(a, b, c value) value {
	return k.pick(k.compare(a, unordered, b), k.add(a, b), c)
}

// vectors emits all of them.
func vectors(c *build.Context, globals *tables) {
	for _, l := range rowLoops {
		for _, isa := range isas {
			for _, t := range []*storage{f32, f64} {
				k := newKernel(c, globals, isa, t)
				k.param = map[string]value{}
				l.function(k)
			}
		}
	}
}

// rowParameters are those of loops, by type.
var rowParameters = map[*storage]string{
	f32: "func(z *float32, x *float32, y *float32, a float32, b float32, n int)",
	f64: "func(z *float64, x *float64, y *float64, a float64, b float64, n int)",
}

// functionName is that of its loop.
func (l *rowLoop) functionName(suffix string) string {
	return l.name + strings.ToUpper(l.operands) + suffix
}

func (l *rowLoop) function(k *kernel) {
	c := k.c
	beginFunction(c, l.functionName(k.isa.name+k.out.name), rowParameters[k.out])
	n, at, base := param(c, "n"), c.GP64(), map[rune]operand.Mem{'z': {Base: param(c, "z")}}
	for _, operands := range l.operands {
		switch {
		case operands == 'a' || operands == 'b':
			v := k.vector()
			k.emit(k.scalar("VBROADCAST"), place(c, string(operands)), v)
			k.param[string(operands)] = value{v}
		case operands != 'z':
			base[operands] = operand.Mem{Base: param(c, string(operands))}
		}
	}
	c.SHLQ(operand.Imm(either(k.double(), uint64(3), 2)), n)
	c.XORQ(at, at)
	loop := func(label string, count int) {
		k.group = count
		size, end := count*k.isa.bytes, c.GP64()
		c.MOVQ(n, end)
		c.SUBQ(operand.I32(size), end)
		c.JMP(operand.LabelRef(label + "_test"))
		c.Label(label)
		var in []value
		element := func(name rune, i int) operand.Mem {
			m := base[name]
			m.Index, m.Scale, m.Disp = at, 1, i*k.isa.bytes
			return m
		}
		for _, name := range l.operands {
			if number := k.param[string(name)]; number != nil {
				in = append(in, k.bound(string(name)))
				continue
			}
			v := k.newValue()
			for i := range v {
				k.emit(k.ps("VMOVU"), element(name, i), v[i])
			}
			in = append(in, v)
		}
		for i, v := range l.emit(k, in...) {
			k.emit(k.ps("VMOVU"), v, element('z', i))
		}
		c.ADDQ(operand.I32(size), at)
		c.Label(label + "_test")
		branch(c.CMPQ, at, end, c.JLE, label)
	}
	loop("wide", k.isa.group)
	loop("narrow", 1)
	endFunction(c)
}

// rowsFile chooses among the loops. Go finds no arguments that it would have to allocate in a switch,
// as it does where functions are looked up.
func rowsFile() ([]byte, error) {
	var b strings.Builder
	b.WriteString("//go:build amd64 && !purego\n\n" + header + "package kernel\n\n")
	for _, t := range []*storage{f32, f64} {
		fmt.Fprintf(&b, "// run%s runs the loop of an instruction set.\n", t.name)
		fmt.Fprintf(&b, "func run%s(v vector, avx512 bool, %s {\nswitch v {\n", t.name, strings.TrimPrefix(rowParameters[t], "func("))
		for _, l := range rowLoops {
			fmt.Fprintf(&b, "case %s:\nif avx512 {\n%s(z, x, y, a, b, n)\n} else {\n%s(z, x, y, a, b, n)\n}\n",
				l.functionName(""), l.functionName(avx512.name+t.name), l.functionName(avx2.name+t.name))
		}
		b.WriteString("}\n}\n\n")
	}
	chooseArithmetic(&b)
	return format.Source([]byte(b.String()))
}
