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
		"factors *byte, to *byte, apart int, columns int, mode int, scale *byte, scaleRow int, zero *byte, zeroRow int) int",
		name+" is sumRows"+s.isa.name+"F32 of rows of codes: (code - zero) * scale of the row, whose numbers, of f32 and i32,",
		"lie so many bytes apart. Where results have 16 bits, terms are rounded to their type, which factors have, too.")
	s.tile, s.advance, s.takesFew = s.sumTile, s.advanceSum, true
	s.lists()
	s.results([]int{8, 4, 2, 1}, []int{8, 6, 4, 2, 1}, s.notTooMany)
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

// addCodes emits the addition of rows: begin what comes first for each, and add what is done with each term, by a factor
// perhaps.
func (s *rowSum) addCodes(begin func(at, row reg.GPVirtual), add func(term any, v int), factor reg.VecVirtual) {
	scale, zero := s.vector(), s.vector()
	s.fused = s.terms == bf16 && !s.isa.masks
	defer func() { s.fused = false }()
	addTerm := func(v int, from memory) {
		term := s.loadCodes(from)
		if !s.centred {
			s.emit("VSUBPS", zero, term, term)
		}
		s.emit("VMULPS", scale, term, term)
		if s.terms != nil {
			s.roundTerm(term)
		}
		add(term, v)
	}
	s.eachRow(func(at, row reg.GPVirtual) {
		begin(at, row)
		s.parameters(at, scale, zero)
		if s.fused {
			s.setAside(scale, zero, func() {
				for v := range s.group {
					addTerm(v, s.vectorOf(row, v))
				}
				for _, r := range []reg.VecVirtual{scale, factor} {
					s.emit("VXORPS", r, r, r)
				}
			})
		}
	}, addTerm)
}

// roundedRows emits the addition of rows whose terms are of 16 bits, where the mode asks for results of these. With
// masks a loop serves rows without factors, and without zero points, too: rounding takes longer.
func (s *rowSum) roundedRows(sum value, summed string) {
	c, rounded := s.c, s.newLabel("rounded")
	branch(c.TESTQ, operand.U32(sumBF16|sumF16), s.param("mode"), c.JNE, rounded)
	s.rarely(func() {
		c.Label(rounded)
		for _, n := range narrower {
			s.when(n.bit, func() {
				s.terms = n.to
				if s.isa.masks {
					s.addRows(sum, n.to)
				} else {
					s.addAll(sum, n.to, summed)
				}
				s.terms = nil
				c.JMP(operand.LabelRef(summed))
			})
		}
		if !s.isa.masks { // so that what follows need not keep this code's registers
			c.JMP(operand.LabelRef(summed))
		}
	})
}

// roundTerm rounds a vector to the type of terms. Of bf16 NaNs stay, as parameters sees to; fused steps add 1.5*2^16 times
// the term's power of two, whose last place is that of a bf16, and subtract it.
func (s *rowSum) roundTerm(x reg.VecVirtual) {
	r := s.vector()
	switch {
	case s.terms == f16:
		narrow := s.half()
		s.emit("VCVTPS2PH", nearestEven, x, narrow)
		s.emit("VCVTPH2PS", narrow, x)
	case s.fused:
		s.emit("VANDPS", s.constant(exponent), x, r)
		s.emit("VFMADD231PS", s.constant(math.Float32bits(3<<15)), r, x)
		s.emit("VFNMADD231PS", s.constant(math.Float32bits(3<<15)), r, x)
	default:
		s.emit("VPSRLD", 16, x, r)
		s.emit(s.bits("VPAND"), s.constant(uint32(1)), r, r)
		s.emit("VPADDD", s.constant(halfLess), x, x)
		s.emit("VPADDD", r, x, x)
		s.emit(s.bits("VPAND"), s.constant(upperHalf), x, x)
	}
}

// What fused steps take: scales that are normal numbers, so that terms are normal or 0, and below 2^94, and zero points
// below 2^15, so that neither terms nor what is added to them become infinite.
const (
	exponent   = uint32(0x7f800000)
	fusedScale = 220 // powers of two from the least normal one on
	fusedZero  = 127 + 15
)

// setAside emits the addition of a row that fused steps do not take: what they add to it is 0.
func (s *rowSum) setAside(scale, zero reg.VecVirtual, addRow func()) {
	c, power, other, done := s.c, s.c.GP64(), s.newLabel("other"), s.newLabel("done")
	powerOf := func(x reg.VecVirtual) {
		c.VMOVD(x.AsX(), power.As32())
		c.ADDL(power.As32(), power.As32())
		c.SHRL(operand.Imm(24), power.As32())
	}
	powerOf(scale)
	c.DECL(power.As32())
	branch(c.CMPL, power.As32(), operand.U32(fusedScale), c.JCC, other)
	if !s.centred {
		powerOf(zero)
		branch(c.CMPL, power.As32(), operand.U32(fusedZero), c.JCC, other)
	}
	c.Label(done)
	centred, terms := s.centred, s.terms
	s.rarely(func() {
		s.centred, s.terms = centred, terms
		c.Label(other)
		s.quietScale(scale)
		addRow()
		c.JMP(operand.LabelRef(done))
		s.centred, s.terms = false, nil
	})
}

// quietScale makes a NaN the one whose upper half rounding leaves a NaN.
func (s *rowSum) quietScale(scale reg.VecVirtual) {
	group := s.group
	s.group = 1
	isNaN, quiet := s.compare(value{scale}, unordered, value{scale}), s.vector()
	s.emit(s.ps("VMOVU"), s.constant(quietNaN), quiet)
	s.emit(s.ps("VMOVA"), s.pick(isNaN, value{quiet}, value{scale})[0], scale)
	s.group = group
}

// narrows reports whether results may be of 16 bits, beside rows that are not.
func (s *rowSum) narrows() bool { return s.out == f32 }

// packed reports whether rows are halves of bytes, of which no mask takes less than a vector.
func (s *rowSum) packed() bool { return s.codes != nil && s.codes.size == 0 }

// parameter returns where a row has its own.
func (s *rowSum) parameter(name string, row operand.Op) operand.Mem {
	at := s.c.GP64()
	s.c.MOVQ(row, at)
	s.c.IMULQ(s.param(name+"Row"), at)
	s.c.ADDQ(s.param(name), at)
	return operand.Mem{Base: at}
}

// parameters loads those of a row.
func (s *rowSum) parameters(at reg.GPVirtual, scale, zero reg.VecVirtual) {
	row := operand.Mem{Base: at}
	s.emit(s.broadcast(), memory{s.parameter("scale", row)}, scale)
	if s.terms == bf16 && !s.fused {
		s.quietScale(scale)
	}
	if !s.centred {
		s.emit("VPBROADCASTD", memory{s.parameter("zero", row)}, zero)
		s.emit("VCVTDQ2PS", zero, zero)
	}
}

// askParameters asks for the lines that have those of a row.
func (s *rowSum) askParameters(row reg.GPVirtual) {
	s.c.PREFETCHT0(s.parameter("scale", row))
	if !s.centred {
		s.c.PREFETCHT0(s.parameter("zero", row))
	}
}

// loadHalves makes the load of halves of bytes, the lower ones first: they are moved to the upper end of their lanes, and
// down again. Without masks all of a vector are one word, which each lane moves by as much as it takes; with masks each byte
// is loaded twice, the second time with the upper half in the place of the lower one.
func loadHalves(signed bool) func(k *kernel, from memory) reg.VecVirtual {
	return func(k *kernel, from memory) reg.VecVirtual {
		v := k.vector()
		if k.isa.masks {
			upper := k.vector()
			k.emit("VPMOVZXBQ", from, v)
			k.emit("VPSLLQ", 28, v, upper)
			k.emit(k.bits("VPOR"), upper, v, v)
			k.emit("VPSLLD", 28, v, v)
		} else {
			var up []operand.Constant
			for i := range k.lanes {
				up = append(up, operand.U32(28-4*i))
			}
			k.emit("VPBROADCASTD", from, v)
			k.emit("VPSLLVD", k.table("halves", up...), v, v)
		}
		if signed {
			k.emit("VPSRAD", 28, v, v)
		} else {
			k.emit("VPSRLD", 28, v, v)
		}
		k.emit("VCVTDQ2PS", v, v)
		return v
	}
}
