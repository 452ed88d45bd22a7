package main

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// How the sums of embedding.go are stored.

// finish stores sums: as they are (wide), or divided, added to what is there
// and rounded.
func (s *rowSum) finish(sum value) {
	stored, narrow := s.newLabel("stored"), s.newLabel("narrow")
	s.c.TESTQ(operand.U32(sumWide), s.param("mode"))
	s.c.JEQ(operand.LabelRef(narrow))
	for v, r := range sum {
		to := memory{operand.Mem{Base: s.to, Disp: v * s.isa.bytes}}
		if s.tail != nil {
			s.compute.masked(s.kernel, []reg.Register{r}, to)
		} else {
			s.emit(s.ps("VMOVU"), r, to)
		}
	}
	s.c.JMP(operand.LabelRef(stored))
	s.c.Label(narrow)
	place := func(v int) memory { return memory{operand.Mem{Base: s.to, Disp: v * s.lanes * s.out.size}} }
	s.when(sumDivide, func() { s.divide(sum) })
	s.when(sumAccumulate, func() {
		for v, r := range sum {
			s.emit(s.ps("VADD"), r, s.out.load(s.kernel, place(v)), r)
		}
	})
	// Two at a time: rounding takes registers.
	whole := s.group
	s.group = min(2, whole)
	for v := 0; v < whole; v += s.group {
		s.storePair(sum[v:v+s.group], place(v))
	}
	s.group = whole
	s.c.Label(stored)
}

// divide divides sums by the number of rows, if there are any.
func (s *rowSum) divide(sum value) {
	c, count, x, divisor, none := s.c, s.c.GP64(), s.c.XMM(), s.vector(), s.newLabel("empty")
	c.MOVQ(s.end, count)
	c.SUBQ(s.begin, count)
	c.JEQ(operand.LabelRef(none))
	c.SHRQ(operand.Imm(3), count)
	s.emit(s.bits("VPXOR"), x, x, x)
	if s.double() {
		c.VCVTSI2SDQ(count, x, x)
	} else {
		c.VCVTSI2SSQ(count, x, x)
	}
	s.emit(s.broadcast(), x, divisor)
	for _, r := range sum {
		s.emit(s.ps("VDIV"), divisor, r, r)
	}
	c.Label(none)
}

// storePair rounds one or two vectors to the storage type and stores them.
func (s *rowSum) storePair(v value, to memory) {
	packed := s.out.pack(s.kernel, v)
	if s.tail != nil {
		s.out.masked(s.kernel, packed, to)
		return
	}
	s.storeEither(packed, to, func(around string) {
		s.c.TESTQ(operand.U32(sumStream), s.param("mode"))
		s.c.JNE(operand.LabelRef(around))
	})
}
