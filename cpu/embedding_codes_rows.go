package cpu

import (
	"unsafe"

	"github.com/isobit-ml/isobit/tensor"
)

// How rows of codes become rows of floats, in bags that no kernel takes as codes.

// termTile are columns of the rows at positions from one to another.
type termTile struct{ from, to, column, columns int64 }

// dequantize puts a tile in the place of terms.
func (b *codeBags) dequantize(m, all *EmbeddingSums, rows *weightRun, t termTile) {
	memory, n, width := &m.Scratch.weights, t.to-t.from, t.columns
	t.column += all.Column
	gathers := b.gathers(all, t)
	if gathers {
		width = roundUp(width, groupUnit)
	}
	m.Terms = Matrix{Span: Span{P: unsafe.Pointer(&memory.parts), Stride: b.terms.Size(), DType: b.terms}, Dims: 1}
	m.Terms.Size[0], m.Terms.Strides[0] = n, width*b.terms.Size()
	m.Positions, m.Column, m.Columns, m.Codes = counting[:n], 0, t.columns, WeightRows{}
	if gathers {
		b.together(m, all, t)
	} else {
		for i, p := range all.Positions[t.from:t.to] {
			b.term(rows, m.Terms.Row(int64(i), 0), t.columns, p, t.column)
		}
	}
	if all.Factors.P != nil {
		factors := memory.row[:n]
		loadRow(b.x, factors, all.Factors.At(t.from))
		m.Factors = Span{P: unsafe.Pointer(&memory.row), Stride: 4, DType: tensor.F32}
	}
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

// gathers reports whether rows are dequantized together.
func (b *codeBags) gathers(all *EmbeddingSums, t termTile) bool {
	c := &all.Codes
	if t.from == t.to || c.Scale.DType != tensor.F32 || c.Zero.P != nil && c.Zero.DType != tensor.I32 {
		return false
	}
	inOne := t.column%c.GroupSize+t.columns <= c.GroupSize
	return inOne || c.GroupSize%groupUnit == 0 && t.column%c.GroupSize == 0 && t.columns%c.GroupSize == 0
}

// together dequantizes rows by one call: codes and parameters are copied first, to groups of a unit's multiple.
func (b *codeBags) together(m, all *EmbeddingSums, t termTile) {
	c, s, memory, positions := &all.Codes, m.Scratch, &m.Scratch.weights, all.Positions[t.from:t.to]
	size := min(t.columns, c.GroupSize)
	groups, width := t.columns/size, roundUp(t.columns, groupUnit)
	n := int64(len(positions)) * width
	codes := unsafe.Slice((*int8)(unsafe.Pointer(&memory.tile)), n)
	scales := BlockOf[float32](s, scaleBlocks, len(positions)*int(groups))
	zeros := BlockOf[float32](s, zeroBlocks, len(scales))
	clear(zeros)
	for i, p := range positions {
		if i%touchRows == 0 {
			b.touch(all, positions[i:], t.column, t.columns)
		}
		to := codes[int64(i)*width:][:t.columns]
		if c.Weight.DType.Packed() {
			b.packing.Unpack(to, c.Weight.Row(p, 0).P, t.column, 1, c.Weight.DType)
		} else {
			copy(to, unsafe.Slice((*int8)(c.Weight.Row(p, t.column).P), t.columns))
		}
		for g := range groups {
			at, group := int64(i)*groups+g, t.column/c.GroupSize+g
			scales[at] = *(*float32)(c.Scale.Row(p, group).P)
			if c.Zero.P != nil {
				zeros[at] = float32(*(*int32)(c.Zero.Row(p, group).P))
			}
		}
	}
	wide := memory.parts[:n]
	b.bytes((*byte)(unsafe.Pointer(&codes[0])), len(scales), int(roundUp(size, groupUnit)), &scales[0], &zeros[0], &wide[0])
	if b.out == tensor.F32 {
		return
	}
	stored := Span{P: unsafe.Pointer(&memory.parts[2*codeColumns*ChunkSize]), Stride: b.out.Size(), DType: b.out}
	storeRow(b.x, stored, wide)
	if b.terms == b.out {
		m.Terms.P = stored.P
	} else {
		loadRow(b.x, wide, stored)
	}
}

// touch asks for codes of the rows that come next.
func (b *codeBags) touch(all *EmbeddingSums, positions []int64, column, columns int64) {
	w, per := &all.Codes.Weight, int64(1)
	if w.DType.Packed() {
		per = 2
	}
	for _, p := range positions[:min(touchRows, len(positions))] {
		prefetch(w.Row(p, column/per).P, min(ceilDiv(columns, per), touchBytes), all.Scratch)
	}
}
