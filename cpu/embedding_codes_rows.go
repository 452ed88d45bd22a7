package cpu

import (
	"unsafe"

	"github.com/isobit-ml/isobit/tensor"
)

// How rows of codes become rows of floats, in bags that no kernel takes as codes.

// dequantize puts some columns of the rows at some positions in the place of terms.
func (b *codeBags) dequantize(m, all *EmbeddingSums, rows *weightRun, from, to, column, columns int64) {
	memory, n := &m.Scratch.weights, to-from
	m.Terms = Matrix{Span: Span{P: unsafe.Pointer(&memory.parts), Stride: b.terms.Size(), DType: b.terms}, Dims: 1}
	m.Terms.Size[0], m.Terms.Strides[0] = n, columns*b.terms.Size()
	m.Positions, m.Column, m.Columns, m.Codes = counting[:n], 0, columns, WeightRows{}
	first := all.Column + column
	if b.gathers(all, first, columns, n) {
		b.together(m, all, all.Positions[from:to], first, columns)
	} else {
		for i, p := range all.Positions[from:to] {
			b.term(rows, m.Terms.Row(int64(i), 0), columns, p, first)
		}
	}
	if all.Factors.P != nil {
		factors := memory.row[:n]
		loadRow(b.x, factors, all.Factors.At(from))
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
func (b *codeBags) gathers(all *EmbeddingSums, column, columns, n int64) bool {
	c := &all.Codes
	if n == 0 || columns%groupUnit != 0 || c.Scale.DType != tensor.F32 || c.Zero.P != nil && c.Zero.DType != tensor.I32 {
		return false
	}
	inOne := column%c.GroupSize+columns <= c.GroupSize
	return inOne || c.GroupSize%groupUnit == 0 && column%c.GroupSize == 0 && columns%c.GroupSize == 0
}

// together dequantizes rows by one call: codes and parameters are copied first.
func (b *codeBags) together(m, all *EmbeddingSums, positions []int64, column, columns int64) {
	c, s, memory, n := &all.Codes, m.Scratch, &m.Scratch.weights, int64(len(positions))*columns
	size := min(columns, c.GroupSize)
	groups := columns / size
	codes := unsafe.Slice((*int8)(unsafe.Pointer(&memory.tile)), n)
	scales := BlockOf[float32](s, scaleBlocks, len(positions)*int(groups))
	zeros := BlockOf[float32](s, zeroBlocks, len(scales))
	clear(zeros)
	for i, p := range positions {
		if i%touchRows == 0 {
			b.touch(all, positions[i:], column, columns)
		}
		to := codes[int64(i)*columns:][:columns]
		if c.Weight.DType.Packed() {
			b.packing.Unpack(to, c.Weight.Row(p, 0).P, column, 1, c.Weight.DType)
		} else {
			copy(to, unsafe.Slice((*int8)(c.Weight.Row(p, column).P), columns))
		}
		for g := range groups {
			at, group := int64(i)*groups+g, column/c.GroupSize+g
			scales[at] = *(*float32)(c.Scale.Row(p, group).P)
			if c.Zero.P != nil {
				zeros[at] = float32(*(*int32)(c.Zero.Row(p, group).P))
			}
		}
	}
	wide := memory.parts[:n]
	b.bytes((*byte)(unsafe.Pointer(&codes[0])), len(scales), int(size), &scales[0], &zeros[0], &wide[0])
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
