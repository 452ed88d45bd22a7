package main

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// How the sums of embedding.go are stored.

// finish rounds sums and stores them, unless the mode asks for more. Results of
// no rows come by a label of their own.
func (s *rowSum) finish(sum value, empty string) {
	summed, final, stored, special := s.newLabel("summed"), s.newLabel("final"), s.newLabel("stored"), s.newLabel("special")
	s.c.Label(summed)
	if few := s.shifted.few; few != nil && s.codes != nil {
		s.emit("VPERMPS", sum[0], few.codes.down, sum[0])
	}
	if s.codes != nil { // whose modes say how they are read, too
		branch(s.c.TESTQ, operand.U32(sumFinish), s.param("mode"), s.c.JNE, special)
	} else {
		branch(s.c.CMPQ, s.param("mode"), operand.U32(0), s.c.JNE, special)
	}
	s.c.Label(final)
	s.round(sum)
	s.c.Label(stored)
	s.rarely(func() {
		s.c.Label(special)
		s.finishSpecial(sum, stored)
		s.c.JMP(operand.LabelRef(final))
		s.c.Label(empty)
		s.storeEmpty(sum[0], summed, stored)
	})
}

// storeEmpty stores zeros without rounding them, as the backward pass of a large
// weight does for most rows, unless they are not simply stored.
func (s *rowSum) storeEmpty(zero reg.VecVirtual, summed, stored string) {
	if s.tail != nil || s.shifted.few != nil || s.shifted.within {
		s.c.JMP(operand.LabelRef(summed))
		return
	}
	branch(s.c.TESTQ, operand.U32(sumAccumulate|sumWide), s.param("mode"), s.c.JNE, summed)
	if s.narrows() {
		narrow := s.newLabel("narrow")
		branch(s.c.TESTQ, operand.U32(sumBF16|sumF16), s.param("mode"), s.c.JNE, narrow)
		s.storeZeros(zero, s.out.size, stored)
		s.c.Label(narrow)
		s.storeZeros(zero, f16.size, stored)
		return
	}
	s.storeZeros(zero, s.out.size, stored)
}

// storeZeros stores zeros of a size, then goes on.
func (s *rowSum) storeZeros(zero reg.VecVirtual, size int, stored string) {
	var zeros []reg.Register
	for bytes := s.group * s.lanes * size; bytes > 0; bytes -= s.isa.bytes {
		if bytes >= s.isa.bytes {
			zeros = append(zeros, zero)
		} else {
			zeros = append(zeros, s.halfOf(zero))
		}
	}
	s.storeTile(zeros, 0, s.group, size, stored)
	s.c.JMP(operand.LabelRef(stored))
}

// finishSpecial stores sums as they are (wide), or divides them and adds what is
// there.
func (s *rowSum) finishSpecial(sum value, stored string) {
	narrow := s.newLabel("narrow")
	branch(s.c.TESTQ, operand.U32(sumWide), s.param("mode"), s.c.JEQ, narrow)
	for v := range sum {
		r := s.inOrder(sum, v)
		to := s.placeOf(v, s.compute.size)
		switch {
		case s.tail != nil:
			s.compute.masked(s.kernel, []reg.Register{r}, to)
		case s.shifted.few != nil:
			s.storeFew(r, s.compute.size, to)
		default:
			s.emit(s.ps("VMOVU"), r, to)
		}
	}
	s.c.JMP(operand.LabelRef(stored))
	s.c.Label(narrow)
	s.when(sumDivide, func() { s.divide(sum) })
	if s.narrows() {
		for _, n := range narrower {
			s.storeNarrow(sum, n.bit, n.to, stored)
		}
	}
	s.when(sumAccumulate, func() { s.addThere(sum) })
}

// narrower are the types that results may have beside rows of others, with the bits that ask for them.
var narrower = []struct {
	bit int
	to  *storage
}{{sumBF16, bf16}, {sumF16, f16}}

// storeNarrow stores sums in a type that is not the rows', where a bit of the mode asks for it.
func (s *rowSum) storeNarrow(sum value, bit int, t *storage, stored string) {
	s.when(bit, func() {
		s.out = t
		s.when(sumAccumulate, func() { s.addThere(sum) })
		s.round(sum)
		s.out = f32
		s.c.JMP(operand.LabelRef(stored))
	})
}

// place is where a vector of a tile is stored, rounded.
func (s *rowSum) place(v int) memory { return s.placeOf(v, s.out.size) }

// placeOf is that of elements of a size.
func (s *rowSum) placeOf(v, size int) memory {
	at := operand.Mem{Base: s.to, Disp: v * s.lanes * size}
	if s.movesResults() {
		return memory{at}
	}
	return s.shiftedPlace(at, v, size)
}

// addThere adds what is stored to sums.
func (s *rowSum) addThere(sum value) {
	s.forget(sum)
	for v := 0; v < len(sum); v++ {
		if !s.split {
			s.emit(s.ps("VADD"), sum[v], s.load(s.place(v)), sum[v])
			continue
		}
		even, odd := s.loadPair(s.place(v), s.upper)
		s.emit(s.ps("VADD"), sum[v], even, sum[v])
		v++
		s.emit(s.ps("VADD"), sum[v], odd, sum[v])
	}
}

// inOrder returns a vector of sums in the order of columns.
func (s *rowSum) inOrder(sum value, v int) reg.VecVirtual {
	if !s.split {
		return sum[v]
	}
	if !s.isa.masks {
		low, high := s.vector(), s.vector()
		s.emit("VUNPCKLPS", sum[v|1], sum[v&^1], low)
		s.emit("VUNPCKHPS", sum[v|1], sum[v&^1], high)
		s.emit("VPERM2F128", 0x20+v%2*0x11, high, low, low)
		return low
	}
	var numbers []operand.Constant
	for i := range 16 {
		numbers = append(numbers, operand.U32(v%2*8+i/2+i%2*16))
	}
	ordered := s.vector()
	s.emit("VMOVDQU32", s.table([]string{"lower32split", "upper32split"}[v%2], numbers...), ordered)
	s.emit("VPERMI2D", sum[v|1], sum[v&^1], ordered)
	return ordered
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

// round rounds sums to the storage type and stores them, vectors that are whole
// as store does: two at a time where rounding takes registers.
func (s *rowSum) round(sum value) {
	whole := s.group
	for v, step := 0, whole; v < whole; v += step {
		if s.out != s.compute {
			step = min(2, whole-v)
		}
		s.group = step
		packed := s.out.pack(s.kernel, sum[v:v+step])
		s.group = whole
		if !s.storePart(packed, v) {
			stored := s.newLabel("stored")
			s.storeTile(packed, v, v+step, s.out.size, stored)
			s.c.Label(stored)
		}
	}
}

// storePart stores vectors from one on of which only a part is columns, and reports whether they are such.
func (s *rowSum) storePart(packed []reg.Register, v int) bool {
	switch {
	case s.tail != nil:
		s.out.masked(s.kernel, packed, s.place(v))
	case s.shifted.few != nil:
		s.storeFew(packed[0], s.out.size, s.place(v))
	default:
		return false
	}
	return true
}

// pinRounding keeps in registers what bf16 is taken apart and rounded with.
func (s *rowSum) pinRounding() {
	s.split = true
	tables := []memory{s.wordNumbers(1)}
	s.split = false
	for _, word := range []uint32{upperHalf, lastKept, halfLess, half, quietNaN} {
		tables = append(tables, s.constant(word))
	}
	var names []string
	for _, m := range tables {
		names = append(names, m.Symbol.Name)
	}
	s.pin(names)
	bits := s.c.GP32()
	s.oddWords = s.c.K()
	s.c.MOVL(operand.U32(0xaaaaaaaa), bits)
	s.c.KMOVD(bits, s.oddWords)
}
