package main

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// The grid's gradient: terms of up to 16 channels, and how they fold.

// groupChannels is the number of channels whose terms fold by halves.
const groupChannels = 16

// tapDifferences are the taps whose differences count: N, S, W, E.
var tapDifferences = [4][2]int{{1, 0}, {3, 2}, {2, 0}, {3, 1}}

// term is the place of a channel's term of one of the four sums.
func (k *gridKernel) term(terms reg.GPVirtual, channel, sum int) memory {
	return memory{operand.Mem{Base: terms, Disp: (channel*k.sums + sum) * k.isa.bytes}}
}

// clearTerms makes the terms of channels that do not exist, as far as foldTerms
// asks for them.
func (k *gridKernel) clearTerms(terms reg.GPVirtual) {
	c, left, channels := k.c, k.c.GP64(), param(k.c, "channels")
	few, loop, cleared := k.newLabel("few"), k.newLabel("clear"), k.newLabel("cleared")
	zero := value{loadWhole(k.kernel, k.constant(uint32(0)))}
	branch(c.CMPQ, channels, operand.Imm(1), c.JLE, cleared)
	c.MOVQ(operand.U32(4*k.sums), left)
	branch(c.CMPQ, channels, operand.Imm(4), c.JLE, few)
	c.MOVQ(operand.U32(groupChannels*k.sums), left)
	c.Label(few)
	c.Label(loop)
	k.emit("VMOVUPS", zero[0], operand.Mem{Base: terms})
	c.ADDQ(operand.Imm(uint64(k.isa.bytes)), terms)
	c.DECQ(left)
	c.JNE(operand.LabelRef(loop))
	c.Label(cleared)
}

// foldTerms folds a group's terms by halves, where only the first channels exist.
func (k *gridKernel) foldTerms(terms reg.GPVirtual, channels, sum int) value {
	// A channel and the one half the width further on.
	var fold func(channel, step int) value
	fold = func(channel, step int) value {
		if step == channels {
			v := value{loadWhole(k.kernel, k.term(terms, channel, sum))}
			if channels < groupChannels {
				return k.add(v, k.zero()) // its partners do not exist
			}
			return v
		}
		return k.add(fold(channel, 2*step), fold(channel+step, 2*step))
	}
	return fold(0, 1)
}

// addFolded adds a group's folded terms to the cells' sums.
func (k *gridKernel) addFolded() {
	c, done := k.c, k.newLabel("folded")
	terms, sum, left := param(c, "terms"), c.GP64(), c.GP64()
	at := memory{operand.Mem{Base: sum}}
	c.LEAQ(k.plane(planeSums).Mem, sum)
	c.MOVQ(operand.U32(k.sums), left)
	for _, channels := range []int{1, 4, groupChannels} {
		loop, more := k.newLabel("fold"), k.newLabel("more")
		if channels < groupChannels {
			branch(c.CMPQ, place(c, "channels"), operand.Imm(uint64(channels)), c.JG, more)
		}
		c.Label(loop)
		v := k.add(value{loadWhole(k.kernel, at)}, k.foldTerms(terms, channels, 0))
		k.emit(k.ps("VMOVU"), v[0], at)
		c.ADDQ(operand.Imm(uint64(k.isa.bytes)), terms)
		c.ADDQ(operand.U32(planeBytes/4*k.compute.size), sum)
		c.DECQ(left)
		c.JNE(operand.LabelRef(loop))
		c.JMP(operand.LabelRef(done))
		c.Label(more)
	}
	c.Label(done)
}

// termsOf emits a group's terms, of k.sums, which body stores for a channel
// at k.input whose upstream gradients g loads. begin emits what begins the channels
// of a vector, given the number of its first position; it may be nil.
func (k *gridKernel) termsOf(begin func(at reg.GPVirtual), body func(g func() value, store func(sum int, v value))) {
	c := k.c
	// There are not enough registers for all parameters: they are loaded for each
	// vector of positions, or stay in memory.
	k.clearTerms(param(c, "terms"))
	k.input = c.GP64()
	k.forVectors(func() {
		loop := k.newLabel("channel")
		from, left, to := param(c, "dy"), param(c, "channels"), param(c, "terms")
		at := k.position()
		c.LEAQ(operand.Mem{Base: from, Index: at, Scale: uint8(k.out.size)}, from)
		c.Load(c.Param("input"), k.input)
		if begin != nil {
			begin(at)
		}
		g := func() value { return k.loadFrom(operand.Mem{Base: from}) }
		c.Label(loop)
		body(g, func(sum int, v value) {
			k.emit(k.ps("VMOVU"), v[0], k.term(to, 0, sum))
		})
		c.ADDQ(operand.U32(k.sums*k.isa.bytes), to)
		c.ADDQ(place(c, "channelStride"), k.input)
		c.ADDQ(place(c, "dyStride"), from)
		c.DECQ(left)
		c.JNE(operand.LabelRef(loop))
		k.addFolded()
	})
}
