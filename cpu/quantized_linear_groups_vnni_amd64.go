package cpu

import "unsafe"

// With VNNI, which multiplies unsigned bytes with signed ones, codes of x are shifted by 128 where they are signed, and codes
// of weight where they are not, as zero points are. A panel has 64 columns.

var groupVNNI = groupKernel{
	sums: [4]groupProducts{groupSums1VNNI, groupSums2VNNI, groupSums3VNNI, groupSums4VNNI},
	step: 4, code: 1, panel: LinearColumns, pairs: true, packX: packGroupX, packW: packGroupW, few: multiplyFewVNNI,
}

// The orders in which codes of x are packed.
var (
	groupOrder       = [16]byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}
	groupHalvedOrder = [16]byte{0, 2, 4, 6, 1, 3, 5, 7, 8, 10, 12, 14, 9, 11, 13, 15}
)

// packGroupX packs pieces of so many codes of row m of x from position k on.
func packGroupX(g *groupRun, m, k, codes, pieces int64, to, pairs unsafe.Pointer) {
	const all = ^uint64(0)
	firstOf := func(n int64) [2]uint64 {
		if n < 64 {
			return [2]uint64{1<<n - 1}
		}
		return [2]uint64{all, 1<<(n-64) - 1}
	}
	real, room := firstOf(codes), firstOf(g.size)
	masks := [4]uint64{real[0], real[1], room[0], room[1]}
	order := &groupOrder
	if g.halved {
		order = &groupHalvedOrder
	}
	flip, zero := g.flippedX(m, false)
	packGroupRowAVX512((*byte)(g.X.Row(m, k).P), int(codes), int(pieces), int(g.size), &masks, flip, zero, order, (*byte)(to), (*int32)(pairs))
}

// packGroupW packs weight, and makes its pairs.
func packGroupW(g *groupRun, c groupChunk) {
	flip, offset := g.flipped()
	for n := g.N0; n < g.N1; n += groupRows {
		to := unsafe.Pointer(&g.memory.codes[4*(n-g.N0)])
		if g.halved || g.whole() && !g.Weight.DType.Packed() {
			g.packWhole(&c, n, flip, to)
		} else {
			g.packSpread(&c, n, flip, to)
		}
	}
	lo, hi := g.Weight.DType.WholeRange()
	zeros := g.zeros(c.group, 0)
	groupPairsVNNI(&g.memory.codes[0], int(g.size/g.step), int(c.pieces), int(c.groups), zeros, float32(lo), float32(hi), offset, (*byte)(unsafe.Pointer(&g.memory.pairs)))
}

// groupFewFunctions are the kernels for 1 to 4 rows of x, of codes that are bytes and of those that are halves.
var groupFewFunctions = map[bool][groupFewRows]groupFew{
	false: {groupFew1BytesVNNI, groupFew2BytesVNNI, groupFew3BytesVNNI, groupFew4BytesVNNI},
	true:  {groupFew1HalvesVNNI, groupFew2HalvesVNNI, groupFew3HalvesVNNI, groupFew4HalvesVNNI},
}

type groupFew func(from *byte, stride, blocks int, last uint32, ahead int, flip uint32, x *byte, xStride int, xPairs *byte, zero *float32, lo, hi, offset float32,
	scale *float32, parts, pieces, groups int, xScale, y *float32)

// multiplyFewVNNI is few. What it asks for in advance are the next columns.
func multiplyFewVNNI(g *groupRun, n int64, xScale []float32) {
	flip, offset := g.flipped()
	lo, hi := g.Weight.DType.WholeRange()
	m, stride, k, bytes := g.memory, g.Weight.RowStride, g.first*g.group, (g.loaded-g.first)*g.group
	x, pairs := g.packedX(0, g.M0)
	x, pairs = unsafe.Add(x, k), unsafe.Add(pairs, 4*g.first*g.pieces)
	if g.halved {
		k, bytes = k/2, bytes/2
	}
	last := uint32(2)<<((bytes-1)%streamAlignment/4) - 1
	groupFewFunctions[g.halved][g.M1-g.M0-1]((*byte)(unsafe.Add(g.Weight.Row(g.N0+n, 0).P, k)), int(stride), int(ceilDiv(bytes, streamAlignment)), last, int(groupRows*stride), flip,
		(*byte)(x), int(g.row()), (*byte)(pairs), g.zeros(g.first, n), float32(lo), float32(hi), offset,
		&m.scales[0][n], int(g.size/groupPart), int(g.pieces), int(g.loaded-g.first), &xScale[0], &m.y[0][n])
}

// packBlocks packs blocks of 64 bytes of 16 rows.
func (g *groupRun) packBlocks(from unsafe.Pointer, apart, blocks, ahead int64, flip uint32, to unsafe.Pointer) {
	pack := packGroupBytesAVX512
	if g.halved {
		pack = packGroupHalvesAVX512
	}
	pack((*byte)(from), int(apart), int(blocks), int(ahead), flip, (*byte)(to))
}

// packWhole packs a chunk of up to 16 rows of weight from n on, whose codes follow one another.
func (g *groupRun) packWhole(c *groupChunk, n int64, flip uint32, to unsafe.Pointer) {
	k, _ := g.codes(c, c.group)
	last, codes := g.codes(c, c.group+c.groups-1)
	codes += last - k
	each := int64(1) // codes of a byte
	if g.halved {
		each = 2
	}
	from, done := unsafe.Add(g.Weight.Row(n, 0).P, k/each), int64(0)
	if g.N1-n >= groupRows {
		if blocks := codes / each / streamAlignment; blocks > 0 {
			done = blocks * streamAlignment
			g.packBlocks(from, g.Weight.RowStride, blocks, done, flip, to)
		}
	}
	size := ceilDiv(c.groups*c.pieces*g.size, each*streamAlignment) * streamAlignment
	if done == size {
		return
	}
	rows, bytes := &g.memory.rows, ceilDiv(codes, each)
	for i := range rows {
		row := rows[i][:size-done]
		g.fill(row, flip)
		if n+int64(i) < g.N1 && bytes > done {
			copy(row, unsafe.Slice((*byte)(unsafe.Add(from, int64(i)*g.Weight.RowStride+done)), bytes-done))
			if codes%each != 0 {
				row[bytes-done-1] = row[bytes-done-1]&0xf | byte(flip)&0xf0
			}
		}
	}
	g.packBlocks(unsafe.Pointer(rows), groupRowRoom, (size-done)/streamAlignment, 0, flip, unsafe.Add(to, done*each*LinearColumns))
}

// packSpread packs a chunk of up to 16 rows of weight from n on as bytes.
func (g *groupRun) packSpread(c *groupChunk, n int64, flip uint32, to unsafe.Pointer) {
	blocks := ceilDiv(g.spread(c, n, flip), streamAlignment)
	g.packBlocks(unsafe.Pointer(&g.memory.rows), groupRowRoom, blocks, 0, flip, to)
}
