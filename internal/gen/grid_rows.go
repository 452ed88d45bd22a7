package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// The grid's gradient of images whose channels lie side by side (cpu/grid_rows.go).

// rowTermsKernels emits those of every type, on every instruction set.
func rowTermsKernels(c *build.Context) {
	globals := newTables()
	for _, isa := range isas {
		begin := gatherFunctions(c, globals, isa)
		for _, t := range []*storage{f32, bf16, f16} {
			for dims := 2; dims <= 3; dims++ {
				name := fmt.Sprintf("rowTerms%d%s%s", dims, isa.name, t.name)
				k := begin(name, t, ", input *byte, zeros *byte, dy *byte, dyPitch int, rowBytes int",
					name+" makes the cells' sums of n positions, of which the upstream gradients, in f32, lie dyPitch",
					"bytes apart; a tap outside is zeros. rowBytes are those of a pixel's channels, whose number is a",
					"multiple of 16.")
				(&rowTerms{gridKernel: k, dims: dims}).function()
			}
		}
	}
}

// rowTerms is the kernel under construction.
type rowTerms struct {
	*gridKernel
	dims   int
	taps   []reg.GPVirtual // their pixels
	dy, at reg.GPVirtual   // upstream gradients; bytes from a pixel's first channel on
	sums   []value         // of each quad
}

// quad is four differences of taps, far ones less near ones.
type quad [4][2]int

// quads lists the differences along each axis as cpu's differences does.
func quads(dims int) (all []quad) {
	var pairs [][2]int
	for axis := range dims {
		for near := range 1 << dims {
			if near>>axis&1 == 0 {
				pairs = append(pairs, [2]int{near | 1<<axis, near})
			}
		}
	}
	for ; len(pairs) > 0; pairs = pairs[4:] {
		all = append(all, quad(pairs[:4]))
	}
	return all
}

func (k *rowTerms) function() {
	c := k.c
	k.dy, k.at = param(c, "dy"), c.GP64()
	for range 1 << k.dims {
		k.taps = append(k.taps, c.GP64())
	}
	for range quads(k.dims) {
		k.group = groupChannels / k.lanes
		k.sums = append(k.sums, k.newValue())
		k.group = 1
	}
	c.XORQ(k.i, k.i)
	position, end, channels := k.newLabel("position"), k.newLabel("end"), k.newLabel("channels")
	c.Label(position)
	branch(c.CMPQ, k.i, place(c, "n"), c.JGE, end)
	k.findTaps()
	for _, sums := range k.sums {
		for _, v := range sums {
			k.emit("VXORPS", v, v, v)
		}
	}
	c.XORQ(k.at, k.at)
	c.Label(channels)
	k.addQuads()
	c.ADDQ(operand.Imm(uint64(groupChannels*k.out.size)), k.at)
	branch(c.CMPQ, k.at, place(c, "rowBytes"), c.JLT, channels)
	k.storeSums()
	c.ADDQ(place(c, "dyPitch"), k.dy)
	c.INCQ(k.i)
	c.JMP(operand.LabelRef(position))
	c.Label(end)
	endFunction(c)
}

// findTaps finds the pixels of a position.
func (k *rowTerms) findTaps() {
	c := k.c
	input, zeros := c.GP64(), c.GP64()
	c.MOVQ(place(c, "input"), input)
	c.MOVQ(place(c, "zeros"), zeros)
	for tap, to := range k.taps {
		c.MOVLQSX(k.integers(planePlace+tap).Mem, to)
		c.TESTQ(to, to)
		c.LEAQ(operand.Mem{Base: input, Index: to, Scale: uint8(k.out.size)}, to)
		c.CMOVQLT(zeros, to)
	}
}

// addQuads adds the terms of a group of channels, folded by halves.
func (k *rowTerms) addQuads() {
	for i, q := range quads(k.dims) {
		var terms [4]value
		for first := 0; first < groupChannels; first += k.lanes {
			tap, dy := k.tapsFrom(first), k.upstream(first)
			for j, d := range q {
				term := k.mul(dy, k.sub(tap(d[0]), tap(d[1])))
				if first > 0 {
					term = k.add(terms[j], term)
				}
				terms[j] = term
			}
		}
		for j, folded := range k.foldQuad(terms) {
			k.emit("VADDPS", folded[0], k.sums[i][j], k.sums[i][j])
		}
	}
}

// tapsFrom returns what loads a vector of a tap's channels: of images each once, of volumes, for
// which there are too few registers, each time.
func (k *rowTerms) tapsFrom(channel int) func(tap int) value {
	loaded := map[int]value{}
	return func(tap int) value {
		v, ok := loaded[tap]
		if !ok || k.dims > 2 {
			from := memory{operand.Mem{Base: k.taps[tap], Index: k.at, Scale: 1, Disp: channel * k.out.size}}
			v = value{k.out.load(k.kernel, from)}
			loaded[tap] = v
		}
		return v
	}
}

// upstream loads a vector of the upstream gradient's channels.
func (k *rowTerms) upstream(channel int) value {
	return value{loadWhole(k.kernel, memory{operand.Mem{Base: k.dy, Index: k.at, Scale: uint8(4 / k.out.size), Disp: channel * 4}})}
}

// foldQuad folds four vectors at once: each ends in a quarter of what is returned, whose elements
// are all the same. Two halves, or quarters, lie side by side before they are added.
func (k *rowTerms) foldQuad(terms [4]value) []value {
	meet := func(name string, low, high int, a, b value) value {
		return k.add(k.apply(name, low, b, a), k.apply(name, high, b, a))
	}
	permuted := func(v value, order int) value { return k.apply("VPERMILPS", order, v) }
	var folded []value
	if k.lanes == groupChannels {
		pairs := [2]value{meet("VSHUFF32X4", 0x44, 0xEE, terms[0], terms[1]), meet("VSHUFF32X4", 0x44, 0xEE, terms[2], terms[3])}
		folded = []value{meet("VSHUFF32X4", 0x88, 0xDD, pairs[0], pairs[1])}
	} else {
		folded = []value{meet("VPERM2F128", 0x20, 0x31, terms[0], terms[1]), meet("VPERM2F128", 0x20, 0x31, terms[2], terms[3])}
	}
	for i, v := range folded {
		v = k.add(v, permuted(v, 0x4E))
		folded[i] = k.add(v, permuted(v, 0xB1))
	}
	return folded
}

// storeSums stores the sums of a position in their planes.
func (k *rowTerms) storeSums() {
	number := 0
	for _, quad := range k.sums {
		for _, v := range quad {
			for quarter := range k.lanes / 4 {
				sum := v.AsX()
				if quarter > 0 {
					sum = k.c.XMM()
					k.emit(either(k.lanes == groupChannels, "VEXTRACTF32X4", "VEXTRACTF128"), quarter, v, sum)
				}
				k.c.VMOVSS(sum, k.plane(planeSums+number).Mem)
				number++
			}
		}
	}
}
