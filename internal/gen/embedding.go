package main

import (
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// The sums of an embedding's backward pass: a destination's columns stay in
// registers while the rows that belong to it are added one after the other.

// longestSum is how many rows are summed here; what has more is summed in chunks.
const longestSum = 256

// embeddingSums emits the sums of every type, on every instruction set.
func embeddingSums(c *build.Context) {
	eachKernel(c, []*storage{f32, f64, bf16, f16}, func(k *kernel) {
		(&rowSum{kernel: k}).function()
		(&rowSum{kernel: k}).chosenFunction()
		(&bagMax{rowSum: &rowSum{kernel: k}}).function()
		if !k.double() {
			(&rowPairs{kernel: k}).function()
		}
	})
	pairProductDouble(c)
}

// rowSum is the kernel under construction. Places in lists are addresses: in that of
// positions the result at hand is from begin to end, which start says at next.
type rowSum struct {
	*kernel
	codes    *storage // of rows; nil: they are of the results' type
	centred  bool     // the codes' zero points are 0
	terms    *storage // which terms are rounded to; nil: they are of the compute type
	fused    bool     // ... by fused steps
	takesFew bool     // also columns that are less than a vector

	grouped      bool // columns have parameters of several groups
	columnGroups columnGroups

	scales reg.GPVirtual // where rows have them, or nil: a parameter says it

	rows, stride, begin, end, next, sources, to reg.GPVirtual

	positions operand.Op // a register or, where too few are left, the parameter's place

	sums     value
	upper    any               // where bf16 is taken apart: the bits of the odd elements
	oddWords reg.OpmaskVirtual // there, too: 16-bit elements that are upper halves

	shifted shifted

	tile    func()                     // emits a group of vectors of a result
	tooMany string                     // ends the results before the one at hand
	advance func(move func(bytes int)) // moves what belongs to the results by so many bytes of each column
	check   func(bytes reg.GPVirtual, tooMany string)
	aside   []func() // see rarely
}

func (s *rowSum) function() {
	c, name := s.c, "sumRows"+s.isa.name+s.out.name
	beginFunction(c, name, "func(rows *byte, stride int, start *int64, results int, positions *int64, known int, "+
		"factors *byte, to *byte, apart int, columns int, mode int) int",
		name+" sums columns of rows that lie stride bytes apart, times their factors, of the rows' type or f32, if there are any:",
		"result r, of the rows whose numbers are positions[start[r]] to positions[start[r+1]-1], goes to r*apart bytes after to.",
		"Rows up to positions[known-1] are asked for early, none if known is 0. It ends before a result of too many rows,",
		"and returns how many results are done.")
	s.tile, s.advance, s.takesFew = s.sumTile, s.advanceSum, true
	s.lists()
	if s.out == bf16 {
		if s.isa.masks {
			s.pinRounding()
		}
		s.upper = s.pinned(s.constant(upperHalf))
	}
	groups := vectorsTo(either(s.isa.masks, 16, 14))
	if s.out == bf16 { // vectors come in pairs
		groups = append(pairsTo(either(s.isa.masks, 16, 12)), 1)
	}
	s.results(groups, s.notTooMany)
	s.pins.registers = nil
}

// notTooMany ends the results before a result of more rows than are summed here.
func (s *rowSum) notTooMany(bytes reg.GPVirtual, tooMany string) {
	many, few := s.newLabel("many"), s.newLabel("few")
	branch(s.c.CMPQ, bytes, operand.U32(8*longestSum), s.c.JGT, many)
	s.c.Label(few)
	s.rarely(func() {
		s.c.Label(many)
		branch(s.c.TESTQ, operand.U32(sumLong), s.param("mode"), s.c.JEQ, tooMany)
		s.c.JMP(operand.LabelRef(few))
	})
}

// rarely emits code behind the loop over results, which so has fewer taken jumps.
func (s *rowSum) rarely(code func()) {
	split, group := s.split, s.group
	s.aside = append(s.aside, func() {
		now := s.group
		s.split, s.group = split, group
		code()
		s.split, s.group = false, now
	})
}

// lists loads how far rows lie apart and where positions are, and puts the ends of lists
// into the place of their lengths.
func (s *rowSum) lists() {
	s.stride = param(s.c, "stride")
	if s.positions == nil {
		s.positions = param(s.c, "positions")
	}
	for _, list := range [][2]string{{"positions", "known"}, {"start", "results"}} {
		end := param(s.c, list[1])
		s.c.SHLQ(operand.Imm(3), end)
		s.c.ADDQ(s.param(list[0]), end)
		s.c.MOVQ(end, s.param(list[1]))
	}
}

// sourcesBeside loads where a list lies from positions.
func (s *rowSum) sourcesBeside() {
	c, none := s.c, s.newLabel("none")
	s.sources = param(c, "sources")
	branch(c.TESTQ, s.sources, s.sources, c.JEQ, none)
	c.SUBQ(s.positions, s.sources)
	c.Label(none)
}

// results emits the results: tiles of columns, as many vectors wide as one of groups
// says, which has the largest first, of one result after the other, then the next
// columns of all. So what a tile needs stays in registers, and results are few enough
// for their rows to stay in the caches. check may end the results before one of too
// many rows.
func (s *rowSum) results(groups []int, check func(bytes reg.GPVirtual, tooMany string)) {
	c := s.c
	s.to, s.begin, s.end, s.next = c.GP64(), c.GP64(), c.GP64(), c.GP64()
	s.rows = param(c, "rows")
	s.check = check
	s.group = groups[0]
	s.sums = s.newValue()
	s.shiftedTiles(groups)
	done := s.c.GP64()
	c.MOVQ(s.param("results"), done)
	c.SUBQ(s.param("start"), done)
	c.SHRQ(operand.Imm(3), done)
	c.Store(done, c.ReturnIndex(0))
	endFunction(c)
}

// ofEach emits a tile of each result: little, as bags may have few rows. One begins
// where the one before ended.
func (s *rowSum) ofEach() {
	c, bytes := s.c, s.c.GP64()
	result, tooMany, over := s.newLabel("result"), s.newLabel("tooMany"), s.newLabel("over")
	c.MOVQ(s.param("to"), s.to)
	if s.movesResults() {
		s.advance(func(bytes int) { s.moveResults(bytes) })
	}
	c.MOVQ(s.param("start"), s.next)
	branch(c.CMPQ, s.next, s.param("results"), c.JGE, over)
	c.MOVQ(operand.Mem{Base: s.next}, s.begin)
	s.positionAt(s.begin)
	c.Label(result)
	c.MOVQ(operand.Mem{Base: s.next, Disp: 8}, s.end)
	s.positionAt(s.end)
	c.MOVQ(s.end, bytes)
	c.SUBQ(s.begin, bytes)
	s.check(bytes, tooMany)
	s.tooMany = tooMany
	s.tile()
	c.MOVQ(s.end, s.begin)
	c.ADDQ(s.param("apart"), s.to)
	c.ADDQ(operand.Imm(8), s.next)
	branch(c.CMPQ, s.next, s.param("results"), c.JLT, result)
	c.JMP(operand.LabelRef(over))
	for len(s.aside) > 0 {
		code := s.aside[0]
		s.aside = s.aside[1:]
		code()
	}
	c.Label(tooMany)
	c.MOVQ(s.next, s.param("results"))
	c.Label(over)
}

// positionAt turns a number into the place of that position.
func (s *rowSum) positionAt(number reg.GPVirtual) {
	if first, ok := s.positions.(reg.GPVirtual); ok {
		s.c.LEAQ(operand.Mem{Base: first, Index: number, Scale: 8}, number)
		return
	}
	s.c.SHLQ(operand.Imm(3), number)
	s.c.ADDQ(s.positions, number)
}

// param is where a parameter lies that is looked at once a result or less often.
func (s *rowSum) param(name string) operand.Mem { return place(s.c, name) }

// when emits code that runs only where a bit of the mode is set.
func (s *rowSum) when(bit int, code func()) {
	skip := s.newLabel("skip")
	branch(s.c.TESTQ, operand.U32(bit), s.param("mode"), s.c.JEQ, skip)
	code()
	s.c.Label(skip)
}

// advanceSum moves to where other columns are stored, by so many bytes of each.
func (s *rowSum) advanceSum(move func(bytes int)) {
	move(s.out.size)
	if s.narrows() {
		wide := s.newLabel("wide")
		branch(s.c.TESTQ, operand.U32(sumWide), s.param("mode"), s.c.JNE, wide)
		s.when(sumBF16|sumF16, func() { move(f16.size - f32.size) })
		s.c.Label(wide)
	}
	if s.compute.size > s.out.size {
		s.when(sumWide, func() { move(s.compute.size - s.out.size) })
	}
}
