package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// The kernels of grid_sample that read each tap by itself: of volumes, nearest,
// f64, and images that have no pairs (cpu/grid_gather.go). A tap's place is the
// number of its element in a channel, or -1 for one outside.

// gatherFunction returns how functions begin, gatherFunctions how those that
// take a number of cells do.
func gatherFunction(c *build.Context, globals *tables, isa *isa) func(name string, t *storage, signature string, doc ...string) *gridKernel {
	return func(name string, t *storage, signature string, doc ...string) *gridKernel {
		beginFunction(c, name, signature, doc...)
		return &gridKernel{kernel: newKernel(c, globals, isa, t), i: c.GP64()}
	}
}

func gatherFunctions(c *build.Context, globals *tables, isa *isa) func(name string, t *storage, arguments string, doc ...string) *gridKernel {
	begin := gatherFunction(c, globals, isa)
	return func(name string, t *storage, arguments string, doc ...string) *gridKernel {
		k := begin(name, t, "func(cells *byte, n int"+arguments+")", doc...)
		k.cells, k.n = param(c, "cells"), param(c, "n")
		k.halfKind = k.word(paramHalf)
		return k
	}
}

// gatherKernels emits those of every type, on every instruction set.
func gatherKernels(c *build.Context) {
	globals := newTables()
	for _, isa := range isas {
		begin, beginCells := gatherFunction(c, globals, isa), gatherFunctions(c, globals, isa)
		for _, compute := range []*storage{f32, f64} {
			for dims := 2; dims <= 3; dims++ {
				cellKernels(begin, beginCells, compute, dims, fmt.Sprintf("%d%s%s", dims, isa.name, compute.name))
			}
			name := "gatherJoin" + isa.name + compute.name
			beginCells(name, compute, ", to *byte",
				name+" puts the gradients of n positions in images together; n is of whole vectors.").joinGradients()
		}
		begin("gatherBand"+isa.name, f32, "func(places *byte, n int, taps int, first int, pixels int)",
			"gatherBand"+isa.name+" numbers taps within a band of so many pixels; others become -1.").band()
		for _, t := range floatsRead {
			name := "gatherSample" + isa.name + t.name
			beginCells(name, t, ", input *byte, taps int, y *byte",
				name+" samples one channel at n positions.",
				"The last vector of cells is that of the last positions.").sampleTaps()
			name = "gatherShiftNearest" + isa.name + t.name
			beginCells(name, t, ", tangent *byte, y *byte",
				name+" is gatherShift for the nearest pixel; there are tangents of three coordinates.").tangentOfNearest()
			for dims := 2; dims <= 3; dims++ {
				name := fmt.Sprintf("gatherTerms%d%s%s", dims, isa.name, t.name)
				beginCells(name, t, ", input *byte, channelStride int, dy *byte, dyStride int, channels int, terms *byte",
					name+" adds one group's terms of the grid's gradient, of up to 16 channels, to the",
					"cells' sums. terms is room for 16 times as many vectors as there are sums.").termsOfTaps(dims)
				name = fmt.Sprintf("gatherBends%d%s%s", dims, isa.name, t.name)
				beginCells(name, t, ", input *byte, channelStride int, dy *byte, dyStride int, channels int, terms *byte",
					name+" is gatherTerms of second differences.").bendsOfTaps(dims)
				name = fmt.Sprintf("gatherShift%d%s%s", dims, isa.name, t.name)
				beginCells(name, t, ", input *byte, tangent *byte, y *byte",
					name+" makes the gradient of one channel's upstream gradient at n positions;",
					"tangent is the input's, or nil.").tangentOfTaps(dims)
			}
		}
		for _, t := range []*storage{bf16, f16} {
			begin("widenRow"+isa.name+t.name, t, "func(from *byte, n int, to *byte)",
				"widenRow"+isa.name+t.name+" converts n elements to f32; n is of whole vectors.").convertRow(true)
			begin("narrowRow"+isa.name+t.name, t, "func(from *byte, n int, to *byte)",
				"narrowRow"+isa.name+t.name+" rounds n elements of f32; n is of whole vectors.").convertRow(false)
		}
		for _, t := range []*storage{f32, f64, bf16} {
			name := fmt.Sprintf("gatherCopy%d%s", 8*t.size, isa.name)
			beginCells(name, t, ", input *byte, y *byte",
				fmt.Sprintf("%s is gatherSample of the nearest pixel, for elements of %d bytes.", name, t.size)).copyTaps()
		}
	}
}

// cellKernels emits those that know no type of images but what they compute in.
func cellKernels(begin, beginCells func(name string, t *storage, signature string, doc ...string) *gridKernel, compute *storage, dims int, suffix string) {
	begin("gatherSplit"+suffix, compute, "func(from *byte, n int, cells *byte)",
		"gatherSplit"+suffix+" takes the coordinates of n positions apart; n is of whole vectors.").splitTaps(dims)
	beginCells("gatherLocate"+suffix, compute, "",
		"gatherLocate"+suffix+" fills cells from the coordinates of n positions and the parameters.").locateTaps(dims)
	beginCells("gatherNearest"+suffix, compute, "",
		"gatherNearest"+suffix+" is that for the nearest pixel.").locateNearest(dims)
	beginCells("gatherCombine"+suffix, compute, "",
		"gatherCombine"+suffix+" turns the cells' sums into gradients.").combineTaps(dims)
	beginCells("gatherBend"+suffix, compute, "",
		"gatherBend"+suffix+" adds the cells' sums of gatherBends to gradients.").combineBends(dims)
	beginCells("gatherWeights"+suffix, compute, "",
		"gatherWeights"+suffix+" makes weights derivatives along the coordinates' tangents.").slopesOfWeights(dims)
}

// integers is the place of the current cells' integers.
func (k *gridKernel) integers(number int) memory {
	return memory{operand.Mem{Base: k.cells, Index: k.i, Scale: 4, Disp: planePair*planeBytes/4*k.compute.size + number*planeBytes}}
}

// gathered returns the elements at some places, +0 for those that are outside
// where there may be such.
func (k *gridKernel) gathered(places memory, edge bool) value {
	parts := k.gatheredParts(places, edge)
	if k.out.size > 2 {
		return value{k.join(parts)}
	}
	words := k.words(parts)
	return k.ofType(k.out, func(t *storage) value { return k.widened(t, words) })
}

// words joins elements of 16 bits.
func (k *gridKernel) words(parts []reg.VecVirtual) reg.VecVirtual {
	if len(parts) == 1 {
		return parts[0]
	}
	words := k.c.YMM()
	k.c.VINSERTI128(operand.Imm(1), parts[1], parts[0].AsY(), words)
	return words
}

// gatheredParts returns the elements as they are, in registers of 16 bytes.
// Instructions that gather take three times as long as single loads.
func (k *gridKernel) gatheredParts(places memory, edge bool) []reg.VecVirtual {
	if !edge {
		return k.partsAt(places)
	}
	// Of those outside, element 0 is read.
	n, inside := k.narrow(), k.integers(planeClamped)
	n.emit("VMOVUPS", n.apply("VPMAXSD", n.zero(), value{loadWhole(n.kernel, places)})[0], inside)
	parts := k.partsAt(inside)
	for i, part := range parts {
		k.c.VPANDN(part, k.negative(places.plus(4*i*16/k.out.size)), part)
	}
	return parts
}

// negative returns ones for the elements of 16 bytes whose places are negative.
func (k *gridKernel) negative(places memory) reg.VecVirtual {
	signs := func(from memory) reg.VecVirtual {
		v := k.c.XMM()
		k.c.VMOVDQU(from.Mem, v)
		k.c.VPSRAD(operand.Imm(31), v, v)
		return v
	}
	v := k.c.XMM()
	switch k.out.size {
	case 2:
		k.c.VPACKSSDW(signs(places.plus(16)), signs(places), v)
	case 4:
		return signs(places)
	default: // -1, of which every bit is set
		k.c.VPMOVSXDQ(places.Mem, v)
		k.c.VPSRAD(operand.Imm(31), v, v)
		k.c.VPSHUFD(operand.Imm(0xF5), v, v)
	}
	return v
}

// partsAt does so where every place is an element's. Two places are loaded at once.
func (k *gridKernel) partsAt(places memory) []reg.VecVirtual {
	var two reg.GPVirtual
	return k.parts(func(lane int) operand.Op {
		at := two
		if lane%2 == 0 {
			two, at = k.c.GP64(), k.c.GP64()
			k.c.MOVQ(places.plus(4*lane).Mem, two)
			k.c.MOVL(two.As32(), at.As32())
		} else {
			k.c.SHRQ(operand.Imm(32), two)
		}
		return operand.Mem{Base: k.input, Index: at, Scale: uint8(k.out.size)}
	})
}

// inGeneral loads an element into a general register.
func (k *gridKernel) inGeneral(from operand.Mem) reg.GPVirtual {
	e := k.c.GP64()
	switch k.out.size {
	case 2:
		k.c.MOVWQZX(from, e)
	case 4:
		k.c.MOVL(from, e.As32())
	default:
		k.c.MOVQ(from, e)
	}
	return e
}

// parts puts a vector of elements of the images' type together, each of which is
// in memory or in a general register.
func (k *gridKernel) parts(element func(lane int) operand.Op) (parts []reg.VecVirtual) {
	size := k.out.size
	each := 16 / size
	insert := map[int]string{2: "VPINSRW", 4: "VPINSRD", 8: "VPINSRQ"}[size]
	for lane := range k.lanes {
		e := element(lane)
		if m, ok := e.(operand.Mem); ok && size == 2 && lane%each == 0 {
			e = k.inGeneral(m)
		}
		if g, ok := e.(reg.GPVirtual); ok && size < 8 {
			e = g.As32()
		}
		if lane%each > 0 {
			part := parts[len(parts)-1]
			k.emit(insert, lane%each, e, part, part)
			continue
		}
		part := k.c.XMM()
		if parts = append(parts, part); size == 8 {
			k.c.VMOVQ(e, part)
		} else {
			k.c.VMOVD(e, part)
		}
	}
	return parts
}

// eitherEdge emits code for vectors all of whose taps are inside, and for others.
func (k *gridKernel) eitherEdge(code func(edge bool)) {
	edge, done := k.newLabel("edge"), k.newLabel("edgeDone")
	branch(k.c.CMPL, k.integers(planeOutside).Mem, operand.Imm(0), k.c.JNE, edge)
	code(false)
	k.c.JMP(operand.LabelRef(done))
	k.c.Label(edge)
	code(true)
	k.c.Label(done)
}
