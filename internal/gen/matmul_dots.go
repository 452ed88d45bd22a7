package main

import (
	"fmt"
	"strings"

	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/ir"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Products of bf16: VDPBF16PS adds two of them to a sum, that of the upper halves
// and then that of the lower ones, each rounded with its sum. So of a pair of
// steps along k the first one's element is the upper half.

// matmulDots is matmuls of pairs, and what makes them.
func matmulDots(c *build.Context) {
	k := &kernel{c: c, isa: avx512, compute: f32, out: f32, lanes: 16, dots: true}
	for i, name := range []string{"matmulDotsAVX512", "matmulHalfDotsAVX512"} {
		beginFunction(c, name, matmulSignature,
			name+" is "+strings.Replace(name, "Dots", "", 1)+"F32 with pairs of bf16 for elements of a and b.")
		k.panels(matmulVectors - i)
	}
	for panel, of := range transposedPanels {
		name, squares := of+"DotsAVX512", k.transposedSquares(panel)
		beginFunction(c, name, "func(a *byte, aRow int, rows int, b *byte, bColumn int, squares int, bias *byte, y *byte, yRow int, more int, ahead *byte, least *byte)",
			name+" is "+of+"AVX512F32 with pairs of bf16 for elements of a and, their halves exchanged, of b.",
			"32 words at least take the least of themselves and of the bits of b that are not 0, shifted left by 1, less 1.")
		k.multiplyRows(k.transposedCounts(squares), k.transposedChains(squares))
	}
	for _, p := range pairings {
		p.function(k)
	}
	k.transposePairs()
}

// vdpbf16ps adds the products of pairs of a and b to sum. Neither avo nor Go's
// assembler has the instruction: see encode.
func vdpbf16ps(c *build.Context, b, a, sum reg.VecVirtual) {
	c.Instruction(&ir.Instruction{
		Opcode: "VDPBF16PS", Operands: []operand.Op{b, a, sum},
		Inputs: []operand.Op{b, a, sum}, Outputs: []operand.Op{sum}, ISA: []string{"AVX512BF16"},
	})
}

// encode replaces VDPBF16PS by its bytes: EVEX.512.F3.0F38.W0 52 /r.
func encode(f *ir.Function) error {
	var nodes []ir.Node
	for _, n := range f.Nodes {
		i, ok := n.(*ir.Instruction)
		if !ok || i.Opcode != "VDPBF16PS" {
			nodes = append(nodes, n)
			continue
		}
		var number [3]uint32 // of b, a and sum
		for j, o := range i.Operands {
			number[j] = uint32(o.(reg.Physical).PhysicalIndex())
		}
		b, a, sum := number[0], number[1], number[2]
		not := func(n uint32, bit int) uint32 { return ^n >> bit & 1 }
		first := uint32(2) | not(sum, 4)<<4 | not(b, 3)<<5 | not(b, 4)<<6 | not(sum, 3)<<7
		second := uint32(2) | 1<<2 | (^a&15)<<3
		third := uint32(2)<<5 | not(a, 4)<<3
		prefix, rest := 0x62|first<<8|second<<16|third<<24, 0x52|(3<<6|sum&7<<3|b&7)<<8
		nodes = append(nodes,
			ir.NewComment(fmt.Sprintf("VDPBF16PS Z%d, Z%d, Z%d", b, a, sum)),
			&ir.Instruction{Opcode: "LONG", Operands: []operand.Op{operand.U32(prefix)}},
			&ir.Instruction{Opcode: "WORD", Operands: []operand.Op{operand.U16(rest)}})
	}
	f.Nodes = nodes
	return nil
}

// multiplyAdd adds to sums the products of b and a.
func (k *kernel) multiplyAdd(b, a, sum reg.VecVirtual) {
	if k.dots {
		vdpbf16ps(k.c, b, a, sum)
		return
	}
	k.emit(k.ps("VFMADD231"), b, a, sum)
}

// leastSeen notes, of words that are bf16, the least of bits that are not 0, shifted left by 1, less 1:
// it holds the complement, which is the largest of their products with -2.
type leastSeen struct {
	c              *build.Context
	most, minusTwo reg.VecVirtual
}

func newLeastSeen(c *build.Context) *leastSeen {
	l := &leastSeen{c, c.ZMM(), c.ZMM()}
	for _, v := range []reg.VecVirtual{l.most, l.minusTwo} {
		c.VXORPS(v.AsX(), v.AsX(), v.AsX()) // to avo a first use; of others' it would keep the register from the function's begin on
	}
	c.VPTERNLOGD(operand.U8(0xff), l.minusTwo, l.minusTwo, l.minusTwo)
	c.VPADDW(l.minusTwo, l.minusTwo, l.minusTwo)
	return l
}

func (l *leastSeen) see(v, spare reg.VecVirtual) {
	l.c.VPMULLW(l.minusTwo, v, spare)
	l.c.VPMAXUW(spare, l.most, l.most)
}

// least returns what was noted, word by word.
func (l *leastSeen) least() reg.VecVirtual {
	l.c.VPTERNLOGD(operand.U8(0x55), l.most, l.most, l.most)
	return l.most
}

// end returns it.
func (l *leastSeen) end() {
	c, least, half, result := l.c, l.least(), l.c.YMM(), l.c.GP32()
	c.VEXTRACTI64X4(operand.Imm(1), least, half)
	c.VPMINUW(half, least.AsY(), half)
	c.VEXTRACTI128(operand.Imm(1), half, least.AsX())
	c.VPMINUW(half.AsX(), least.AsX(), least.AsX())
	c.VPHMINPOSUW(least.AsX(), least.AsX())
	c.VMOVD(least.AsX(), result)
	c.MOVWLZX(result.As16(), result)
	c.VZEROUPPER()
	c.Store(result, c.ReturnIndex(0))
	c.RET()
}

// pairing is a way to make pairs, with the first element in the upper half.
type pairing struct {
	name, doc string
	from, to  int // bytes of a vector
	rowsOf    int // to be read for one that is written
	vector    func(k *kernel, at, row reg.GPVirtual) (pairs, stored reg.VecVirtual)
}

const (
	pairingSignature = "func(from *byte, fromRow int, to *byte, toRow int, rows, count int) (least uint32)"
	pairingResult    = "It returns the least of the elements' bits that are not 0, shifted left by 1, less 1; 1<<16 - 1 where all are 0."
)

var pairings = []pairing{
	{"swapPairs", "of neighbours in a row of bf16, which count words hold", 64, 64, 1, func(k *kernel, at, _ reg.GPVirtual) (pairs, stored reg.VecVirtual) {
		v := k.fetch("VMOVDQU32", memory{operand.Mem{Base: at}}, k.vector())
		k.c.VPROLD(operand.Imm(16), v, v)
		return v, v
	}},
	{"pairRows", "of each two rows of count bf16", 32, 64, 2, func(k *kernel, at, row reg.GPVirtual) (pairs, stored reg.VecVirtual) {
		upper := k.fetch("VPMOVZXWD", memory{operand.Mem{Base: at}}, k.vector())
		lower := k.fetch("VPMOVZXWD", memory{operand.Mem{Base: at, Index: row, Scale: 1}}, k.vector())
		k.c.VPSLLD(operand.Imm(16), upper, upper)
		k.c.VPORD(lower, upper, upper)
		return upper, upper
	}},
	{"pairColumns", "of neighbours in a row of count f32, which bf16 were widened to; the last one may have none", 64, 32, 1, func(k *kernel, at, _ reg.GPVirtual) (pairs, stored reg.VecVirtual) {
		upper := k.fetch("VMOVDQU32", memory{operand.Mem{Base: at}}, k.vector())
		lower := k.vector()
		k.c.VPSRLQ(operand.Imm(48), upper, lower)
		k.c.VPORD(lower, upper, upper)
		k.c.VPMOVQD(upper, lower.AsY())
		return lower, upper
	}},
}

// function emits the kernel, which notes the element that is next to 0.
func (p pairing) function(k *kernel) {
	c := k.c
	name := p.name + "AVX512"
	beginFunction(c, name, pairingSignature, name+" makes so many rows of pairs "+p.doc+".", pairingResult)
	from, fromRow, to, toRow, rows := param(c, "from"), param(c, "fromRow"), param(c, "to"), param(c, "toRow"), param(c, "rows")
	seen, at, into, left := newLeastSeen(c), c.GP64(), c.GP64(), c.GP64()
	row, whole, some, next, end := k.newLabel("row"), k.newLabel("whole"), k.newLabel("some"), k.newLabel("next"), k.newLabel("end")
	while(c, rows, 1, row, end, func() {
		c.MOVQ(from, at)
		c.MOVQ(to, into)
		c.MOVQ(place(c, "count"), left)
		c.Label(whole)
		c.SUBQ(operand.Imm(16), left)
		c.JLT(operand.LabelRef(some))
		p.pairs(k, at, fromRow, into, seen)
		c.ADDQ(operand.Imm(uint64(p.from)), at)
		c.ADDQ(operand.Imm(uint64(p.to)), into)
		c.JMP(operand.LabelRef(whole))
		c.Label(some)
		c.ADDQ(operand.Imm(16), left)
		c.JEQ(operand.LabelRef(next))
		k.maskTail(left)
		p.pairs(k, at, fromRow, into, seen)
		k.tail = nil
		c.Label(next)
		for range p.rowsOf {
			c.ADDQ(fromRow, from)
		}
		c.ADDQ(toRow, to)
	})
	seen.end()
}

// pairs makes and stores those of a vector.
func (p pairing) pairs(k *kernel, at, row, into reg.GPVirtual, seen *leastSeen) {
	pairs, stored := p.vector(k, at, row)
	to := operand.Mem{Base: into}
	switch {
	case p.to < 64: // there is room for a whole vector
		k.c.VPMOVQD(stored, to)
	case k.tail != nil:
		k.c.VMOVDQU32(stored, k.tail, to)
	default:
		k.c.VMOVDQU32(stored, to)
	}
	seen.see(pairs, pairs)
}

// pairsAhead is how many bytes of a column are copied at a time (cpu/matmul_rows.go).
const pairsAhead = 512

// transposePairs emits swapPairs of squares, which are transposed.
func (k *kernel) transposePairs() {
	c := k.c
	beginFunction(c, "transposePairsAVX512", pairingSignature,
		"transposePairsAVX512 makes of 16 columns of bf16, which are rows of from, 16 times so many rows of pairs. Where count",
		fmt.Sprintf("is not 0 it asks for the memory %d bytes behind them.", pairsAhead), pairingResult)
	columns, to, toRow, squares := k.rowsFrom(param(c, "from"), param(c, "fromRow"), k.lanes), param(c, "to"), param(c, "toRow"), param(c, "rows")
	far := param(c, "count")
	seen, loop, end := newLeastSeen(c), k.newLabel("square"), k.newLabel("end")
	while(c, squares, 1, loop, end, func() {
		square := make(value, k.lanes)
		for i := range square {
			if i%matmulTransposedEarly == 0 {
				near := k.newLabel("near")
				branch(c.TESTQ, far, far, c.JEQ, near)
				for j := range matmulTransposedEarly {
					c.PREFETCHT1(columns.at(i + j).Offset(pairsAhead))
				}
				c.Label(near)
			}
			square[i] = k.out.load(k, memory{columns.at(i)})
			k.pair(square[i], seen)
		}
		for _, v := range k.transpose(square) {
			c.VMOVDQU32(v, operand.Mem{Base: to})
			c.ADDQ(toRow, to)
		}
		columns.moveOn(c, operand.U32(4*k.lanes))
	})
	seen.end()
}

// pair makes pairs of neighbours in place.
func (k *kernel) pair(v reg.VecVirtual, seen *leastSeen) {
	seen.see(v, k.vector())
	k.c.VPROLD(operand.Imm(16), v, v)
}
