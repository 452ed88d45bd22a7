package main

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Rows of codes in short groups, without masks: of the parameters of a row, one after the other, each vector loads the
// four from a group on, of which each column takes its own.

// columnGroups has, of each vector of a tile, which of four parameters its columns take, then how many bytes lie before these.
type columnGroups struct{ chosen, before operand.Mem }

// allocGroups makes room for the vectors of a tile, of which there are most at the most.
func (s *rowSum) allocGroups(most int) {
	s.columnGroups.chosen = s.c.AllocLocal(most * (s.isa.bytes + 8))
	s.columnGroups.before = s.columnGroups.chosen.Offset(most * s.isa.bytes)
}

// setGroups sets them for a tile.
func (s *rowSum) setGroups() {
	c, of, first, before := s.c, s.c.GP64(), s.vector(), s.c.GP64()
	c.MOVQ(s.param("groups"), of)
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

// groupedRows emits the addition of rows in groups, which less than a vector has none of.
func (s *rowSum) groupedRows(sum value, summed string) {
	if s.shifted.few == nil {
		s.grouped = true
		s.addAll(sum, s.out, summed)
		s.grouped = false
	}
	s.c.JMP(operand.LabelRef(summed))
}

// groupParameters loads those of a vector's columns, in a row whose scales lie so many bytes after the first.
func (s *rowSum) groupParameters(row reg.Register, v int, scale, zero reg.VecVirtual) {
	at, chosen := s.c.GP64(), memory{s.columnGroups.chosen.Offset(v * s.isa.bytes)}
	s.c.MOVQ(s.columnGroups.before.Offset(v*8), at)
	s.c.ADDQ(row, at)
	parameters := memory{operand.Mem{Base: s.scales, Index: at, Scale: 1}}
	s.emit("VBROADCASTF128", parameters, scale)
	s.emit("VPERMILPS", chosen, scale, scale)
	if !s.centred {
		s.c.ADDQ(s.param("zero"), at)
		s.emit("VBROADCASTF128", parameters, zero)
		s.emit("VPERMILPS", chosen, zero, zero)
		s.emit("VCVTDQ2PS", zero, zero)
	}
}
