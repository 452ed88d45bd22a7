package main

import (
	"fmt"
	"reflect"

	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// stripeLanes is the number of partial sums of a striped reduction.
const stripeLanes = 64

// kernel is a function under construction. An op's body describes what
// happens to one group of vectors by calling its methods; a value is such a
// group, held in registers.
type kernel struct {
	c       *build.Context
	globals *tables // of the file
	op      *op
	isa     *isa
	compute *storage
	in      []*storage // types of the data inputs
	out     *storage   // type of the data output, or nil
	codes   *storage   // float8Type where codes are rounded to one, or nil

	lanes     int          // elements of one vector
	group     int          // vectors side by side in the block being emitted
	at        int          // of the group, in elements from the pointers
	index     reg.Register // the same in a loop over groups, or nil
	tail      reg.OpmaskVirtual
	repeats   bool           // the last group of a run may begin with elements that were handled before
	left      reg.VecVirtual // then: how many are left, in every lane, or nil
	remain    reg.GPVirtual  // in a tail that may be a whole vector: how many elements are left, or nil
	call      reg.GPVirtual
	halfKind  operand.Mem // which type elements of 16 bits have: its number in anyHalf
	kind      operand.Mem // and codes, of those that their type stands for
	ptr       map[string]reg.GPVirtual
	param     map[string]value
	ends      map[string]operand.Mem // room for the last elements of an input's run
	held      []value                // accumulators in registers, of each sum, or nil
	quick     *quick                 // where codes are made without divisions
	pins      pins
	split     bool         // vectors hold every other element, see loadSplit
	finite    bool         // what is stored is no NaN
	shares    bool         // runs of a single strand may share lines that are stored around the caches
	joined    *joinedLines // of runs of a single strand that are stored around the caches, or nil
	setsAside bool         // what is rarely done is emitted behind a loop, not within
	aside     []func()     // what that is
	dots      bool         // elements of products are pairs of bf16
	label     int
}

// value is one vector register for each vector of a group.
type value []reg.VecVirtual

// memory is a place relative to one of the kernel's pointers.
type memory struct{ operand.Mem }

func (m memory) plus(bytes int) memory { return memory{m.Offset(bytes)} }

// emit appends an instruction by name: avo has a method for each.
func (k *kernel) emit(name string, operands ...any) {
	args := make([]reflect.Value, len(operands))
	var constant *operand.Mem
	wide := false
	for i, o := range operands {
		switch of := o.(type) {
		case int:
			o = operand.Op(operand.Imm(uint64(of)))
		case memory:
			o = of.Mem
		}
		if m, ok := o.(operand.Mem); ok && m.Symbol.Static {
			constant = &m
		}
		if r, ok := o.(reg.Register); ok {
			wide = wide || r.Size() == 64
		}
		args[i] = reflect.ValueOf(o)
	}
	if constant != nil && wide {
		name = k.reading(name, *constant)
	}
	method := reflect.ValueOf(k.c).MethodByName(name)
	if !method.IsValid() {
		panic("no instruction " + name)
	}
	method.Call(args)
}

// ps completes the name of an instruction on the compute type.
func (k *kernel) ps(name string) string {
	if k.double() {
		return name + "PD"
	}
	return name + "PS"
}

// scalar does so for single elements.
func (k *kernel) scalar(name string) string {
	if k.double() {
		return name + "SD"
	}
	return name + "SS"
}

// either returns the first of two values where something holds, else the second.
func either[T any](holds bool, yes, no T) T {
	if holds {
		return yes
	}
	return no
}

func (k *kernel) newLabel(name string) string {
	k.label++
	return fmt.Sprintf("%s%d", name, k.label)
}

func (k *kernel) vector() reg.VecVirtual { return k.isa.vector(k.c) }

func (k *kernel) newValue() value {
	v := make(value, k.group)
	for i := range v {
		v[i] = k.vector()
	}
	return v
}

// pointer returns the address of the current group's vector i behind a
// pointer to elements of a size.
func (k *kernel) pointer(name string, i, size int) memory {
	m := operand.Mem{Base: k.ptr[name], Disp: (k.at + i*k.lanes) * size}
	if k.index != nil {
		m.Index, m.Scale = k.index, uint8(size)
	}
	return memory{m}
}

// apply emits an instruction for each vector: to = from[0] op from[1] ...,
// operands in Go's order, which is the reverse of the manual's.
func (k *kernel) apply(name string, from ...any) value {
	to := k.newValue()
	for i := range to {
		operands := make([]any, 0, len(from)+1)
		for _, f := range from {
			if v, ok := f.(value); ok {
				f = v[i]
			}
			operands = append(operands, f)
		}
		k.emit(name, append(operands, to[i])...)
	}
	return to
}

func (k *kernel) add(a, b value) value { return k.apply(k.ps("VADD"), b, a) }
func (k *kernel) sub(a, b value) value { return k.apply(k.ps("VSUB"), b, a) }
func (k *kernel) mul(a, b value) value { return k.apply(k.ps("VMUL"), b, a) }
func (k *kernel) div(a, b value) value { return k.apply(k.ps("VDIV"), b, a) }

// min and max return b where either is a NaN, and where both are zeros.
func (k *kernel) min(a, b value) value { return k.apply(k.ps("VMIN"), b, a) }
func (k *kernel) max(a, b value) value { return k.apply(k.ps("VMAX"), b, a) }

// rint rounds to whole numbers, ties to even.
func (k *kernel) rint(a value) value { return k.apply(k.ps(k.isa.rint), 8, a) }

// rintOrZero is rint, but 0 for a NaN.
func (k *kernel) rintOrZero(a value) value {
	number := k.compare(a, ordered, a)
	if !k.isa.masks {
		return k.rint(k.keep(number, a))
	}
	to := k.newValue()
	for i := range to {
		k.emit(k.ps(k.isa.rint)+"_Z", 8, a[i], number[i], to[i])
	}
	return to
}

// The parameters of the elements, in the compute type: the same for the whole
// run, or one for each element. scale and zero are loaded before the body.
func (k *kernel) scale() value { return k.param["scale"][:k.group] }
func (k *kernel) zero() value  { return k.param["zero"][:k.group] }

// lo and hi are the bounds of codes.
func (k *kernel) lo() value { return k.bound("lo") }
func (k *kernel) hi() value { return k.bound("hi") }

// first and last are the bounds less the zero point: a whole number is between
// them where, with the zero point added, it is between the bounds. All these
// are whole and so small that the differences are exact.
func (k *kernel) first() value { return k.relative("first", "lo") }
func (k *kernel) last() value  { return k.relative("last", "hi") }

func (k *kernel) relative(name, bound string) value {
	if k.param[name] != nil {
		return k.bound(name)
	}
	return k.sub(k.bound(bound), k.zero())
}

func (k *kernel) bound(name string) value {
	v := make(value, k.group)
	for i := range v {
		v[i] = k.param[name][0]
	}
	return v
}

// clamp returns a between the bounds; a is not a NaN.
func (k *kernel) clamp(a value) value { return k.max(k.min(a, k.hi()), k.lo()) }

// quotient returns x / s, or x * (1/s) for rounding=reciprocal.
func (k *kernel) quotient(x, s value) value {
	u := k.newValue()
	k.where("reciprocal", "reciprocal", "divided", func() {
		for i := range u {
			k.emit(k.ps("VDIV"), s[i], x[i], u[i])
		}
	}, func() {
		for i := range u {
			t := k.vector()
			k.emit(k.ps("VMOVU"), k.one(), t)
			k.emit(k.ps("VDIV"), s[i], t, t)
			k.emit(k.ps("VMUL"), t, x[i], u[i])
		}
	})
	return u
}

func (k *kernel) one() memory {
	if k.double() {
		return k.constant(uint64(0x3FF0000000000000))
	}
	return k.constant(uint32(0x3F800000))
}

// jumpIf branches on one of the call's flags: the same way all along a run.
func (k *kernel) jumpIf(flag, label string) {
	branch(k.c.CMPB, k.field(flag), operand.U8(0), k.c.JNE, label)
}

func (k *kernel) jumpUnless(flag, label string) {
	branch(k.c.CMPB, k.field(flag), operand.U8(0), k.c.JEQ, label)
}

func (k *kernel) field(name string) operand.Mem {
	return operand.Mem{Base: k.call, Disp: kernelCall.offset(name)}
}

// double reports whether the kernel computes in f64.
func (k *kernel) double() bool { return k.compute.size == 8 }
