package main

import (
	"github.com/mmcloughlin/avo/attr"
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

// prefetchRows is how many rows ahead memory is asked for.
const prefetchRows = 4

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
			(&rowSum{kernel: k}).function()
		}
	}
}

type rowSum struct {
	*kernel
	rows, stride, positions, count, ahead, to, columns, mode reg.GPVirtual
	divisor                                                  reg.VecVirtual
	sums                                                     value
}

func (s *rowSum) function() {
	c, name := s.c, "sumRows"+s.isa.name+s.out.name
	c.Function(name)
	c.Doc(name+" sums columns of rows that lie stride bytes apart: of those whose numbers",
		"are the first count of positions. Up to ahead of them, rows are asked for early.")
	c.Attributes(attr.NOSPLIT)
	c.Pragma("noescape")
	c.SignatureExpr("func(rows *byte, stride int, positions *int64, count int, ahead int, to *byte, columns int, mode int, divisor float64)")
	s.rows, s.stride, s.positions, s.count = param(c, "rows"), param(c, "stride"), param(c, "positions"), param(c, "count")
	s.ahead, s.to, s.columns, s.mode = param(c, "ahead"), param(c, "to"), param(c, "columns"), param(c, "mode")
	c.SUBQ(operand.Imm(prefetchRows), s.ahead)
	s.loadDivisor()
	largest, smallest := 16, 1
	if !s.isa.masks {
		largest, smallest = 8, 2 // what is left is the caller's
	}
	s.group = largest
	s.sums = s.newValue()
	for ; s.group >= smallest; s.group /= 2 {
		s.tiles(s.group == largest)
	}
	if s.isa.masks {
		s.rest()
	}
	c.VZEROUPPER()
	c.RET()
}

func (s *rowSum) loadDivisor() {
	x := s.c.XMM()
	s.c.Load(s.c.Param("divisor"), x)
	if !s.double() {
		s.c.VCVTSD2SS(x, x, x)
	}
	s.divisor = s.vector()
	s.emit(s.broadcast(), x, s.divisor)
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
	s.c.ADDQ(operand.U32(width*s.out.size), s.rows)
	s.c.ADDQ(operand.U32(width*s.out.size), s.to)
	s.when(sumWide, func() { s.c.ADDQ(operand.U32(width*(s.compute.size-s.out.size)), s.to) })
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
	s.group, s.tail = 1, s.c.K()
	bits := s.c.GP64()
	s.c.MOVQ(operand.I64(-1), bits)
	s.c.BZHIQ(s.columns, bits, bits)
	s.c.KMOVW(bits.As32(), s.tail)
	s.tile()
	s.c.Label(done)
}

// when emits code that runs only where a bit of the mode is set.
func (s *rowSum) when(bit int, code func()) {
	skip := s.newLabel("skip")
	s.c.TESTQ(operand.U32(bit), s.mode)
	s.c.JEQ(operand.LabelRef(skip))
	code()
	s.c.Label(skip)
}

func (s *rowSum) tile() {
	c := s.c
	sum := s.sums[:s.group]
	for _, r := range sum {
		if s.isa.masks {
			c.VPXORD(r, r, r)
		} else {
			c.VPXOR(r, r, r)
		}
	}
	i, row := c.GP64(), c.GP64()
	loop, near, done := s.newLabel("row"), s.newLabel("near"), s.newLabel("summed")
	c.XORQ(i, i)
	c.Label(loop)
	c.CMPQ(i, s.count)
	c.JGE(operand.LabelRef(done))
	c.CMPQ(i, s.ahead)
	c.JGE(operand.LabelRef(near))
	c.MOVQ(operand.Mem{Base: s.positions, Index: i, Scale: 8, Disp: 8 * prefetchRows}, row)
	c.IMULQ(s.stride, row)
	c.ADDQ(s.rows, row)
	for at := 0; at < s.group*s.lanes*s.out.size; at += 64 {
		c.PREFETCHT0(operand.Mem{Base: row, Disp: at})
	}
	c.Label(near)
	c.MOVQ(operand.Mem{Base: s.positions, Index: i, Scale: 8}, row)
	c.IMULQ(s.stride, row)
	c.ADDQ(s.rows, row)
	for v, r := range sum {
		term := s.out.load(s.kernel, memory{operand.Mem{Base: row, Disp: v * s.lanes * s.out.size}})
		s.emit(s.ps("VADD"), term, r, r)
	}
	c.INCQ(i)
	c.JMP(operand.LabelRef(loop))
	c.Label(done)
	s.finish(sum)
}

// finish stores sums: as they are (wide), or divided, added to what is there
// and rounded.
func (s *rowSum) finish(sum value) {
	stored, narrow := s.newLabel("stored"), s.newLabel("narrow")
	s.c.TESTQ(operand.U32(sumWide), s.mode)
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
	s.when(sumDivide, func() {
		for _, r := range sum {
			s.emit(s.ps("VDIV"), s.divisor, r, r)
		}
	})
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

// storePair rounds one or two vectors to the storage type and stores them.
func (s *rowSum) storePair(v value, to memory) {
	packed := s.out.pack(s.kernel, v)
	if s.tail != nil {
		s.out.masked(s.kernel, packed, to)
		return
	}
	around, done := s.newLabel("around"), s.newLabel("stored")
	s.c.TESTQ(operand.U32(sumStream), s.mode)
	s.c.JNE(operand.LabelRef(around))
	for _, stream := range []bool{false, true} {
		at := to
		for _, r := range packed {
			name := "VMOVDQU"
			switch {
			case stream:
				name = "VMOVNTDQ"
			case s.isa.masks:
				name = "VMOVDQU64"
			}
			s.emit(name, r, at)
			at = at.plus(int(r.Size()))
		}
		if !stream {
			s.c.JMP(operand.LabelRef(done))
			s.c.Label(around)
		}
	}
	s.c.Label(done)
}
