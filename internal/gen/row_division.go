package main

import (
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
)

// rowDivisions emits what bags' mean does with the gradient of a bag: it divides rows by a number.
func rowDivisions(c *build.Context) { eachFloat(c, (*kernel).divideRow) }

// divideRow stores quotients in the compute type.
func (k *kernel) divideRow() {
	c, name := k.c, "divideRow"+k.isa.name+k.out.name
	beginFunction(c, name, "func(from *byte, n int, by, to *byte)", name+" divides n elements, a multiple of 32, and stores them in the compute type.")
	from, to, by := param(c, "from"), param(c, "to"), k.vector()
	k.emit(k.broadcast(), operand.Mem{Base: param(c, "by")}, by)
	step := k.group * k.lanes
	inSteps(c, step, func() {
		for i := range k.group {
			v := k.out.load(k, memory{operand.Mem{Base: from, Disp: i * k.lanes * k.out.size}})
			k.emit(k.ps("VDIV"), by, v, v)
			k.emit(k.ps("VMOVU"), v, operand.Mem{Base: to, Disp: i * k.lanes * k.compute.size})
		}
		c.ADDQ(operand.U32(step*k.out.size), from)
		c.ADDQ(operand.U32(step*k.compute.size), to)
	})
}
