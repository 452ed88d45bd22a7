package main

import (
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
)

// addChosen emits the gradient of a bag's largest elements: terms are added
// where a position was chosen. Elsewhere 0 is, which changes no sum that began
// with +0.
func addChosen(c *build.Context) {
	for _, compute := range []struct {
		name, element string
		step          int
	}{{"F32", "float32", 8}, {"F64", "float64", 4}} {
		name, single := "addChosenAVX2"+compute.name, compute.step == 8
		beginFunction(c, name, "func(acc, terms *"+compute.element+", chosen *int64, n int, position int64)",
			name+" adds those of n terms that were chosen at a position: a multiple of "+string(rune('0'+compute.step))+".")
		acc, terms, chosen := param(c, "acc"), param(c, "terms"), param(c, "chosen")
		from, position, mask := c.XMM(), c.YMM(), c.YMM()
		c.VMOVQ(param(c, "position"), from)
		c.VPBROADCASTQ(from, position)
		inSteps(c, compute.step, func() {
			c.VPCMPEQQ(operand.Mem{Base: chosen}, position, mask)
			if single { // half of each mask, in the elements' order
				upper := c.YMM()
				c.VPCMPEQQ(operand.Mem{Base: chosen, Disp: 32}, position, upper)
				c.VSHUFPS(operand.Imm(0x88), upper, mask, mask)
				c.VPERMQ(operand.Imm(0xD8), mask, mask)
			}
			c.VPAND(operand.Mem{Base: terms}, mask, mask)
			if single {
				c.VADDPS(operand.Mem{Base: acc}, mask, mask)
			} else {
				c.VADDPD(operand.Mem{Base: acc}, mask, mask)
			}
			c.VMOVUPS(mask, operand.Mem{Base: acc})
			c.ADDQ(operand.Imm(32), acc)
			c.ADDQ(operand.Imm(32), terms)
			c.ADDQ(operand.Imm(uint64(8*compute.step)), chosen)
		})
	}
}
