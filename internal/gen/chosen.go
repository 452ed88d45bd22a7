package main

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// chosenFunction emits the gradient of bags' largest elements: a rowSum that
// adds a term where the row's rank in its bag is the one that was chosen.
// Elsewhere it adds nothing, where the definition's order of sums has a 0.
func (s *rowSum) chosenFunction() {
	c, name := s.c, "sumChosen"+s.isa.name+s.out.name
	beginFunction(c, name, "func(rows *byte, stride int, start *int64, results int, positions *int64, known int, "+
		"sources *int64, ranks *uint32, ranksApart int, to *byte, apart int, columns int, mode int) int",
		name+" is "+"sumRows"+s.isa.name+s.out.name+", but adds of a row only elements whose rank is the number in sources that belongs to the row.",
		"Ranks of rows lie ranksApart bytes apart.")
	s.tile, s.advance = s.chosenTile, s.advanceSum
	s.positions = s.param("positions")
	s.lists()
	s.sourcesBeside()
	groups := vectorsTo(8)
	if !s.isa.masks {
		groups = append(pairsTo(8), 1)
	}
	s.results(groups, s.notTooMany)
}

// chosenTile emits the sum of a group of vectors.
func (s *rowSum) chosenTile() {
	c, sum, empty := s.c, s.clearedSums(), s.newLabel("empty")
	branch(c.CMPQ, s.begin, s.end, c.JGE, empty)
	ranks, rank, wanted, moved := c.GP64(), c.GP64(), s.rankVector(), c.GP64()
	c.MOVQ(s.shifted.moved, moved)
	c.MOVQ(s.param("columns"), ranks)
	c.SUBQ(s.shifted.left, ranks)
	c.SHLQ(operand.Imm(2), ranks)
	c.ADDQ(s.param("ranks"), ranks)
	s.eachRow(func(at, _ reg.GPVirtual) {
		c.MOVQ(operand.Mem{Base: at}, rank)
		c.IMULQ(s.param("ranksApart"), rank)
		c.ADDQ(ranks, rank)
		s.emit("VPBROADCASTD", memory{operand.Mem{Base: s.sources, Index: at, Scale: 1}}, wanted)
	}, func(v int, from memory) {
		at := memory{operand.Mem{Base: rank, Disp: 4 * v * s.lanes}}
		if v >= s.fixed() {
			at.Index, at.Scale = moved, 4
		}
		s.addWhere(wanted, at, s.out.load(s.kernel, from), sum[v])
	})
	s.finish(sum, empty)
}

// rankVector returns a register of a rank for each lane.
func (s *rowSum) rankVector() reg.VecVirtual {
	if s.double() {
		return s.half()
	}
	return s.vector()
}

// addWhere adds terms whose ranks are the wanted ones.
func (s *rowSum) addWhere(wanted reg.VecVirtual, ranks memory, term, sum reg.VecVirtual) {
	if s.isa.masks {
		equal := s.c.K()
		if s.tail != nil {
			s.emit("VPCMPEQD", ranks, wanted, s.tail, equal)
		} else {
			s.emit("VPCMPEQD", ranks, wanted, equal)
		}
		s.emit(s.ps("VADD"), term, sum, equal, sum)
		return
	}
	equal := s.rankVector()
	s.emit("VPCMPEQD", ranks, wanted, equal)
	if s.double() {
		wide := s.vector()
		s.emit("VPMOVSXDQ", equal, wide)
		equal = wide
	}
	s.emit(s.ps("VAND"), term, equal, equal)
	s.emit(s.ps("VADD"), equal, sum, sum)
}
