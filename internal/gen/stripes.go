package main

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// stripes is the kernel of a dense reduction in Stripe order. A stripe is 64
// positions of one or more elements each, which lie one after the other, so
// that lane l of element e is number l*elements + e of the accumulators.
type stripes struct {
	*kernel
	data     *storage
	elements int           // of a position
	sums     int           // sets of accumulators
	plane    reg.GPVirtual // elements of the compute type, which move on with the data; nil if there are none
	// add adds vector v from the pointers on to accumulators, one of each set.
	add func(v int, x reg.VecVirtual, acc []reg.VecVirtual)
}

// function writes a function of x, stripes and lanes. As many lanes as there are
// registers for are taken through all the data, then the next ones: the data of
// a call fits the cache.
func (s *stripes) function() {
	c, bytes := s.c, s.isa.bytes
	vectors := s.elements * stripeLanes / s.lanes
	part := min(vectors, either(s.isa.masks, 24, 12)/s.sums)
	for vectors%part != 0 {
		part--
	}
	from, lanes, x, left, parts := param(c, "x"), param(c, "lanes"), c.GP64(), c.GP64(), c.GP64()
	plane := s.plane
	if plane != nil {
		s.plane = c.GP64()
	}
	acc := make([][]reg.VecVirtual, part)
	each := func(f func(r reg.VecVirtual, at operand.Mem)) {
		for v := range acc {
			for sum, r := range acc[v] {
				f(r, operand.Mem{Base: lanes, Disp: (sum*vectors + v) * bytes})
			}
		}
	}
	for v := range acc {
		for range s.sums {
			acc[v] = append(acc[v], s.vector())
		}
	}
	step := s.lanes * s.data.size
	advance := func(vectors int, data, plane reg.GPVirtual) {
		c.ADDQ(operand.U32(vectors*step), data)
		if plane != nil {
			c.ADDQ(operand.U32(vectors*bytes), plane)
		}
	}
	c.MOVQ(operand.U32(vectors/part), parts)
	c.Label("part")
	each(func(r reg.VecVirtual, at operand.Mem) { s.emit(s.ps("VMOVU"), at, r) })
	c.MOVQ(from, x)
	if plane != nil {
		c.MOVQ(plane, s.plane)
	}
	c.MOVQ(place(c, "stripes"), left)
	while(c, left, 1, "stripe", "added", func() {
		for v := range acc {
			s.add(v, s.data.load(s.kernel, memory{operand.Mem{Base: x, Disp: v * step}}), acc[v])
		}
		advance(vectors, x, s.plane)
	})
	each(func(r reg.VecVirtual, at operand.Mem) { s.emit(s.ps("VMOVU"), r, at) })
	advance(part, from, plane)
	c.ADDQ(operand.U32(part*bytes), lanes)
	c.DECQ(parts)
	c.JG(operand.LabelRef("part"))
	endFunction(c)
}
