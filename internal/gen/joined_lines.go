package main

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Short runs that share lines, where a vector of results is one: lines are put together in registers, of what comes last in
// one vector and first in the next, whichever run that is of. What lies before the call's first run in its line are results,
// too (kernel.before in cpu), so that all lines but the last are whole. Long runs are faster from where lines begin, since
// elements lie alike.

// joinedLines is what such a loop keeps.
type joinedLines struct {
	carry reg.VecVirtual // the last vector: its last lanes are of no line yet
	order reg.VecVirtual // which lanes of this one and the next make a line: free, free+1, ...
	line  reg.GPVirtual  // where that goes
	left  reg.GPVirtual  // how many elements the last vector of a run has
}

// joins reports whether there are such loops.
func (k *kernel) joins() bool { return k.isa.masks && k.out.size*k.lanes == lineBytes }

// beginLines begins with the part of a line that lies before the call's results.
func (k *kernel) beginLines() {
	c, skip := k.c, k.newLabel("near")
	j := &joinedLines{k.vector(), k.vector(), c.GP64(), c.GP64()}
	k.joined = j
	k.jumpUnless("joins", skip)
	within := k.withinLine(k.ptr["out"])
	c.MOVQ(k.ptr["out"], j.line)
	c.SUBQ(within, j.line)
	c.SHRQ(k.shift(), within)
	c.NEGQ(within)
	c.ADDQ(operand.Imm(uint64(k.lanes)), within)
	c.MOVQ(within, k.field("free"))
	k.emit("VMOVDQU64", operand.Mem{Base: j.line}, j.carry)
	k.keepLanes(j.carry)
	c.Label(skip)
}

// integers completes the name of an instruction on whole numbers of the results' size.
func (k *kernel) integers(name string) string { return name + either(k.out.size == 8, "Q", "D") }

// keepLanes makes the first lanes of a vector those that are of no line yet: all but so many as are free.
func (k *kernel) keepLanes(of reg.VecVirtual) {
	numbers, order := k.vector(), k.vector()
	k.emit(either(k.out.size == 8, "VMOVDQU64", "VMOVDQU32"), k.laneNumbers(), numbers)
	k.emit(k.integers("VPSUB")+"_BCST", k.field("free"), numbers, order)
	k.emit(k.ps("VPERM"), of, order, k.joined.carry)
	k.emit(k.integers("VPADD")+"_BCST", k.field("free"), numbers, k.joined.order)
}

// joinVectors stores a line for each of several vectors.
func (k *kernel) joinVectors(vectors []reg.Register) {
	before := reg.Register(k.joined.carry)
	for i, v := range vectors {
		k.emit("VMOVNTDQ", k.joinedWith(before, v), operand.Mem{Base: k.joined.line, Disp: i * lineBytes})
		before = v
	}
	k.emit("VMOVDQA64", before, k.joined.carry)
	k.c.ADDQ(operand.U32(lineBytes*len(vectors)), k.joined.line)
}

// joinedWith makes a line of the last lanes of a vector and the first ones of the next.
func (k *kernel) joinedWith(before, v reg.Register) reg.VecVirtual {
	line := k.vector()
	k.emit("VMOVDQA64", k.joined.order, line)
	k.emit(k.ps("VPERMI2"), v, before, line)
	return line
}

// joinSome takes the last vector of a run, which may fill a line.
func (k *kernel) joinSome(v reg.Register) {
	c, j := k.c, k.joined
	some, done := k.newLabel("part"), k.newLabel("kept")
	line, rest := k.joinedWith(j.carry, v), k.vector()
	c.SUBQ(j.left, k.field("free"))
	c.JG(operand.LabelRef(some))
	k.emit("VMOVNTDQ", line, operand.Mem{Base: j.line})
	c.ADDQ(operand.U32(lineBytes), j.line)
	c.ADDQ(operand.Imm(uint64(k.lanes)), k.field("free"))
	k.emit(k.ps("VPERM"), v, j.order, rest)
	k.keepLanes(rest)
	c.JMP(operand.LabelRef(done))
	c.Label(some)
	k.keepLanes(line)
	c.Label(done)
}

// endLines stores the beginning of the last line as usual.
func (k *kernel) endLines() {
	c, j, last := k.c, k.joined, k.vector()
	none := k.newLabel("none")
	k.jumpUnless("joins", none)
	c.MOVQ(operand.U32(k.lanes), j.left)
	c.SUBQ(k.field("free"), j.left)
	c.JEQ(operand.LabelRef(none))
	k.maskTail(j.left)
	k.emit(k.ps("VPERM"), j.carry, j.order, last)
	k.emit(either(k.out.size == 8, "VMOVDQU64", "VMOVDQU32"), last, k.tail, operand.Mem{Base: j.line})
	c.Label(none)
	k.tail = nil
}
