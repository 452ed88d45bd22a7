package main

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Columns that are less than a vector where there are no masks for all types: moves under masks take elements
// of 32 and 64 bits, and of 16 bits pairs of them, to which the last column is added by itself.

// fewColumns says which elements are columns.
type fewColumns struct {
	lanes       reg.VecVirtual // of a vector
	pairs, last reg.VecVirtual // of 16 bits: whole pairs of columns, and the last column
	turn        reg.VecVirtual // there, too: puts the last column first
	before      operand.Mem    // bytes before the last column
}

// beginFew sets them for the columns that are left.
func (s *rowSum) beginFew() {
	c, few := s.c, &fewColumns{lanes: s.lanesBelow(s.shifted.left, s.vector())}
	s.shifted.few = few
	if s.out.size > f16.size && !s.narrows() {
		return
	}
	columns, number := c.GP64(), c.XMM()
	c.MOVQ(s.shifted.left, columns)
	c.SHRQ(operand.Imm(1), columns)
	few.pairs = s.lanesBelow(columns, s.vector())
	few.before = c.AllocLocal(8)
	c.MOVQ(s.shifted.left, columns)
	c.DECQ(columns)
	few.last, few.turn = c.XMM(), c.XMM()
	c.VMOVQ(columns, number)
	s.emit("VPBROADCASTW", number, few.last)
	var numbers []operand.Constant
	for i := range s.lanes {
		numbers = append(numbers, operand.U16(i))
	}
	s.emit("VPCMPEQW", s.table("numbers16", numbers...), few.last, few.last)
	c.ADDQ(columns, columns)
	c.MOVQ(columns, few.before)
	c.ADDQ(columns, s.rows)
	c.IMUL3Q(operand.U32(0x0101), columns, columns)
	c.ADDQ(operand.U32(0x0100), columns) // its second byte follows the first
	c.VMOVQ(columns, few.turn)
}

// lastOf is where the last column of 16 bits is: those of rows lie after s.rows.
func (s *rowSum) lastOf(columns memory) memory {
	if columns.Base == s.shifted.lastRows {
		columns.Base = s.rows
		return columns
	}
	at := s.c.GP64()
	s.c.LEAQ(columns.Mem, at)
	s.c.ADDQ(s.shifted.few.before, at)
	return memory{operand.Mem{Base: at}}
}

// loadFew loads columns of the results' type.
func (s *rowSum) loadFew(from memory) reg.VecVirtual {
	few := s.shifted.few
	if s.out.size > f16.size {
		v := s.vector()
		s.emit(s.ps("VMASKMOV"), from, few.lanes, v)
		return v
	}
	words, last := s.c.XMM(), s.c.XMM()
	s.emit("VMASKMOVPS", from, few.pairs.AsX(), words)
	s.emit("VPBROADCASTW", s.lastOf(from), last)
	s.emit("VPBLENDVB", few.last, last, words, words)
	return s.widened(s.out, words)[0]
}

// storeFew stores columns of the results' type.
func (s *rowSum) storeFew(packed reg.Register, to memory) {
	few := s.shifted.few
	if s.out.size > f16.size {
		s.emit(s.ps("VMASKMOV"), packed, few.lanes, to)
		return
	}
	last := s.c.XMM()
	s.emit("VPSHUFB", few.turn, packed, last)
	s.emit("VMASKMOVPS", packed, few.pairs.AsX(), to)
	s.emit("VPEXTRW", 0, last, s.lastOf(to))
}
