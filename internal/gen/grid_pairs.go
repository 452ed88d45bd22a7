package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/operand"
)

// joinGradients puts gradients of images together in pairs.
func (k *gridKernel) joinGradients() {
	to := param(k.c, "to")
	k.forVectors(func() {
		x, y := k.loadPlane(planeGrad), k.loadPlane(planeGrad+1)
		for half := range 2 {
			k.emit(k.ps("VMOVU"), k.zip(x, y, half)[0], operand.Mem{Base: to, Disp: half * k.isa.bytes})
		}
		k.c.ADDQ(operand.U32(2*k.isa.bytes), to)
	})
}

// everySecond returns the even or the odd elements of two vectors.
func (k *gridKernel) everySecond(a, b value, odd int) value {
	if k.isa.masks {
		return k.permute2([]string{"even", "odd"}[odd], a, b, func(i int) int { return 2*i + odd })
	}
	if k.double() {
		return k.apply("VPERMPD", 0xD8, k.apply([]string{"VUNPCKLPD", "VUNPCKHPD"}[odd], b, a))
	}
	return k.apply("VPERMPD", 0xD8, k.apply("VSHUFPS", []int{0x88, 0xDD}[odd], b, a))
}

// zip returns the first or the second half of a[0], b[0], a[1], b[1], ...
func (k *gridKernel) zip(a, b value, half int) value {
	if k.isa.masks {
		return k.permute2([]string{"zipped0", "zipped1"}[half], a, b, func(i int) int {
			return i/2 + half*k.lanes/2 + i%2*k.lanes
		})
	}
	low, high := k.apply(k.ps("VUNPCKL"), b, a), k.apply(k.ps("VUNPCKH"), b, a)
	return k.apply("VPERM2F128", []int{0x20, 0x31}[half], high, low)
}

// permute2 returns the elements of a and b with the numbers that index gives.
func (k *gridKernel) permute2(name string, a, b value, index func(i int) int) value {
	var words []operand.Constant
	for i := range k.lanes {
		if k.double() {
			words = append(words, operand.U64(index(i)))
		} else {
			words = append(words, operand.U32(index(i)))
		}
	}
	v := k.vector()
	k.emit("VMOVDQU32", k.table(fmt.Sprint(name, 8*k.compute.size), words...), v)
	k.emit(k.ps("VPERMI2"), b[0], a[0], v)
	return value{v}
}
