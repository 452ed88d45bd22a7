package main

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// How columns of a square become rows, in registers.

// matmulTransposedMost is how many registers of 16 sums and a square may take; others transpose it.
const matmulTransposedMost = 12

// atOnce is how many elements of a column are transposed at a time. Half of them can be loaded to where they belong,
// which saves a step; without masks there are no registers for more, but beside few sums. With masks lines come faster
// from the caches as a whole, beside fewer than 16 sums, except pairs, which take more instructions.
func (t *transposed) atOnce() int {
	all := len(t.sums)*t.squares+t.lanes <= matmulTransposedMost
	if t.isa.masks {
		all = !t.dots && len(t.sums)+t.lanes < 32
	}
	if t.words() || all {
		return t.lanes
	}
	return t.lanes / 2
}

// words reports whether two elements of a column are transposed as one word, and become two numbers where they meet
// rows: that takes half of the shuffles.
func (t *transposed) words() bool { return t.out == bf16 && !t.isa.masks }

// row returns one of the rows that transposedRows returned.
func (t *transposed) row(rows value, number int) value {
	switch word := rows[number*len(rows)/t.atOnce():][:1]; {
	case !t.words():
		return word
	case number%2 == 0:
		return t.apply("VPSLLD", 16, word)
	default:
		return t.apply("VPAND", t.upper, word)
	}
}

// transposedRows returns the rows of a square, so many from one on.
func (t *transposed) transposedRows(from, count int) value {
	if t.words() {
		count /= 2
	}
	v, quarter := make(value, count), 16/t.compute.size
	for i := range v {
		if each := t.atOnce() / count; t.squares == 1 && (from+i)*each%matmulTransposedEarly == 0 {
			t.ask((from + i) * each)
		}
		at := func(column int) operand.Mem { return t.columns.at(column).Offset(from * t.out.size) }
		if count < t.lanes {
			first := i/quarter*2*quarter + i%quarter
			v[i] = t.halves(at(first), at(first+quarter))
		} else {
			v[i] = t.out.load(t.kernel, memory{at(i)})
		}
		if t.dots {
			t.pair(v[i], t.seen)
		}
	}
	switch v = t.transposeQuarters(v); {
	case count == t.lanes:
		return t.joinQuarters(v)
	case t.isa.masks:
		return t.zipQuarters(v, quarter, 0x88, 0xDD)
	}
	return v
}

// halves loads elements for half a register from each of two places.
func (t *transposed) halves(low, high operand.Mem) reg.VecVirtual {
	c, v := t.c, t.vector()
	switch {
	case t.isa.masks && t.out.size < t.compute.size && !t.dots:
		c.VMOVUPS(low, v.AsX())
		c.VINSERTF32X4(operand.Imm(1), high, v.AsY(), v.AsY())
		return t.widened(t.out, v.AsY())[0]
	case t.isa.masks:
		c.VMOVUPS(low, v.AsY())
		c.VINSERTF64X4(operand.Imm(1), high, v, v)
	case t.out.size == t.compute.size || t.words():
		c.VMOVUPS(low, v.AsX())
		c.VINSERTF128(operand.Imm(1), high, v, v)
	default:
		c.VMOVQ(low, v.AsX())
		c.VMOVHPS(high, v.AsX(), v.AsX())
		return t.widened(t.out, v.AsX())[0]
	}
	return v
}
