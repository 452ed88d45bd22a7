package cpu

import (
	"unsafe"

	"github.com/isobit-ml/isobit/tensor"
)

// How rows of codes become rows of floats, in bags that no kernel takes as codes.

// dequantize puts a tile in the place of terms.
func (b *codeBags) dequantize(m, all *EmbeddingSums, rows *weightRun, t termTile) {
	memory, n := &m.Scratch.weights, t.to-t.from
	width := t.columns
	group := all.Codes.GroupSize
	gathers := t.gathers(&all.Codes) && (t.inOne(group) || group%groupUnit == 0)
	if gathers {
		width = t.width(group)
	}
	m.Terms = Matrix{Span: Span{P: unsafe.Pointer(&memory.parts), Stride: b.terms.Size(), DType: b.terms}, Dims: 1}
	m.Terms.Size[0], m.Terms.Strides[0] = n, width*b.terms.Size()
	m.Positions, m.Column, m.Columns, m.Codes = counting[:n], 0, t.columns, WeightRows{}
	switch {
	case gathers:
		b.together(m, all, t)
	case b.decodeInPlace(m, all, t):
	default:
		for i, p := range all.Positions[t.from:t.to] {
			b.term(rows, m.Terms.Row(int64(i), 0), t.columns, p, t.column)
		}
	}
	if all.Factors.P != nil {
		if n > 0 { // behind the last factor there is none to point to
			loadRow(b.x, memory.row[:n], all.Factors.At(t.from))
		}
		m.Factors = Span{P: unsafe.Pointer(&memory.row), Stride: 4, DType: tensor.F32}
	}
}

// decodeInPlace makes rows as sums of one row each, and reports whether it could.
func (b *codeBags) decodeInPlace(m, all *EmbeddingSums, t termTile) bool {
	codes, reads := all.Codes.withReady()
	if t.from == t.to || !reads {
		return false
	}
	given, n := *m, t.to-t.from
	*m = EmbeddingSums{Start: counting[:n+1], Apart: m.Terms.Strides[0], EmbeddingSum: EmbeddingSum{
		Codes: codes, Positions: all.Positions[t.from:t.to], Out: m.Terms.Span, Column: t.column, Columns: t.columns, rows: true, Scratch: m.Scratch,
	}}
	done := b.decode.reads(m) && b.sumCodes(m, b.decode, b.decode.manyBelow(m, groupInPlace))
	*m = given
	return done
}

// term makes a dequantized row.
func (b *codeBags) term(rows *weightRun, to Span, columns, row, column int64) {
	if b.out == tensor.F32 {
		rows.weights(unsafe.Slice((*float32)(to.P), columns), row, column)
		return
	}
	wide := BlockOf[float32](rows.Scratch, weightBlocks, int(columns))
	rows.weights(wide, row, column)
	if b.terms == b.out {
		storeRow(b.x, to, wide)
		return
	}
	stored := Span{P: unsafe.Pointer(&rows.Scratch.blocks[weightBlocks+1]), Stride: b.out.Size(), DType: b.out}
	storeRow(b.x, stored, wide)
	loadRow(b.x, unsafe.Slice((*float32)(to.P), columns), stored)
}

// together dequantizes a tile's rows by one call, with what is between their columns' ends and where the next rows begin.
func (b *codeBags) together(m, all *EmbeddingSums, t termTile) {
	g := gatherRows(m.Scratch, &all.Codes, all.Positions[t.from:t.to], t)
	size := roundUp(min(t.columns, all.Codes.GroupSize), groupUnit)
	wide := m.Scratch.weights.parts[:int64(len(g.scales))*size]
	codes := g.codes
	if all.Codes.Weight.DType.Packed() {
		bytes := unsafe.Slice((*int8)(unsafe.Pointer(&m.Scratch.weights.parts[codesAt])), len(wide))
		b.packing.Unpack(bytes, codes, 0, 1, all.Codes.Weight.DType)
		codes = unsafe.Pointer(&bytes[0])
	}
	b.bytes((*byte)(codes), len(g.scales), int(size), &g.scales[0], &g.zeros[0], &wide[0])
	if b.out == tensor.F32 {
		return
	}
	stored := Span{P: unsafe.Pointer(&m.Scratch.weights.parts[storedAt]), Stride: b.out.Size(), DType: b.out}
	storeRow(b.x, stored, wide)
	if b.terms == b.out {
		m.Terms.P = stored.P
	} else {
		loadRow(b.x, wide, stored)
	}
}
