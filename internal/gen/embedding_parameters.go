package main

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// The scales and zero points that rows of codes have.

// parameter returns where a row has its own.
func (s *rowSum) parameter(name string, row operand.Op) operand.Mem {
	at := s.c.GP64()
	s.c.MOVQ(row, at)
	s.c.IMULQ(s.param(name+"Row"), at)
	if s.scales != nil {
		return operand.Mem{Base: s.scales, Index: at, Scale: 1}
	}
	s.c.ADDQ(s.param(name), at)
	return operand.Mem{Base: at}
}

// zeroOf returns where the zero point of a row is, whose scale is at a place: without masks as far from it as that of any row.
func (s *rowSum) zeroOf(scale operand.Mem, row operand.Op) operand.Mem {
	if s.scales == nil {
		return s.parameter("zero", row)
	}
	s.c.ADDQ(s.param("zero"), scale.Index)
	return scale
}

// parameters loads those of the row at a position.
func (s *rowSum) parameters(row operand.Mem, scale, zero reg.VecVirtual) {
	at := s.parameter("scale", row)
	s.emit(s.broadcast(), memory{at}, scale)
	if s.terms == bf16 && !s.fused {
		s.leastNaN(scale)
	}
	if !s.centred {
		s.emit("VPBROADCASTD", memory{s.zeroOf(at, row)}, zero)
		s.floatZeros(zero)
	}
}

// floatZeros makes zero points floats, unless they are.
func (s *rowSum) floatZeros(zero reg.VecVirtual) {
	s.when(sumWholeZeros, func() { s.emit("VCVTDQ2PS", zero, zero) })
}

// askParameters asks for the lines that have those of a row.
func (s *rowSum) askParameters(row reg.GPVirtual) {
	at := s.parameter("scale", row)
	if s.grouped && s.isa.masks {
		s.c.ADDQ(s.columnGroups.before, at.Base)
	}
	s.c.PREFETCHT0(at)
	if !s.centred {
		s.c.PREFETCHT0(s.zeroOf(at, row))
	}
}
