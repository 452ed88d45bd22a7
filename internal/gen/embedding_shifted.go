package main

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Tiles of columns: the last vector ends where the columns do, or the last pair of vectors where they come in pairs, and so
// may begin with some that its tile has, or the tile before. Of less than two vectors in all the second begins within the
// first. So each row is read once for up to 16 vectors, 14 of AVX2, however many columns they have. Masks take less than a
// vector in all, but not a last vector: a load that reaches beyond its row waits for the line there.

// shifted is what a rowSum needs for them.
type shifted struct {
	left, moved operand.Mem       // columns that are left; how many columns the last vectors are moved by
	lastRows    reg.GPVirtual     // rows, so moved
	few         *fewColumns       // of less than a vector; else nil
	step        int               // how many vectors tiles differ by, and the last ones are
	within      bool              // a second vector begins within the first
	bytes       reg.OpmaskVirtual // the tail's, of codes that are halves of them
}

// vectorsTo returns the numbers of vectors that tiles have: all, the widest first.
func vectorsTo(widest int) (groups []int) {
	for group := widest; group > 0; group-- {
		groups = append(groups, group)
	}
	return groups
}

// pairsTo returns even ones.
func pairsTo(widest int) (groups []int) {
	for group := widest; group > 0; group -= 2 {
		groups = append(groups, group)
	}
	return groups
}

// shiftedTiles emits tiles of groups, the widest first. Of more columns than that takes, the first tile has 8 vectors, with
// masks as many as the widest or half of them, so that the last one is no narrow one.
func (s *rowSum) shiftedTiles(groups []int) {
	c, left, done := s.c, s.c.GP64(), s.newLabel("done")
	room := c.AllocLocal(16)
	s.shifted = shifted{left: room, moved: room.Offset(8), lastRows: c.GP64(), step: groups[0] - groups[1]}
	c.MOVQ(s.param("columns"), left)
	c.MOVQ(left, s.shifted.left)
	widest, repeated, next, wide := groups[0], min(8, groups[0]), s.newLabel("next"), s.newLabel("wide")
	c.Label(next)
	if s.isa.masks {
		last := s.newLabel("last")
		repeated = widest / 2
		branch(c.CMPQ, s.shifted.left, operand.U32(widest*s.lanes), c.JLE, last)
		branch(c.CMPQ, s.shifted.left, operand.U32((widest+repeated)*s.lanes), c.JLT, wide)
		c.Label(last)
	} else {
		branch(c.CMPQ, s.shifted.left, operand.U32(widest*s.lanes), c.JGT, wide)
	}
	for _, group := range groups {
		s.group = group
		width, narrower := group*s.lanes, s.newLabel("narrower")
		if group == 1 {
			if s.takesFew && s.shifted.step > 1 {
				s.withinFirst(done)
			}
			s.lessThanTwo()
			break
		}
		if group > s.shifted.step {
			branch(c.CMPQ, s.shifted.left, operand.U32(width-s.shifted.step*s.lanes), c.JLE, narrower)
		} else {
			branch(c.CMPQ, s.param("columns"), operand.U32(width), c.JLT, narrower)
		}
		if group == repeated {
			c.Label(wide)
		}
		moved := c.GP64()
		c.MOVQ(s.shifted.left, left)
		c.XORQ(moved, moved)
		c.SUBQ(operand.U32(width), left)
		c.CMOVQLT(left, moved)
		s.shift(moved)
		s.ofEach()
		if group == repeated || group == widest && s.isa.masks {
			c.SUBQ(operand.U32(width), s.shifted.left)
			c.JLE(operand.LabelRef(done))
			c.ADDQ(operand.U32(s.rowBytes(width)), s.rows)
			s.advance(func(bytes int) { c.ADDQ(operand.I32(width*bytes), s.param("to")) })
			if s.codes != nil {
				s.when(sumGrouped, func() { c.ADDQ(operand.U32(width*4), s.param("groups")) })
			}
			c.JMP(operand.LabelRef(next))
		} else {
			c.JMP(operand.LabelRef(done))
		}
		c.Label(narrower)
	}
	c.Label(done)
}

// withinFirst emits a vector and the one that ends with the columns, if there are more than one has.
func (s *rowSum) withinFirst(done string) {
	c, moved, one := s.c, s.c.GP64(), s.newLabel("one")
	branch(c.CMPQ, s.shifted.left, operand.U32(s.lanes), c.JLE, one)
	c.MOVQ(s.shifted.left, moved)
	c.SUBQ(operand.U32(2*s.lanes), moved)
	s.group, s.shifted.within = 2, true
	s.shift(moved)
	s.ofEach()
	s.group, s.shifted.within = 1, false
	c.JMP(operand.LabelRef(done))
	c.Label(one)
}

// lessThanTwo emits a vector and, if there are more columns, the one that ends with them.
func (s *rowSum) lessThanTwo() {
	c, moved, tile, few, done := s.c, s.c.GP64(), s.newLabel("tile"), s.newLabel("few"), s.newLabel("done")
	c.XORQ(moved, moved)
	takesFew := s.takesFew || s.isa.masks
	if takesFew {
		branch(c.CMPQ, s.shifted.left, operand.U32(s.lanes), c.JLT, few)
	}
	c.Label(tile)
	s.shift(moved)
	s.ofEach()
	c.MOVQ(s.shifted.left, moved)
	c.SUBQ(operand.U32(s.lanes), moved)
	branch(c.CMPQ, moved, s.shifted.moved, c.JNE, tile)
	if takesFew {
		c.JMP(operand.LabelRef(done))
		c.Label(few)
		s.shift(moved)
		if s.isa.masks {
			s.beginMasked()
		} else {
			s.beginFew()
		}
		s.ofEach()
		s.shifted.few, s.tail = nil, nil
		c.Label(done)
	}
}

// beginMasked sets the mask of columns that are less than a vector, and that of bytes that have two each.
func (s *rowSum) beginMasked() {
	c, left := s.c, s.c.GP64()
	c.MOVQ(s.shifted.left, left)
	s.maskTail(left)
	if s.packed() {
		columns := s.tail
		c.INCQ(left)
		c.SHRQ(operand.Imm(1), left)
		s.maskTail(left)
		s.shifted.bytes, s.tail = s.tail, columns
	}
}

// lanesBelow sets the lanes whose numbers are below one.
func (s *rowSum) lanesBelow(number operand.Op, to reg.VecVirtual) reg.VecVirtual {
	whole, x := either(s.double(), "Q", "D"), s.c.XMM()
	s.c.VMOVQ(number, x)
	s.emit("VPBROADCAST"+whole, x, to)
	s.emit("VPCMPGT"+whole, s.laneNumbers(), to, to)
	return to
}

// load loads elements of the results' type.
func (s *rowSum) load(from memory) reg.VecVirtual {
	if s.shifted.few == nil {
		return s.out.load(s.kernel, from)
	}
	return s.loadFew(from)
}

// shift moves the last vectors by so many columns.
func (s *rowSum) shift(moved reg.GPVirtual) {
	s.c.MOVQ(moved, s.shifted.moved)
	if s.packed() {
		s.c.SARQ(operand.Imm(1), moved)
	}
	s.c.LEAQ(operand.Mem{Base: s.rows, Index: moved, Scale: uint8(max(1, s.rowBytes(1)))}, s.shifted.lastRows)
	if s.codes != nil {
		s.when(sumGrouped, s.setGroups)
	}
}

// fixed is how many vectors of a tile are not moved.
func (s *rowSum) fixed() int {
	if s.shifted.within {
		return 1
	}
	return s.group - min(s.shifted.step, s.group)
}

// movesResults reports whether all vectors of a tile are moved, and so places of results.
func (s *rowSum) movesResults() bool { return s.fixed() == 0 }

// moveResults moves to where columns that are moved are stored, by so many bytes of each.
func (s *rowSum) moveResults(bytes int) {
	moved := s.c.GP64()
	s.c.IMUL3Q(operand.I32(bytes), s.shifted.moved, moved)
	s.c.ADDQ(moved, s.to)
}

// shiftedPlace is a place, moved with the vector v by columns of a size.
func (s *rowSum) shiftedPlace(at operand.Mem, v, size int) memory {
	if v >= s.fixed() {
		moved := s.c.GP64()
		s.c.MOVQ(s.shifted.moved, moved)
		at.Index, at.Scale = moved, uint8(size)
	}
	return memory{at}
}

// storeTile stores vectors of a tile, whose elements have a size, before what done labels. Where they are
// stored around the caches none is moved.
func (s *rowSum) storeTile(packed []reg.Register, from, to, size int, done string) {
	first, around := memory{operand.Mem{Base: s.to, Disp: from * s.lanes * size}}, s.newLabel("around")
	s.rarely(func() {
		s.c.Label(around)
		s.putBy("VMOVNTDQ", packed, first)
		s.c.JMP(operand.LabelRef(done))
	})
	branch(s.c.TESTQ, operand.U32(sumStream), s.param("mode"), s.c.JNE, around)
	s.putTile(packed, from, to, size)
}

// putTile is storeTile of those that may be moved.
func (s *rowSum) putTile(packed []reg.Register, from, to, size int) {
	bound := to
	if !s.movesResults() {
		bound = min(to, max(from, s.fixed()))
	}
	moved := s.placeOf(bound, size)
	for at, end := from*s.lanes*size, bound*s.lanes*size; len(packed) > 0; packed = packed[1:] {
		r, next := packed[0], at+int(packed[0].Size())
		switch {
		case at >= end:
			s.put([]reg.Register{r}, moved.plus(at-end))
		case next > end: // its upper half is moved
			upper := s.half()
			s.emit(either(s.isa.masks, "VEXTRACTI64X4", "VEXTRACTI128"), 1, r, upper)
			s.put([]reg.Register{s.halfOf(r)}, memory{operand.Mem{Base: s.to, Disp: at}})
			s.put([]reg.Register{upper}, moved)
		default:
			s.put([]reg.Register{r}, memory{operand.Mem{Base: s.to, Disp: at}})
		}
		at = next
	}
}

// halfOf is the lower half of a vector.
func (s *rowSum) halfOf(r reg.Register) reg.Register {
	v := r.(reg.VecVirtual)
	return either[reg.Register](s.isa.masks, v.AsY(), v.AsX())
}

// forget clears the sums of columns that the tile before has added to what is there: with masks no tile after another is as
// narrow.
func (s *rowSum) forget(sum value) {
	if s.isa.masks || s.group > s.shifted.step || s.shifted.within {
		return
	}
	count := s.c.GP64()
	s.c.MOVQ(s.shifted.moved, count)
	s.c.NEGQ(count)
	if s.group == 1 {
		s.c.ANDQ(operand.Imm(uint64(s.lanes-1)), count)
	}
	if s.split { // the first has the even columns
		s.c.INCQ(count)
	}
	for v, r := range sum {
		first := s.c.GP64()
		s.c.MOVQ(count, first)
		if s.split {
			s.c.SUBQ(operand.Imm(uint64(v)), first)
			s.c.SARQ(operand.Imm(1), first)
		} else {
			s.c.SUBQ(operand.Imm(uint64(v*s.lanes)), first)
		}
		s.emit(s.ps("VANDN"), r, s.lanesBelow(first, s.vector()), r)
	}
}
