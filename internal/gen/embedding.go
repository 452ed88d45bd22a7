package main

import (
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// The sums of an embedding's backward pass: a destination's columns stay in
// registers while the rows that belong to it are added one after the other.

// The bits of a sum's mode, as cpu/embedding.go names them.
const (
	sumAccumulate = 1 << iota
	sumDivide
	sumStream
	sumWide
)

// longestSum is how many rows are summed here; what has more is summed in chunks.
const longestSum = 256

// embeddingSums emits the sums of every type, on every instruction set.
func embeddingSums(c *build.Context) {
	globals := newTables()
	for _, isa := range isas {
		for _, t := range []*storage{f32, f64, bf16, f16} {
			compute := f32
			if t == f64 {
				compute = f64
			}
			k := &kernel{c: c, globals: globals, isa: isa, compute: compute, out: t, lanes: isa.bytes / compute.size}
			(&rowSum{kernel: k, in: t}).function()
			if compute != t { // rows that were computed, such as quotients
				(&rowSum{kernel: k, in: compute}).function()
			}
			(&rowSum{kernel: k, in: t}).chosenFunction()
			(&bagMax{rowSum: &rowSum{kernel: k, in: t}}).function()
		}
	}
}

// rowSum is the kernel under construction. Places in the list of positions are
// addresses: of the result at hand from begin to end.
type rowSum struct {
	*kernel
	in                                                   *storage // type of the rows
	rows, stride, begin, end, last, factors, to, columns reg.GPVirtual
	sums                                                 value
	tile                                                 func()            // emits a group of vectors of a result
	advance                                              func(columns int) // moves what belongs to the result on
}

func (s *rowSum) function() {
	c, name := s.c, "sumRows"+s.isa.name+s.in.name
	if s.in != s.out {
		name += "To" + s.out.name
	}
	beginFunction(c, name, "func(rows *byte, stride int, start *int64, results int, positions *int64, known int, "+
		"factors *float64, to *byte, apart int, columns int, mode int) int",
		name+" sums columns of rows that lie stride bytes apart, times their factors if there are any:",
		"result r, of the rows whose numbers are positions[start[r]] to positions[start[r+1]-1], goes to r*apart bytes after to.",
		"Rows up to positions[known-1] are asked for early. It ends before a result of too many rows,",
		"and returns how many results are done.")
	s.tile, s.advance = s.sumTile, s.advanceSum
	s.lists("factors")
	s.results(16, s.notTooMany, func() {})
}

// notTooMany ends the function before a result of more rows than are summed here.
func (s *rowSum) notTooMany(rows reg.GPVirtual, returned string) {
	s.c.CMPQ(rows, operand.U32(longestSum))
	s.c.JGT(operand.LabelRef(returned))
}

// lists loads where the lists end and begin: of a list beside positions, or of
// none, where it is from there.
func (s *rowSum) lists(beside string) {
	c, positions, none := s.c, s.c.GP64(), s.newLabel("none")
	s.stride, s.last, s.factors = param(c, "stride"), param(c, "known"), param(c, beside)
	c.MOVQ(s.param("positions"), positions)
	c.LEAQ(operand.Mem{Base: positions, Index: s.last, Scale: 8}, s.last)
	c.TESTQ(s.factors, s.factors)
	c.JEQ(operand.LabelRef(none))
	c.SUBQ(positions, s.factors)
	c.Label(none)
}

// results emits the results one after the other, up to so many vectors of each
// at a time; check may jump to where it ends.
func (s *rowSum) results(vectors int, check func(rows reg.GPVirtual, returned string), next func()) {
	c := s.c
	s.rows, s.to, s.columns, s.begin, s.end = c.GP64(), c.GP64(), c.GP64(), c.GP64(), c.GP64()
	result, returned := s.newLabel("result"), s.newLabel("returned")
	left, start := s.param("results"), c.GP64()
	done := c.GP64()
	c.XORQ(done, done)
	c.Label(result)
	c.CMPQ(done, left)
	c.JGE(operand.LabelRef(returned))
	c.MOVQ(s.param("start"), start)
	c.MOVQ(operand.Mem{Base: start, Index: done, Scale: 8}, s.begin)
	c.MOVQ(operand.Mem{Base: start, Index: done, Scale: 8, Disp: 8}, s.end)
	c.MOVQ(s.end, start)
	c.SUBQ(s.begin, start)
	check(start, returned)
	c.MOVQ(s.param("positions"), start)
	c.LEAQ(operand.Mem{Base: start, Index: s.begin, Scale: 8}, s.begin)
	c.LEAQ(operand.Mem{Base: start, Index: s.end, Scale: 8}, s.end)
	c.MOVQ(s.param("rows"), s.rows)
	c.MOVQ(s.param("columns"), s.columns)
	c.MOVQ(s.param("to"), s.to)
	s.result(vectors)
	c.MOVQ(s.param("to"), s.to)
	c.ADDQ(s.param("apart"), s.to)
	c.MOVQ(s.to, s.param("to"))
	next()
	c.INCQ(done)
	c.JMP(operand.LabelRef(result))
	c.Label(returned)
	c.Store(done, c.ReturnIndex(0))
	c.VZEROUPPER()
	c.RET()
}

// param is where a parameter lies that is looked at once a result.
func (s *rowSum) param(name string) operand.Mem { return place(s.c, name) }

// whenFactors emits code that runs only where there are factors.
func (s *rowSum) whenFactors(code func()) {
	none := s.newLabel("none")
	s.c.CMPQ(s.param("factors"), operand.U32(0))
	s.c.JEQ(operand.LabelRef(none))
	code()
	s.c.Label(none)
}

// result emits one result: tiles of columns, the widest first.
func (s *rowSum) result(largest int) {
	smallest := 1
	if !s.isa.masks {
		largest, smallest = largest/2, 2 // what is left is the caller's
	}
	s.group = largest
	s.sums = s.newValue()
	for ; s.group >= smallest; s.group /= 2 {
		s.tiles(s.group == largest)
	}
	if s.isa.masks {
		s.rest()
	}
}

// tiles emits the sum of as many columns as fit a group of vectors, or of as
// many times that as there are.
func (s *rowSum) tiles(repeat bool) {
	width := s.group * s.lanes
	begin, end := s.newLabel("tile"), s.newLabel("narrower")
	s.c.Label(begin)
	s.c.CMPQ(s.columns, operand.U32(width))
	s.c.JLT(operand.LabelRef(end))
	s.tile()
	s.c.ADDQ(operand.U32(width*s.in.size), s.rows)
	s.advance(width)
	s.c.SUBQ(operand.U32(width), s.columns)
	if repeat {
		s.c.JMP(operand.LabelRef(begin))
	}
	s.c.Label(end)
}

// rest emits the sum of less than a vector's columns.
func (s *rowSum) rest() {
	done := s.newLabel("done")
	s.c.TESTQ(s.columns, s.columns)
	s.c.JLE(operand.LabelRef(done))
	s.group = 1
	s.maskTail(s.columns)
	s.tile()
	s.tail = nil
	s.c.Label(done)
}

// when emits code that runs only where a bit of the mode is set.
func (s *rowSum) when(bit int, code func()) {
	skip := s.newLabel("skip")
	s.c.TESTQ(operand.U32(bit), s.param("mode"))
	s.c.JEQ(operand.LabelRef(skip))
	code()
	s.c.Label(skip)
}

// advanceSum moves to where later columns are stored.
func (s *rowSum) advanceSum(columns int) {
	s.c.ADDQ(operand.U32(columns*s.out.size), s.to)
	if s.compute.size > s.out.size {
		s.when(sumWide, func() { s.c.ADDQ(operand.U32(columns*(s.compute.size-s.out.size)), s.to) })
	}
}

// sumTile emits the sum of a group of vectors, without factors or with them.
func (s *rowSum) sumTile() {
	c, sum := s.c, s.clearedSums()
	summed := s.newLabel("summed")
	c.CMPQ(s.begin, s.end)
	c.JGE(operand.LabelRef(summed))
	s.whenFactors(func() {
		s.loop(sum, true)
		c.JMP(operand.LabelRef(summed))
	})
	s.loop(sum, false)
	c.Label(summed)
	s.finish(sum)
}

// clearedSums returns the sums of a tile at their beginning.
func (s *rowSum) clearedSums() value {
	sum := s.sums[:s.group]
	for _, r := range sum {
		s.emit(s.bits("VPXOR"), r, r, r)
	}
	return sum
}

// loop emits the addition of the rows, one at least.
func (s *rowSum) loop(sum value, factors bool) {
	factor, zero := s.vector(), s.c.XMM()
	if factors {
		s.emit(s.bits("VPXOR"), zero, zero, zero)
	}
	s.eachRow(func(at reg.GPVirtual) {
		if factors {
			s.loadFactor(operand.Mem{Base: s.factors, Index: at, Scale: 1}, zero, factor)
		}
	}, func(v int, term reg.VecVirtual) {
		if factors {
			s.emit(s.ps("VMUL"), factor, term, term)
		}
		s.emit(s.ps("VADD"), term, sum[v], sum[v])
	})
}

// eachRow emits a loop over the rows of a result, one at least: begin what comes
// first for each, and take what is done with each vector. Between them it asks
// for the lines of a later row, or where none is known once more for this one's.
func (s *rowSum) eachRow(begin func(at reg.GPVirtual), take func(v int, term reg.VecVirtual)) {
	c, bytes := s.c, s.lanes*s.in.size // of a vector
	at, row, later := c.GP64(), c.GP64(), c.GP64()
	loop := s.newLabel("row")
	c.MOVQ(s.begin, at)
	c.Label(loop)
	c.LEAQ(operand.Mem{Base: at, Disp: 8 * rowsEarly(s.group*bytes/64)}, later)
	c.CMPQ(later, s.last)
	c.CMOVQGE(at, later)
	c.MOVQ(operand.Mem{Base: later}, later)
	c.MOVQ(operand.Mem{Base: at}, row)
	c.IMULQ(s.stride, later)
	c.IMULQ(s.stride, row)
	begin(at)
	for v := range s.group {
		take(v, s.in.load(s.kernel, memory{operand.Mem{Base: s.rows, Index: row, Scale: 1, Disp: v * bytes}}))
		if v*bytes%64 == 0 {
			c.PREFETCHT0(operand.Mem{Base: s.rows, Index: later, Scale: 1, Disp: v * bytes})
		}
	}
	c.ADDQ(operand.Imm(8), at)
	c.CMPQ(at, s.end)
	c.JLT(operand.LabelRef(loop))
}

// rowsEarly is how many rows ahead memory is asked for where a tile takes some
// lines of each.
func rowsEarly(lines int) int { return max(4, min(16, 64/max(1, lines))) }

// loadFactor repeats a number in the compute type, of which it is an element.
func (s *rowSum) loadFactor(from operand.Mem, zero, to reg.VecVirtual) {
	if s.double() {
		s.emit("VBROADCASTSD", memory{from}, to)
		return
	}
	one := s.c.XMM()
	s.c.VCVTSD2SS(from, zero, one)
	s.emit("VBROADCASTSS", one, to)
}
