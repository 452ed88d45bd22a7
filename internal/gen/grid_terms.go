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
// asks for them: of none where there are at most alone.
func (k *gridKernel) clearTerms(terms reg.GPVirtual, alone uint64) {
	cleared, channels := k.newLabel("cleared"), param(k.c, "channels")
	zero := value{loadWhole(k.kernel, k.constant(uint32(0)))}
	for i := range groupChannels {
		if i == 0 || i == 4 {
			k.c.CMPQ(channels, operand.Imm(max(alone, uint64(i))))
			k.c.JLE(operand.LabelRef(cleared))
		}
		for sum := range k.sums {
			k.emit("VMOVUPS", zero[0], k.term(terms, i, sum))
		}
	}
	k.c.Label(cleared)
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
func (k *gridKernel) addFolded(sums int) {
	c, few, folded, terms := k.c, k.newLabel("few"), k.newLabel("folded"), param(k.c, "terms")
	fold := func(channels int) {
		for sum := range sums {
			k.storePlane(planeSums+sum, k.add(k.loadPlane(planeSums+sum), k.foldTerms(terms, channels, sum)))
		}
	}
	c.CMPQ(param(c, "channels"), operand.Imm(4))
	c.JLE(operand.LabelRef(few))
	fold(groupChannels)
	c.JMP(operand.LabelRef(folded))
	c.Label(few)
	fold(4)
	c.Label(folded)
}

// termsOf emits a group's terms of so many sums, which body stores for a channel
// at k.input whose upstream gradients g loads. A single channel has code of its
// own where alone is set. begin emits what begins the channels of a vector, given
// the number of its first position; it may be nil.
func (k *gridKernel) termsOf(sums int, alone bool, begin func(at reg.GPVirtual), body func(g func() value, store func(sum int, v value))) {
	c := k.c
	stride, dyStride := param(c, "channelStride"), param(c, "dyStride")
	// There are not enough registers for the others: they are loaded for each
	// vector of positions.
	k.clearTerms(param(c, "terms"), 0)
	k.input = c.GP64()
	k.forVectors(func() {
		loop, one, done := k.newLabel("channel"), k.newLabel("one"), k.newLabel("summed")
		from, left, to := param(c, "dy"), param(c, "channels"), param(c, "terms")
		at := k.position()
		c.LEAQ(operand.Mem{Base: from, Index: at, Scale: uint8(k.out.size)}, from)
		c.Load(c.Param("input"), k.input)
		if begin != nil {
			begin(at)
		}
		g := func() value { return value{k.out.load(k.kernel, memory{operand.Mem{Base: from}})} }
		if alone {
			c.CMPQ(left, operand.Imm(1))
			c.JEQ(operand.LabelRef(one))
		}
		c.Label(loop)
		body(g, func(sum int, v value) {
			k.emit(k.ps("VMOVU"), v[0], k.term(to, 0, sum))
		})
		c.ADDQ(operand.U32(k.sums*k.isa.bytes), to)
		c.ADDQ(stride, k.input)
		c.ADDQ(dyStride, from)
		c.DECQ(left)
		c.JNE(operand.LabelRef(loop))
		if k.addFolded(sums); !alone {
			return
		}
		c.JMP(operand.LabelRef(done))
		c.Label(one)
		body(g, func(sum int, v value) {
			v = k.add(v, k.zero()) // its partners do not exist
			k.storePlane(planeSums+sum, k.add(k.loadPlane(planeSums+sum), v))
		})
		c.Label(done)
	})
}
