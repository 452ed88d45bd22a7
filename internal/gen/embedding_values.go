package main

import (
	"fmt"
	"math"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Codes of four bits: a row has 16 values, which are computed once and looked up. With masks they are a vector, which one
// instruction permutes; without, those of terms that are rounded to bf16 are looked up byte by byte.

// permutedRows emits the addition of rows whose values are a vector.
func (s *rowSum) permutedRows(loops func(begin func(at, row reg.GPVirtual), take func(v int, from memory)),
	begin func(at, row reg.GPVirtual), add func(term any, v int), scale, zero reg.VecVirtual) {
	numbers, values := s.codeNumbers(), s.vector()
	loops(func(at, row reg.GPVirtual) {
		begin(at, row)
		s.parameters(operand.Mem{Base: at}, scale, zero)
		s.emit("VMOVAPS", numbers, values)
		if rounded := s.termOf(values, scale, zero); rounded != values {
			s.emit("VMOVAPS", rounded, values)
		}
	}, func(v int, from memory) {
		add(s.permuted(values, from), v)
	})
}

// codeNumbers returns the numbers that codes stand for.
func (s *rowSum) codeNumbers() reg.VecVirtual {
	numbers := s.vector()
	s.emit("VMOVDQU32", s.laneNumbers(), numbers)
	if s.codes == s4 {
		s.emit("VPSLLD", 28, numbers, numbers)
		s.emit("VPSRAD", 28, numbers, numbers)
	}
	s.emit("VCVTDQ2PS", numbers, numbers)
	return numbers
}

// permuted loads the values of a vector of codes: each byte twice, the second time with the upper half in the place of the
// lower one.
func (s *rowSum) permuted(values reg.VecVirtual, from memory) reg.VecVirtual {
	codes, upper := s.loadCodes(from), s.vector()
	s.emit("VPSLLQ", 28, codes, upper)
	s.emit("VPORD", upper, codes, codes)
	s.emit("VPERMPS", values, codes, codes)
	return codes
}

// hasValues reports whether the terms of a tile are looked up. Fewer columns, and terms of f16, whose words take more to become
// an f32, are computed as fast.
func (s *rowSum) hasValues() bool {
	return s.packed() && s.terms == bf16 && !s.isa.masks && s.group == 8
}

// rowValues are a row's, each twice: their lower and their upper bytes.
type rowValues struct{ low, high reg.VecVirtual }

// setValues sets those of a row.
func (s *rowSum) setValues(row rowValues, scale, zero reg.VecVirtual) {
	values := make(value, 2)
	for i := range values {
		codes := s.vector()
		s.emit("VMOVUPS", s.codeValues(i), codes)
		values[i] = s.termOf(codes, scale, zero)
	}
	words := values[0]
	s.emit("VPSRLD", 16, words, words)
	s.emit("VPBLENDW", 0xAA, values[1], words, words)
	s.emit("VPSHUFB", s.table("evenoddbytes", operand.U64(0x0e0c0a0806040200), operand.U64(0x0f0d0b0907050301)), words, words)
	s.emit("VPERMQ", 0x88, words, row.low)
	s.emit("VPERMQ", 0xDD, words, row.high)
}

// codeValues are the numbers that even (0) or odd (1) halves of bytes stand for.
func (s *rowSum) codeValues(odd int) memory {
	var numbers []operand.Constant
	for i := range s.lanes {
		n := 2*i + odd
		if s.codes == s4 && n >= 8 {
			n -= 16
		}
		numbers = append(numbers, operand.U32(math.Float32bits(float32(n))))
	}
	return s.table(fmt.Sprint("values", s.codes.name, odd), numbers...)
}

// lookUp returns the terms of four vectors of a row. Two times eight bytes are 32 columns: the lower and the upper halves of
// one eight, then of the other. The bytes of their values are put together to words, and pairs of words taken apart, so that
// the first vector has columns 0, 4, 8, 12 of each sixteen, the next 1, 5, ..., the next 2, 6, ...
func (s *rowSum) lookUp(row rowValues, first, second memory) value {
	codes, other, words := s.vector(), s.vector(), s.vector()
	s.emit("VPBROADCASTQ", first, codes)
	s.emit("VPBROADCASTQ", second, other)
	s.emit("VPBLENDD", 0xF0, other, codes, codes)
	s.emit("VPSRLVQ", s.table("upperhalves", operand.U64(0), operand.U64(4)), codes, codes)
	s.emit("VPAND", s.constant(uint32(0x0f0f0f0f)), codes, codes)
	s.emit("VPSHUFB", codes, row.low, other)
	s.emit("VPSHUFB", codes, row.high, codes)
	s.emit("VPUNPCKLBW", codes, other, words)
	s.emit("VPUNPCKHBW", codes, other, codes)
	even, odd := s.vector(), other
	s.emit("VPSLLD", 16, words, even)
	s.emit("VPSLLD", 16, codes, odd)
	s.emit("VPAND", s.constant(upperHalf), words, words)
	s.emit("VPAND", s.constant(upperHalf), codes, codes)
	return value{even, odd, words, codes}
}

// inColumnOrder puts sums of what was looked up in the order of columns.
func (s *rowSum) inColumnOrder(sum value) {
	pair := func(size string, a, b reg.VecVirtual) (low, high reg.VecVirtual) {
		low, high = s.vector(), s.vector()
		s.emit("VUNPCKL"+size, b, a, low)
		s.emit("VUNPCKH"+size, b, a, high)
		return low, high
	}
	for v := 0; v < len(sum); v += 4 {
		a, b := pair("PS", sum[v], sum[v+1])
		c, d := pair("PS", sum[v+2], sum[v+3])
		for i, from := range [][2]reg.VecVirtual{{a, c}, {b, d}} {
			first, second := pair("PD", from[0], from[1])
			s.emit("VPERM2F128", 0x20, second, first, sum[v+i])
			s.emit("VPERM2F128", 0x31, second, first, sum[v+i+2])
		}
	}
}
