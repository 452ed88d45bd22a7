package main

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Columns that are less than a vector where there are no masks for all types: loads under masks take elements
// of 32 and 64 bits, and of 16 bits pairs of them, to which the last column is added by itself.

// fewColumns says which elements are columns.
type fewColumns struct {
	lanes       reg.VecVirtual // of a vector
	pairs, last reg.VecVirtual // of 16 bits: whole pairs of columns, and the last column
	before      operand.Mem    // bytes before the last column
	codes       fewCodes
}

// fewCodes is how less than a vector of codes is loaded: with what lies before them, into the upper lanes; of the first
// rows, before which less lies than that, byte after byte.
type fewCodes struct {
	before operand.Mem    // how many bytes before a row are loaded
	place  operand.Mem    // where bytes are put together
	down   reg.VecVirtual // moves the upper lanes down
}

// beginFew sets them for the columns that are left.
func (s *rowSum) beginFew() {
	c, few := s.c, &fewColumns{lanes: s.lanesBelow(s.shifted.left, s.vector())}
	s.shifted.few = few
	if s.codes != nil {
		few.codes = s.beginFewCodes()
	}
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
	few.last = c.XMM()
	c.VMOVQ(columns, number)
	s.emit("VPBROADCASTW", number, few.last)
	var numbers []operand.Constant
	for i := range s.lanes {
		numbers = append(numbers, operand.U16(i))
	}
	s.emit("VPCMPEQW", s.table("numbers16", numbers...), few.last, few.last)
	c.ADDQ(columns, columns)
	c.MOVQ(columns, few.before)
	if s.codes == nil { // whose last bytes are loaded with the others
		c.ADDQ(columns, s.rows)
	}
}

// beginFewCodes sets it, and lastRows to where loads begin.
func (s *rowSum) beginFewCodes() (few fewCodes) {
	c, before, lanes := s.c, s.c.GP64(), s.c.XMM()
	few.before = c.AllocLocal(16)
	few.place = few.before.Offset(8)
	c.MOVQ(operand.U32(s.lanes), before)
	c.SUBQ(s.shifted.left, before)
	if s.packed() {
		c.SHRQ(operand.Imm(1), before)
	}
	c.MOVQ(before, few.before)
	c.SUBQ(before, s.shifted.lastRows)
	if s.packed() {
		c.ADDQ(before, before)
	}
	c.VMOVQ(before, lanes)
	few.down = s.vector()
	s.emit("VPBROADCASTD", lanes, few.down)
	s.emit("VPADDD", s.laneNumbers(), few.down, few.down)
	return few
}

// loadCodes loads a vector of a row's codes: of halves of bytes, with masks, the bytes.
func (s *rowSum) loadCodes(from memory) reg.VecVirtual {
	if s.shifted.few == nil {
		if !s.packed() || !s.isa.masks {
			return s.codes.load(s.kernel, from)
		}
		columns, bytes := s.tail, s.vector()
		if columns != nil {
			s.tail = s.shifted.bytes
		}
		s.fetch("VPMOVZXBQ", from, bytes)
		s.tail = columns
		return bytes
	}
	c, few, row := s.c, s.shifted.few.codes, from.Index.(reg.GPVirtual)
	first, loaded := s.newLabel("first"), s.newLabel("loaded")
	branch(c.CMPQ, row, few.before, c.JLT, first)
	v := s.codes.load(s.kernel, from)
	c.Label(loaded)
	s.rarely(func() {
		c.Label(first)
		s.putTogether(row)
		s.emit("VMOVAPS", s.codes.load(s.kernel, memory{few.place}), v)
		c.JMP(operand.LabelRef(loaded))
	})
	return v
}

// putTogether puts a row's bytes where a vector is loaded from: one after the other becomes the last.
func (s *rowSum) putTogether(row reg.GPVirtual) {
	c, few, bytes, next := s.c, s.shifted.few.codes, s.c.XMM(), s.newLabel("byte")
	c.MOVQ(row, few.place)
	c.ADDQ(operand.Imm(uint64(s.rowBytes(s.lanes))), few.place) // where the row ends
	c.ADDQ(few.before, row)
	s.emit("VPXOR", bytes, bytes, bytes)
	c.Label(next)
	s.emit("VPSRLDQ", 1, bytes, bytes)
	s.emit("VPINSRB", 15, operand.Mem{Base: s.shifted.lastRows, Index: row, Scale: 1}, bytes, bytes)
	c.INCQ(row)
	branch(c.CMPQ, row, few.place, c.JLT, next)
	c.SUBQ(operand.Imm(uint64(s.rowBytes(s.lanes))), row)
	if s.packed() {
		s.emit("VPEXTRD", 3, bytes, few.place)
	} else {
		s.emit("VPEXTRQ", 1, bytes, few.place)
	}
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

// storeFew stores columns of a size in parts, each half as large as the one before: on Zen 3 a move to memory under a mask
// takes 12 cycles.
func (s *rowSum) storeFew(packed reg.Register, size int, to memory) {
	c, at, x := s.c, s.c.GP64(), packed.(reg.VecVirtual)
	c.LEAQ(to.Mem, at)
	for bytes := s.lanes * size / 2; bytes >= size; bytes /= 2 {
		less, place := s.newLabel("less"), memory{operand.Mem{Base: at}}
		branch(c.TESTQ, operand.U32(bytes/size), s.shifted.left, c.JEQ, less)
		switch bytes {
		case 16:
			s.emit("VMOVUPS", x.AsX(), place)
			s.emit("VEXTRACTF128", 1, x, x.AsX())
		case 8:
			s.emit("VMOVLPS", x.AsX(), place)
			s.emit("VPSRLDQ", 8, x.AsX(), x.AsX())
		case 4:
			s.emit("VMOVSS", x.AsX(), place)
			s.emit("VPSRLDQ", 4, x.AsX(), x.AsX())
		default:
			s.emit("VPEXTRW", 0, x.AsX(), place)
		}
		if bytes > size {
			c.ADDQ(operand.Imm(uint64(bytes)), at)
		}
		c.Label(less)
	}
}
