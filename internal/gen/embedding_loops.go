package main

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// The loops over rows of embedding.go.

// sumTile emits the sum of a group of vectors, without factors or with them.
func (s *rowSum) sumTile() {
	c, sum := s.c, s.clearedSums()
	s.split = s.upper != nil && s.group%2 == 0 && s.tail == nil && !s.shifted.within
	summed, empty := s.newLabel("summed"), s.newLabel("empty")
	branch(c.CMPQ, s.begin, s.end, c.JGE, empty)
	if s.codes != nil {
		s.roundedRows(sum, summed)
	}
	s.addAll(sum, s.out, summed)
	c.Label(summed)
	s.finish(sum, empty)
	s.split = false
}

// addAll emits the addition of rows times factors of a type, after which it jumps, or as they are, if there are none.
func (s *rowSum) addAll(sum value, factors *storage, summed string) {
	c, none := s.c, s.newLabel("none")
	branch(c.CMPQ, s.param("factors"), operand.U32(0), c.JEQ, none)
	if s.out != s.compute {
		wide := s.newLabel("wide")
		branch(c.TESTQ, operand.U32(sumWideFactors), s.param("mode"), c.JNE, wide)
		s.rarely(func() {
			c.Label(wide)
			s.addRows(sum, s.compute)
			c.JMP(operand.LabelRef(summed))
		})
	}
	if !s.isa.masks || s.grouped { // there are as many numbers of groups as are loaded
		s.addCentred(sum, factors, summed)
	}
	s.addRows(sum, factors)
	c.JMP(operand.LabelRef(summed))
	c.Label(none)
	s.addCentred(sum, nil, summed)
	s.addRows(sum, nil)
}

// addCentred emits the addition of rows of codes without zero points, as many are.
func (s *rowSum) addCentred(sum value, factors *storage, summed string) {
	if s.codes == nil {
		return
	}
	zeros := s.newLabel("zeros")
	branch(s.c.TESTQ, operand.U32(sumCentred), s.param("mode"), s.c.JEQ, zeros)
	s.centred = true
	s.addRows(sum, factors)
	s.centred = false
	s.c.JMP(operand.LabelRef(summed))
	s.c.Label(zeros)
}

// clearedSums returns the sums of a tile at their beginning.
func (s *rowSum) clearedSums() value {
	sum := s.sums[:s.group]
	for _, r := range sum {
		s.emit(s.bits("VPXOR"), r, r, r)
	}
	return sum
}

// addRows emits the addition of the rows, one at least, times factors of a type, if there are any.
func (s *rowSum) addRows(sum value, factors *storage) {
	at, factor := s.c.GP64(), s.vector()
	begin := func(_, _ reg.GPVirtual) {}
	if factors != nil {
		shift := map[int]uint64{8: 0, 4: 1, 2: 2}[factors.size]
		s.c.MOVQ(s.begin, at)
		s.c.SUBQ(s.positions, at)
		s.c.SHRQ(operand.Imm(shift), at)
		s.c.ADDQ(s.param("factors"), at)
		begin = func(_, _ reg.GPVirtual) {
			s.loadFactor(factors, operand.Mem{Base: at}, factor)
			s.c.ADDQ(operand.U32(factors.size), at)
		}
		if s.oneLoop() { // perhaps there are none
			s.emit(s.ps("VMOVU"), s.one(), factor)
			load := begin
			begin = func(at, row reg.GPVirtual) {
				none := s.newLabel("none")
				branch(s.c.CMPQ, s.param("factors"), operand.U32(0), s.c.JEQ, none)
				load(at, row)
				s.c.Label(none)
			}
		}
	}
	fused := s.addsFused(factors)
	if fused && factors == nil {
		s.emit("VMOVUPS", s.one(), factor)
	}
	add := func(term any, v int) {
		if fused {
			s.emit("VFMADD231PS", term, factor, sum[v])
			return
		}
		if factors != nil {
			product := s.vector()
			s.emit(s.ps("VMUL"), term, factor, product)
			term = product
		}
		s.emit(s.ps("VADD"), term, sum[v], sum[v])
	}
	if s.codes != nil {
		s.addCodes(sum, begin, add, factors != nil)
		return
	}
	s.eachRow(begin, func(v int, from memory) {
		switch {
		case !s.split:
			add(s.term(from), v)
		case v%2 == 0:
			even, odd := s.loadPair(from, s.upper)
			add(even, v)
			add(odd, v+1)
		}
	})
}

// addsFused reports whether terms of f16 are added by fused steps, times factors of this type or, where conversions take what
// adds, times 1: products of two such numbers are exact. Of few columns a sum waits for each step, and these take longer.
func (s *rowSum) addsFused(factors *storage) bool {
	switch {
	case s.out != f16:
		return s.terms == f16 && factors == f16
	case factors == nil:
		return s.group > 3
	}
	return factors == f16 && s.group > 2
}

// term returns a vector of a row as an operand.
func (s *rowSum) term(from memory) any {
	if s.out == s.compute && s.tail == nil && s.shifted.few == nil {
		return from
	}
	return s.load(from)
}

// eachRow emits the loops over the rows of a result, one at least: begin what
// comes first for each, and take what is done with each vector.
func (s *rowSum) eachRow(begin func(at, row reg.GPVirtual), take func(v int, from memory)) {
	s.rowLoops()(begin, take)
}

// rowLoops goes to the first row of a result, and returns what emits the loops over
// the rows from one on. The first loop asks for the lines of a later row; where no
// later one is known, the second goes on without.
func (s *rowSum) rowLoops() func(begin func(at, row reg.GPVirtual), take func(v int, from memory)) {
	c, bytes := s.c, s.rowBytes(s.lanes) // of a vector
	at, row, later, stop := c.GP64(), c.GP64(), c.GP64(), c.GP64()
	early := 8 * s.rowsEarly(s.group*bytes/64)
	c.MOVQ(s.begin, at)
	c.MOVQ(s.param("known"), stop)
	c.SUBQ(operand.U32(early), stop)
	c.CMPQ(stop, s.end)
	c.CMOVQGT(s.end, stop)
	return func(begin func(at, row reg.GPVirtual), take func(v int, from memory)) {
		for _, asks := range []bool{true, false} {
			loop, done, until, times := s.newLabel("row"), s.newLabel("rows"), s.end, s.exits()
			if asks {
				until, times = stop, 1
			}
			branch(c.CMPQ, at, until, c.JGE, done)
			c.Label(loop)
			for i := range times {
				if i > 0 {
					branch(c.CMPQ, at, until, c.JGE, done)
				}
				if asks {
					c.MOVQ(operand.Mem{Base: at, Disp: early}, later)
					if s.codes != nil {
						s.askParameters(later)
					}
					c.IMULQ(s.stride, later)
				}
				c.MOVQ(operand.Mem{Base: at}, row)
				c.IMULQ(s.stride, row)
				begin(at, row)
				for v := range s.group {
					take(v, s.vectorOf(row, v))
					if ask := s.vectorOf(later, v); asks && (v*bytes%64 == 0 || v == s.group-1 && s.fixed()*bytes%64 != 0) {
						if v >= s.fixed() { // the line that a row ends in
							ask.Disp = s.group*bytes - 1
						}
						c.PREFETCHT0(ask.Mem)
					}
				}
				c.ADDQ(operand.Imm(8), at)
			}
			branch(c.CMPQ, at, until, c.JLT, loop)
			c.Label(done)
		}
	}
}

// vectorOf is where a vector of a row lies.
func (s *rowSum) vectorOf(row reg.GPVirtual, v int) memory {
	first := s.rows
	if v >= s.fixed() {
		first = s.shifted.lastRows
	}
	return memory{operand.Mem{Base: first, Index: row, Scale: 1, Disp: v * s.rowBytes(s.lanes)}}
}

// exits is how many jumps a loop over rows ends by. A processor may fail to predict one that is
// taken every fifth time, by where the linker put it; of five jumps each is always taken, or never.
// Where terms are rounded, one jump costs little beside.
func (s *rowSum) exits() int {
	if s.group > 2 || s.terms != nil {
		return 1
	}
	return 8 / s.group
}

// rowsEarly is how many rows ahead memory is asked for where a tile takes some
// lines of each.
func (s *rowSum) rowsEarly(lines int) int {
	switch {
	case lines > 8 && !s.isa.masks:
		return 4
	case s.codes != nil && s.isa.masks: // which are fewer lines, sooner added
		return 48
	}
	return 16
}

// loadFactor repeats a number of a type in the compute type.
func (s *rowSum) loadFactor(t *storage, from operand.Mem, to reg.VecVirtual) {
	switch {
	case t == bf16 && s.oddWords != nil:
		s.emit("VPBROADCASTW_Z", memory{from}, s.oddWords, to)
	case t == bf16:
		s.emit("VPBROADCASTW", memory{from}, to)
		s.emit("VPSLLD", 16, to, to)
	case t == f16:
		narrow := s.half()
		s.emit("VPBROADCASTW", memory{from}, narrow)
		s.emit("VCVTPH2PS", narrow, to)
	default:
		s.emit(s.broadcast(), memory{from}, to)
	}
}
