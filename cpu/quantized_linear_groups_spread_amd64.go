package cpu

import (
	"unsafe"

	"github.com/isobit-ml/isobit/tensor"
)

// fill makes bytes codes that count for nothing.
func (g *groupRun) fill(bytes []byte, flip uint32) {
	for i := range bytes {
		bytes[i] = byte(flip)
	}
}

// spread copies a chunk of up to 16 rows of weight from n on as bytes, each group made up to whole pieces, and returns how
// many a row has; more that count for nothing follow.
func (g *groupRun) spread(c *groupChunk, n int64, flip uint32) (bytes int64) {
	padded := c.pieces * g.size
	bytes = c.groups * padded
	for i := range g.memory.rows {
		row := g.memory.rows[i][:roundUp(bytes, streamAlignment)]
		if n+int64(i) >= g.N1 {
			g.fill(row, flip)
			continue
		}
		if g.whole() {
			k, _ := g.codes(c, c.group)
			last, codes := g.codes(c, c.group+c.groups-1)
			codes += last - k
			g.copyCodes(row[:codes], n+int64(i), k)
			g.fill(row[codes:], flip)
			continue
		}
		g.fill(row, flip)
		for group := range c.groups {
			k, codes := g.codes(c, c.group+group)
			g.copyCodes(row[group*padded:][:codes], n+int64(i), k)
		}
	}
	return bytes
}

// copyCodes copies codes of row n of weight from position k on, as bytes.
func (g *groupRun) copyCodes(to []byte, n, k int64) {
	if d := g.Weight.DType; len(to) > 0 && d.Packed() {
		unpackByKernel(unsafe.Slice((*int8)(unsafe.Pointer(&to[0])), len(to)), g.Weight.Row(n, 0).P, k, 1, d)
	} else if len(to) > 0 {
		copy(to, unsafe.Slice((*byte)(g.Weight.Row(n, k).P), len(to)))
	}
}

// flipped returns the bits that are flipped of codes of weight that are packed, and what that adds to them.
func (g *groupRun) flipped() (flip uint32, offset float32) {
	switch {
	case g.Weight.DType == tensor.U8:
		return 0x80808080, -128
	case g.Weight.DType == tensor.S4 && g.halved:
		return 0x88888888, 8
	}
	return 0, 0
}

// flippedX returns the bits that are flipped of codes of x, so that they are signed or unsigned, and the zero point of a row.
func (g *groupRun) flippedX(m int64, signed bool) (flip uint32, zero int) {
	of := BlockOf[float32](g.Scratch, 2, 1)
	loadZeroPoints(of, g.XZero.At(m), g.X.DType)
	switch zero = int(of[0]); {
	case signed && g.X.DType == tensor.U8:
		return 0x80808080, zero - 128
	case !signed && g.X.DType == tensor.S8:
		return 0x80808080, zero + 128
	}
	return 0, zero
}

// zeros returns the zero points of a group from a column on, or nil.
func (g *groupRun) zeros(group, n int64) *float32 {
	if g.Zero.P == nil {
		return nil
	}
	return &g.memory.zeros[group-g.first][n]
}
