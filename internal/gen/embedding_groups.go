package main

import (
	"math"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Rows of codes in short groups. With masks a register has the parameters of all groups of a tile, of which each column takes
// its own. Without, of the parameters of a row, one after the other, each vector loads the four from a group on.

// columnGroups has, of each vector of a tile, which of four parameters its columns take, then how many bytes lie before these.
// With masks it has which of those that are loaded columns take, and how many bytes lie before a tile's.
type columnGroups struct {
	chosen, before operand.Mem
	numbers        value
	loaded         reg.OpmaskVirtual
	least          reg.VecVirtual // of fused steps: the least scales
}

// allocGroups makes room for the vectors of a tile, of which there are most at the most.
func (s *rowSum) allocGroups(most int) {
	if s.isa.masks {
		s.columnGroups = columnGroups{before: s.c.AllocLocal(8), loaded: s.c.K()}
		for range most {
			s.columnGroups.numbers = append(s.columnGroups.numbers, s.vector())
		}
		return
	}
	s.columnGroups.chosen = s.c.AllocLocal(most * (s.isa.bytes + 8))
	s.columnGroups.before = s.columnGroups.chosen.Offset(most * s.isa.bytes)
}

// setGroups sets them for a tile.
func (s *rowSum) setGroups() {
	c, of, first, before := s.c, s.c.GP64(), s.vector(), s.c.GP64()
	c.MOVQ(s.param("groups"), of)
	if s.isa.masks {
		s.setNumbers(of)
		return
	}
	for v := range s.group {
		group := s.shiftedPlace(operand.Mem{Base: of, Disp: v * s.lanes * 4}, v, 4)
		begins := memory{group.Offset(columnNumbers * 4)}
		s.emit("VPBROADCASTD", begins, first)
		chosen := s.vector()
		s.emit("VMOVDQU", group, chosen)
		s.emit("VPSUBD", first, chosen, chosen)
		s.emit("VMOVDQU", chosen, memory{s.columnGroups.chosen.Offset(v * s.isa.bytes)})
		c.MOVLQSX(begins.Mem, before)
		c.SHLQ(operand.Imm(2), before)
		c.MOVQ(before, s.columnGroups.before.Offset(v*8))
	}
}

// groupedRows emits the addition of rows in groups, where the mode asks for it, times factors of a type; less than a vector
// has none of them.
func (s *rowSum) groupedRows(sum value, factors *storage, summed string) {
	if s.shifted.few != nil || s.tail != nil {
		return
	}
	s.grouped, s.fused = true, s.terms == bf16
	s.when(sumGrouped, func() {
		if s.fused {
			s.columnGroups.least = s.vector()
			s.emit("VMOVUPS", s.constant(uint32(math.MaxInt32)), s.columnGroups.least)
		}
		added := s.newLabel("added")
		if s.oneLoop() {
			s.addCentred(sum, factors, added)
			s.addRows(sum, factors)
		} else {
			s.addAll(sum, factors, added)
		}
		s.c.Label(added)
		s.jumpIfFused(sum, summed)
	})
	s.grouped, s.fused = false, false
}

// jumpIfFused jumps if fused steps took all rows, where there are any, and else ends the results: of scales that are normal
// numbers all terms are, or 0, and where one is infinite, or the steps made it so, so is the sum, or a NaN.
func (s *rowSum) jumpIfFused(sum value, summed string) {
	if !s.fused {
		s.c.JMP(operand.LabelRef(summed))
		return
	}
	finite, least := s.vector(), s.constant(uint32(powerOfTwo(roundings[s.terms].least)-1))
	s.emit(s.bits("VPXOR"), finite, finite, finite)
	for _, r := range sum {
		s.emit("VFMADD231PS", s.constant(uint32(0)), r, finite)
	}
	if s.isa.masks {
		taken := s.c.K()
		s.emit("VPCMPGTD", least, s.columnGroups.least, taken)
		s.emit("VCMPPS", ordered, finite, finite, taken, taken)
		s.c.KORTESTW(taken, taken)
		s.c.JCS(operand.LabelRef(summed))
	} else {
		bits := s.c.GP32()
		s.emit("VPCMPGTD", least, s.columnGroups.least, s.columnGroups.least)
		s.emit("VCMPPS", ordered, finite, finite, finite)
		s.emit("VANDPS", s.columnGroups.least, finite, finite)
		s.emit("VMOVMSKPS", finite, bits)
		branch(s.c.CMPL, bits, operand.U32(1<<s.lanes-1), s.c.JEQ, summed)
	}
	s.c.JMP(operand.LabelRef(s.tooMany))
}

// groupParameters loads those of a vector's columns, in a row whose scales lie so many bytes after the first.
func (s *rowSum) groupParameters(row reg.Register, v int, scale, zero reg.VecVirtual) {
	at, chosen := s.c.GP64(), memory{s.columnGroups.chosen.Offset(v * s.isa.bytes)}
	s.c.MOVQ(s.columnGroups.before.Offset(v*8), at)
	s.c.ADDQ(row, at)
	parameters := memory{operand.Mem{Base: s.scales, Index: at, Scale: 1}}
	s.emit("VBROADCASTF128", parameters, scale)
	s.emit("VPERMILPS", chosen, scale, scale)
	if s.fused {
		s.emit("VPMINSD", scale, s.columnGroups.least, s.columnGroups.least)
	}
	if !s.centred {
		s.c.ADDQ(s.param("zero"), at)
		s.emit("VBROADCASTF128", parameters, zero)
		s.emit("VPERMILPS", chosen, zero, zero)
		s.floatZeros(zero)
	}
}

// setNumbers sets those of a tile's columns, whose groups are listed, and which parameters are loaded.
func (s *rowSum) setNumbers(of reg.GPVirtual) {
	c, place := s.c, func(v int) operand.Mem {
		return s.shiftedPlace(operand.Mem{Base: of, Disp: v * s.lanes * 4}, v, 4).Mem
	}
	before, count, first := c.GP64(), c.GP64(), s.vector()
	c.MOVL(place(0), before.As32())
	s.emit("VPBROADCASTD", memory{place(0)}, first)
	for v, numbers := range s.columnGroups.numbers[:s.group] {
		s.emit("VMOVDQU32", memory{place(v)}, numbers)
		s.emit("VPSUBD", first, numbers, numbers)
	}
	c.MOVL(place(s.group-1).Offset(4*(s.lanes-1)), count.As32())
	c.SUBQ(before, count)
	bits := c.GP64()
	c.MOVQ(operand.I32(-2), bits)
	c.SHLXQ(count, bits, bits)
	c.NOTQ(bits)
	c.KMOVW(bits.As32(), s.columnGroups.loaded)
	c.SHLQ(operand.Imm(2), before)
	c.MOVQ(before, s.columnGroups.before)
}

// permutedGroups emits the addition of rows in groups with masks.
func (s *rowSum) permutedGroups(loops func(begin func(at, row reg.GPVirtual), take func(v int, from memory)),
	begin func(at, row reg.GPVirtual), add func(term any, v int)) {
	scales, zeros := s.vector(), s.vector()
	take := s.loadCodes
	if s.packed() {
		values := s.codeNumbers()
		take = func(from memory) reg.VecVirtual { return s.permuted(values, from) }
	}
	load := func(name string, row operand.Mem, to reg.VecVirtual) {
		at := s.parameter(name, row)
		s.c.ADDQ(s.columnGroups.before, at.Base)
		s.emit("VMOVUPS_Z", memory{at}, s.columnGroups.loaded, to)
	}
	loops(func(at, row reg.GPVirtual) {
		begin(at, row)
		load("scale", operand.Mem{Base: at}, scales)
		if s.fused {
			s.emit("VPMINSD", scales, s.columnGroups.least, s.columnGroups.loaded, s.columnGroups.least)
		}
		if !s.centred {
			load("zero", operand.Mem{Base: at}, zeros)
			s.floatZeros(zeros)
		}
	}, func(v int, from memory) {
		scale, zero, numbers := s.vector(), s.vector(), s.columnGroups.numbers[v]
		codes := take(from)
		s.emit("VPERMPS", scales, numbers, scale)
		if !s.centred {
			s.emit("VPERMPS", zeros, numbers, zero)
		}
		add(s.termOf(codes, scale, zero), v)
	})
}
