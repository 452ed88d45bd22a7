package main

import (
	"math"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// The largest of each column of the rows in a bag, and where it was named: a
// rowSum that compares instead of adding.
type bagMax struct {
	*rowSum
	best, number value          // of the columns: the largest, and its row's number in the bag
	rank, minus  reg.VecVirtual // the number of the row at hand, and -1
	source       reg.VecVirtual
}

// notLessEqual also holds for a NaN.
const notLessEqual = 22

func (m *bagMax) function() {
	c, name := m.c, "bagMax"+m.isa.name+m.out.name
	beginFunction(c, name, "func(rows *byte, stride int, start *int64, results int, positions *int64, known int, "+
		"sources *int64, to *byte, apart int, columns int, choice *int64, choiceApart int) int",
		name+" finds the largest of each column, of equals the first and before all the first NaN, of rows as sumRows does.",
		"The number in sources that belongs to its row goes to choice, if there is one: those of results are choiceApart bytes apart.",
		"Of no rows it stores 0 and -1. It returns the number of results.")
	m.tile, m.advance, m.takesFew = m.maxTile, func(move func(bytes int)) { move(m.out.size) }, true
	m.lists()
	m.sourcesBeside()
	groups := vectorsTo(8)
	if !m.isa.masks {
		groups = append(pairsTo(4), 1)
	}
	m.group = groups[0]
	m.best, m.number = m.newValue(), m.newValue()
	m.rank, m.minus, m.source = m.vector(), m.vector(), m.vector()
	m.results(groups, func(reg.GPVirtual, string) {})
}

// whole completes the name of an instruction on numbers as wide as elements.
func (m *bagMax) whole(name string) string {
	if m.double() {
		return name + "Q"
	}
	return name + "D"
}

// maxTile emits a group of vectors.
func (m *bagMax) maxTile() {
	c, empty, stored, rank, minus := m.c, m.newLabel("empty"), m.newLabel("stored"), m.rank, m.minus
	branch(c.CMPQ, m.begin, m.end, c.JGE, empty)
	for v := range m.group {
		m.emit(m.ps("VMOVU"), m.negativeInfinity(), m.best[v])
		m.emit(m.bits("VPXOR"), m.number[v], m.number[v], m.number[v])
	}
	m.emit(m.bits("VPXOR"), rank, rank, rank)
	m.ones(minus)
	m.eachRow(func(_, _ reg.GPVirtual) {}, func(v int, from memory) {
		m.take(v, m.load(from))
		if v == m.group-1 {
			m.emit(m.whole("VPSUB"), minus, rank, rank)
		}
	})
	m.storeBest()
	m.storeChoice(m.sources())
	c.JMP(operand.LabelRef(stored))
	c.Label(empty)
	for v := range m.group {
		m.emit(m.bits("VPXOR"), m.best[v], m.best[v], m.best[v])
	}
	m.ones(minus)
	m.storeBest()
	m.storeChoice(func(int, int) reg.VecVirtual { return minus })
	c.Label(stored)
}

func (m *bagMax) negativeInfinity() memory {
	if m.double() {
		return m.constant(math.Float64bits(math.Inf(-1)))
	}
	return m.constant(math.Float32bits(float32(math.Inf(-1))))
}

// ones sets all bits of a register.
func (m *bagMax) ones(r reg.VecVirtual) { m.emit(m.ps("VMOVU"), m.constant(^uint32(0)), r) }

// take keeps a vector where it is larger than, or the first NaN among, what was
// kept.
func (m *bagMax) take(v int, term reg.VecVirtual) {
	best, number := m.best[v], m.number[v]
	if m.isa.masks {
		larger := m.c.K()
		m.emit(m.ps("VCMP"), ordered, best, best, larger)
		m.emit(m.ps("VCMP"), notLessEqual, best, term, larger, larger)
		m.emit(m.ps("VMOVA"), term, larger, best)
		m.emit("VMOVDQA"+m.bitsOf(), m.rank, larger, number)
		return
	}
	larger, known := m.vector(), m.vector()
	m.emit(m.ps("VCMP"), ordered, best, best, known)
	m.emit(m.ps("VCMP"), notLessEqual, best, term, larger)
	m.emit(m.ps("VAND"), known, larger, larger)
	m.emit(m.ps("VBLENDV"), larger, term, best, best)
	m.emit(m.ps("VBLENDV"), larger, m.rank, number, number)
}

func (m *bagMax) bitsOf() string {
	if m.double() {
		return "64"
	}
	return "32"
}

// storeBest stores the largest.
func (m *bagMax) storeBest() {
	for v, step := 0, 0; v < m.group; v += step {
		step = min(2, m.group-v) // narrow types are packed
		packed := m.packed(m.best[v : v+step])
		if !m.storePart(packed, v) {
			m.putTile(packed, v, v+step, m.out.size)
		}
	}
}

// packed rounds a pair of vectors, which are elements of the type already.
func (m *bagMax) packed(pair value) []reg.Register {
	group := m.group
	m.group = len(pair)
	defer func() { m.group = group }()
	return m.out.exact(m.kernel, pair)
}

// sources returns how numbers of rows become those of the list beside them.
func (m *bagMax) sources() func(v, part int) reg.VecVirtual {
	from := m.c.GP64()
	m.c.LEAQ(operand.Mem{Base: m.rowSum.sources, Index: m.begin, Scale: 1}, from)
	return func(v, part int) reg.VecVirtual {
		index, to, gather := m.number[v], m.source, "VPGATHERQQ"
		if !m.double() {
			index, gather = m.half(), "VPGATHERDQ"
			m.emit(either(m.isa.masks, "VEXTRACTI64X4", "VEXTRACTI128"), part, m.number[v], index)
		}
		m.emit(m.bits("VPXOR"), to, to, to)
		at := memory{operand.Mem{Base: from, Index: index, Scale: 8}}
		if m.isa.masks {
			all, bits := m.c.K(), m.c.GP32()
			m.c.MOVL(operand.U32(math.MaxUint32), bits)
			m.c.KMOVW(bits, all)
			m.emit(gather, at, all, to)
			return to
		}
		all := m.vector()
		m.ones(all)
		m.emit(gather, all, at, to)
		return to
	}
}

// storeChoice stores numbers of 64 bits, if they are wanted.
func (m *bagMax) storeChoice(number func(v, part int) reg.VecVirtual) {
	c, none := m.c, m.newLabel("none")
	branch(c.CMPQ, m.param("choice"), operand.U32(0), c.JEQ, none)
	choice, bags := c.GP64(), c.GP64() // of the first column of the tile
	c.MOVQ(m.param("columns"), choice)
	c.SUBQ(m.shifted.left, choice)
	c.SHLQ(operand.Imm(3), choice)
	c.ADDQ(m.param("choice"), choice)
	c.MOVQ(m.next, bags)
	c.SUBQ(m.param("start"), bags)
	c.SHRQ(operand.Imm(3), bags)
	c.IMULQ(m.param("choiceApart"), bags)
	c.ADDQ(bags, choice)
	parts := 8 / m.compute.size
	for v := range m.group {
		for part := range parts {
			to := m.shiftedPlace(operand.Mem{Base: choice, Disp: (v*parts + part) * m.isa.bytes}, v, 8)
			switch {
			case m.shifted.few != nil:
				m.emit("VMASKMOVPD", number(v, part), m.fewOf(part), to)
			case m.tail == nil:
				m.emit("VMOVUPD", number(v, part), to)
			case part == 0:
				m.emit("VMOVUPD", number(v, part), m.tail, to)
			default:
				some := c.K()
				c.KSHIFTRW(operand.Imm(8), m.tail, some)
				m.emit("VMOVUPD", number(v, part), some, to)
			}
		}
	}
	c.Label(none)
}

// fewOf returns which numbers of 64 bits are of columns: of all, or of the first or the second half of them.
func (m *bagMax) fewOf(part int) reg.VecVirtual {
	lanes := m.shifted.few.lanes
	if m.double() {
		return lanes
	}
	half, some := m.half(), m.vector()
	m.emit("VEXTRACTI128", part, lanes, half)
	m.emit("VPMOVSXDQ", half, some)
	return some
}
