package main

import (
	"math"

	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Sums of rows of codes, each of which has a scale and a zero point.

// Codes of four bits: of no whole bytes each.
var (
	s4 = &storage{name: "S4", load: loadHalves(true)}
	u4 = &storage{name: "U4", load: loadHalves(false)}
)

// codeSums emits the sums of every type of codes, on every instruction set.
func codeSums(c *build.Context) {
	eachKernel(c, []*storage{f32}, func(k *kernel) {
		for _, codes := range []*storage{s8, u8, s4, u4} {
			(&rowSum{kernel: k, codes: codes}).codesFunction()
		}
	})
}

func (s *rowSum) codesFunction() {
	name := "sumCodes" + s.isa.name + s.codes.name
	beginFunction(s.c, name, "func(rows *byte, stride int, start *int64, results int, positions *int64, known int, "+
		"factors *byte, to *byte, apart int, columns int, mode int, scale *byte, scaleRow int, zero *byte, zeroRow int, groups *int32) int",
		name+" is sumRows"+s.isa.name+"F32 of rows of codes: (code - zero) * scale of the row, whose numbers, of f32 and f32 or i32,",
		"lie so many bytes apart. Where results have 16 bits, terms are rounded to their type, which factors have, too.",
		"groups may be, for each column, the number of its scale from scale on, of which a tile has 16 at most; then, with AVX2,",
		"for each that of the first of four numbers, which are the row's and among which are those of a vector that begins with it.")
	s.tile, s.advance, s.takesFew = s.sumTile, s.advanceSum, true
	groups := vectorsTo(8)
	if !s.isa.masks {
		groups = append(pairsTo(8), 1) // each row reads scales, of few a register has positions
		s.positions, s.scales = s.param("positions"), param(s.c, "scale")
		s.c.SUBQ(s.scales, s.param("zero"))
	}
	s.allocGroups(groups[0])
	s.lists()
	s.results(groups, s.notTooMany)
}

// rowBytes is how many bytes of a row so many columns take.
func (s *rowSum) rowBytes(columns int) int {
	switch {
	case s.codes == nil:
		return columns * s.out.size
	case s.codes.size == 0:
		return columns / 2
	}
	return columns * s.codes.size
}

// addCodes emits the addition of rows to sums: begin what comes first for each, and add what is done with each term, where it
// is weighted times a factor.
func (s *rowSum) addCodes(sum value, begin func(at, row reg.GPVirtual), add func(term any, v int), weighted bool) {
	scale, zero := s.vector(), s.vector()
	loops := s.rowLoops()
	addTerm := func(v int, from memory) { add(s.termOf(s.loadCodes(from), scale, zero), v) }
	switch {
	case s.grouped && s.isa.masks:
		s.permutedGroups(loops, begin, add)
		return
	case s.grouped:
		var row reg.Register
		loops(func(at, _ reg.GPVirtual) {
			begin(at, nil)
			row = s.parameter("scale", operand.Mem{Base: at}).Index
		}, func(v int, from memory) {
			s.groupParameters(row, v, scale, zero)
			addTerm(v, from)
		})
		return
	}
	rows := func() {
		loops(func(at, row reg.GPVirtual) {
			begin(at, row)
			s.parameters(operand.Mem{Base: at}, scale, zero)
		}, addTerm)
	}
	if s.packed() && s.isa.masks {
		s.permutedRows(loops, begin, add, scale, zero)
		return
	}
	// Of few columns it takes as long to ask whether fused steps take a row as these save.
	few := s.terms == f16 && (s.group == 1 || !s.isa.masks && (s.group == 2 || s.group == 4 && !weighted))
	if s.terms == nil || few {
		rows()
		return
	}
	other, done := s.newLabel("other"), s.newLabel("done")
	take, ready := addTerm, func() {}
	if s.hasValues() {
		values := rowValues{s.vector(), s.vector()}
		ready = func() { s.setValues(values, scale, zero) }
		take = func(v int, from memory) {
			if v%4 == 0 {
				row := from.Index.(reg.GPVirtual)
				for i, term := range s.lookUp(values, from, s.vectorOf(row, v+2)) {
					add(term, v+i)
				}
			}
		}
	}
	s.fused = true
	loops(func(at, row reg.GPVirtual) {
		s.parameters(operand.Mem{Base: at}, scale, zero)
		s.jumpUnlessFused(scale, zero, other)
		begin(at, row)
		ready()
	}, take)
	s.fused = false
	if s.hasValues() {
		s.inColumnOrder(sum)
	}
	s.c.Label(done)
	centred, terms := s.centred, s.terms
	s.rarely(func() { // the other rows, too: which of them fused steps take is hard to predict then
		s.centred, s.terms = centred, terms
		s.c.Label(other)
		if s.hasValues() {
			s.inColumnOrder(sum)
		}
		rows()
		s.c.JMP(operand.LabelRef(done))
		s.centred, s.terms = false, nil
	})
}

// termOf returns what codes stand for, which it overwrites.
func (s *rowSum) termOf(codes, scale, zero reg.VecVirtual) reg.VecVirtual {
	if !s.centred {
		s.emit("VSUBPS", zero, codes, codes)
	}
	s.emit("VMULPS", scale, codes, codes)
	if s.terms == nil {
		return codes
	}
	return s.roundTerm(codes)
}

// oneLoop reports whether a loop serves rows without factors, too, and, but in short groups, ones without zero points: where
// there are many of its kind, and fused steps multiply by 1 for nothing, or parameters take longer. Elsewhere loops of their
// own take 0.75 to 0.9 of the time.
func (s *rowSum) oneLoop() bool {
	switch {
	case s.terms == nil:
		return false
	case s.grouped:
		return s.terms == f16 || !s.isa.masks
	}
	return s.terms == f16 && s.isa.masks && s.group > 4
}

// roundedRows emits the addition of rows whose terms are of 16 bits, where the mode asks for results of these.
func (s *rowSum) roundedRows(sum value, summed string) {
	c, rounded, whole := s.c, s.newLabel("rounded"), s.newLabel("whole")
	branch(c.TESTQ, operand.U32(sumBF16|sumF16|sumGrouped|sumNegative), s.param("mode"), c.JNE, rounded)
	c.Label(whole)
	s.rarely(func() {
		c.Label(rounded)
		s.when(sumNegative, func() {
			for _, r := range sum {
				s.emit("VMOVUPS", s.signBit(), r)
			}
		})
		for _, n := range narrower {
			s.when(n.bit, func() {
				s.terms = n.to
				s.groupedRows(sum, n.to, summed)
				if s.group > 2 { // of less the question takes longer
					s.jumpIfSingle(whole)
				}
				if s.oneLoop() {
					s.addRows(sum, n.to)
				} else {
					s.addAll(sum, n.to, summed)
				}
				s.terms = nil
				c.JMP(operand.LabelRef(summed))
			})
		}
		s.groupedRows(sum, s.out, summed)
		c.JMP(operand.LabelRef(whole))
	})
}

// jumpIfSingle jumps where a result is rounded like its only term, unless that becomes -0, which no sum is.
func (s *rowSum) jumpIfSingle(whole string) {
	c, second, bits, more := s.c, s.c.GP64(), s.c.GP32(), s.newLabel("more")
	c.LEAQ(operand.Mem{Base: s.begin, Disp: 8}, second)
	branch(c.CMPQ, second, s.end, c.JNE, more)
	branch(c.CMPQ, s.param("factors"), operand.U32(0), c.JNE, more)
	branch(c.TESTQ, operand.U32(sumWide), s.param("mode"), c.JNE, more)
	c.MOVL(s.parameter("scale", operand.Mem{Base: s.begin}), bits)
	s.compare32(bits, powerOfTwo(roundings[s.terms].smallest), powerOfTwo(127))
	c.JCS(operand.LabelRef(whole))
	c.Label(more)
}

// roundTerm returns a vector rounded to the type of terms. Of bf16 NaNs stay, as parameters sees to. Of x less 2^16 x, or 2^13 x
// of f16, an f32 keeps what is a multiple of the last place that x has in this type, to nearest. 2^16 x is such a multiple,
// even where x lies between two of these. So the difference plus 2^16 x is x, rounded; where the difference is so small that
// it keeps one place more, x rounds to a power of two either way.
func (s *rowSum) roundTerm(x reg.VecVirtual) reg.VecVirtual {
	r := s.vector()
	switch {
	case s.fused:
		power := float32(int(1) << (24 - roundings[s.terms].significant))
		s.emit("VMULPS", s.constant(math.Float32bits(1-power)), x, r)
		s.emit("VFMADD231PS", s.constant(math.Float32bits(power)), x, r)
		return r
	case s.terms == f16:
		narrow := s.half()
		s.emit("VCVTPS2PH", nearestEven, x, narrow)
		s.emit("VCVTPH2PS", narrow, x)
	default:
		s.emit("VPSRLD", 16, x, r)
		s.emit(s.bits("VPAND"), s.constant(uint32(1)), r, r)
		s.emit("VPADDD", s.constant(halfLess), x, x)
		s.emit("VPADDD", r, x, x)
		s.emit(s.bits("VPAND"), s.constant(upperHalf), x, x)
	}
	return x
}

// roundings are types of terms: how many bits are significant, from which scale on no term but 0 becomes 0, and what fused
// steps take. Their scales are normal numbers of the type, so that terms are, or 0, and they and zero points are below powers
// of two, so that neither terms nor what is added to them become infinite.
var roundings = map[*storage]struct {
	significant, smallest int
	least, scale, zero    int // powers of two
}{
	bf16: {significant: 8, smallest: -126, least: -126, scale: 94, zero: 15},
	f16:  {significant: 11, smallest: -24, least: -14, scale: 6, zero: 9},
}

// jumpUnlessFused jumps where fused steps do not take a row, or its scale is negative.
func (s *rowSum) jumpUnlessFused(scale, zero reg.VecVirtual, other string) {
	c, bits, r := s.c, s.c.GP32(), roundings[s.terms]
	c.VMOVD(scale.AsX(), bits)
	s.compare32(bits, powerOfTwo(r.least), powerOfTwo(r.scale))
	c.JCC(operand.LabelRef(other))
	if !s.centred {
		c.VMOVD(zero.AsX(), bits)
		c.ADDL(bits, bits) // without the sign
		branch(c.CMPL, bits, operand.U32(2*powerOfTwo(r.zero)), c.JCC, other)
	}
}

// compare32 compares a number with others: it is below where it is between them.
func (s *rowSum) compare32(number reg.GPVirtual, least, end uint32) {
	s.c.SUBL(operand.U32(least), number)
	s.c.CMPL(number, operand.U32(end-least))
}

// powerOfTwo is one's f32.
func powerOfTwo(n int) uint32 { return uint32(n+127) << 23 }

// leastNaN makes scales that are NaNs those of the least payload, whose upper half rounding leaves a NaN. As unsigned integers
// negative NaNs are the largest numbers, as signed ones positive NaNs are.
func (s *rowSum) leastNaN(scale reg.VecVirtual) {
	s.emit("VPMINUD", s.constant(uint32(0xff800001)), scale, scale)
	s.emit("VPMINSD", s.constant(uint32(0x7f800001)), scale, scale)
}

// narrows reports whether results may be of 16 bits, beside rows that are not.
func (s *rowSum) narrows() bool { return s.out == f32 }

// packed reports whether rows are halves of bytes.
func (s *rowSum) packed() bool { return s.codes != nil && s.codes.size == 0 }

// loadHalves makes the load of halves of bytes, the lower ones first, where there are no masks: all of a vector are one word,
// which each lane moves up by as much as it takes, and down again.
func loadHalves(signed bool) func(k *kernel, from memory) reg.VecVirtual {
	return func(k *kernel, from memory) reg.VecVirtual {
		v := k.vector()
		var up []operand.Constant
		for i := range k.lanes {
			up = append(up, operand.U32(28-4*i))
		}
		k.emit("VPBROADCASTD", from, v)
		k.emit("VPSLLVD", k.table("halves", up...), v, v)
		k.emit(either(signed, "VPSRAD", "VPSRLD"), 28, v, v)
		k.emit("VCVTDQ2PS", v, v)
		return v
	}
}
