package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Windows: four neighbours in a row of an image, which one load takes.

// inWindows lists the positions whose windows share register m, of four.
func (k *gridKernel) inWindows(m int) (positions []int) {
	switch {
	case !k.double():
		for at := m; at < k.lanes; at += cubicTaps {
			positions = append(positions, at)
		}
	case k.isa.masks: // so that what transposeWindows makes is in order
		positions = []int{m/2*4 + m%2, m/2*4 + m%2 + 2}
	default:
		positions = []int{m}
	}
	return positions
}

// windows loads those of all registers, which begin at some places.
func (k *gridKernel) windows(places memory) (all [cubicTaps]value) {
	loaded := k.ofType(k.out, func(t *storage) (v value) {
		for m := range all {
			v = append(v, k.windowsOf(t, places, m))
		}
		return v
	})
	for m := range all {
		all[m] = loaded[m : m+1]
	}
	return all
}

// windowsOf loads those of register m, of elements of a type.
func (k *gridKernel) windowsOf(t *storage, places memory, m int) reg.VecVirtual {
	v := k.vector()
	insert, move := "VINSERTF128", "VMOVUPS"
	switch {
	case k.double():
		insert, move = "VINSERTF64X4", "VMOVUPD"
	case k.isa.masks:
		insert = "VINSERTF32X4"
	}
	for part, position := range k.inWindows(m) {
		at := k.c.GP64()
		k.c.MOVL(places.plus(4*position).Mem, at.As32())
		from := operand.Mem{Base: k.input, Index: at, Scale: uint8(k.out.size)}
		x := v.AsX().(reg.VecVirtual)
		if k.double() {
			x = v.AsY().(reg.VecVirtual)
		}
		if k.out.size > 2 {
			if part == 0 {
				k.emit(move, from, x)
			} else {
				k.emit(insert, part, from, v, v)
			}
			continue
		}
		if part > 0 {
			x = k.c.XMM()
		}
		if t == f16 {
			k.c.VCVTPH2PS(from, x)
		} else {
			k.c.VPMOVZXWD(from, x)
		}
		if part > 0 {
			k.emit(insert, part, x, v, v)
		}
	}
	if t == bf16 {
		k.emit("VPSLLD", 16, v, v)
	}
	return v
}

// transposeWindows makes a vector of each tap of the windows of four registers.
func (k *gridKernel) transposeWindows(v [cubicTaps]value) [cubicTaps]value {
	pair := func(name string, a, b value) value { return k.apply(name, b, a) }
	if k.double() {
		even := [2]value{pair("VUNPCKLPD", v[0], v[1]), pair("VUNPCKLPD", v[2], v[3])}
		odd := [2]value{pair("VUNPCKHPD", v[0], v[1]), pair("VUNPCKHPD", v[2], v[3])}
		half := func(high int, p [2]value) value {
			if k.isa.masks {
				return k.apply("VSHUFF64X2", []int{0x88, 0xDD}[high], p[1], p[0])
			}
			return k.apply("VPERM2F128", []int{0x20, 0x31}[high], p[1], p[0])
		}
		return [cubicTaps]value{half(0, even), half(0, odd), half(1, even), half(1, odd)}
	}
	low := [2]value{pair("VUNPCKLPS", v[0], v[1]), pair("VUNPCKLPS", v[2], v[3])}
	high := [2]value{pair("VUNPCKHPS", v[0], v[1]), pair("VUNPCKHPS", v[2], v[3])}
	return [cubicTaps]value{
		pair("VUNPCKLPD", low[0], low[1]), pair("VUNPCKHPD", low[0], low[1]),
		pair("VUNPCKLPD", high[0], high[1]), pair("VUNPCKHPD", high[0], high[1]),
	}
}

// ordered returns windows with their elements in the order of a control.
func (k *gridKernel) ordered(windows value, control memory) value {
	switch {
	case !k.double():
		return k.apply("VPERMILPS", control, windows)
	case k.isa.masks:
		return k.apply("VPERMPD", windows, value{loadWhole(k.kernel, control)})
	}
	return k.apply("VPERMPS", windows, value{loadWhole(k.kernel, control)})
}

// controls makes those of four registers of windows from the numbers of each
// tap's element in a position's window, integers.
func (k *gridKernel) controls(elements [cubicTaps]value) (to [cubicTaps]value) {
	if !k.double() {
		return k.transposeWindows(elements)
	}
	var wide [cubicTaps]value
	for tap, e := range elements {
		wide[tap] = k.apply("VPMOVSXDQ", e[0])
	}
	if !k.isa.masks { // numbers of halves, which there is an instruction for
		for m, v := range k.transposeWindows(wide) {
			v = k.apply("VPSLLQ", 1, v)
			high := k.apply("VPADDQ", k.constant(uint64(1)), v)
			to[m] = k.apply("VPOR", k.apply("VPSLLQ", 32, high), v)
		}
		return to
	}
	for m := range to {
		var both [2]value
		for i := range both {
			both[i] = k.apply([]string{"VUNPCKLPD", "VUNPCKHPD"}[m%2], wide[2*i+1], wide[2*i])
		}
		v := k.permute2(fmt.Sprint("windows", m/2), both[0], both[1], func(i int) int {
			return m/2*4 + i/4*2 + i%2 + i/2%2*k.lanes
		})
		to[m] = k.apply("VPADDQ", k.inRegister(k.table("secondWindow", operand.U64(0), operand.U64(0), operand.U64(0), operand.U64(0),
			operand.U64(4), operand.U64(4), operand.U64(4), operand.U64(4))), v)
	}
	return to
}
