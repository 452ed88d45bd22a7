package cpu

import "unsafe"

// With AVX2, which multiplies 16-bit numbers, codes less their zero points are packed. A panel has 16 columns.

var groupAVX2 = groupKernel{
	sums: [4]groupProducts{groupSums1AVX2, groupSums2AVX2, groupSums3AVX2, groupSums4AVX2},
	step: 2, code: 2, panel: groupRows, packX: widenGroupX, packW: widenGroupW,
}

// widenGroupX packs pieces of so many codes of row m of x from position k on.
func widenGroupX(g *groupRun, m, k, codes, pieces int64, to, _ unsafe.Pointer) {
	const step = 16 // of the kernel
	flip, zero := g.flippedX(m, true)
	room := unsafe.Slice((*int16)(to), pieces*g.size)
	if pieces > 1 {
		codes *= pieces // which follow one another
	}
	whole := codes &^ (step - 1)
	if whole > 0 {
		widenGroupRowAVX2((*byte)(g.X.Row(m, k).P), int(whole), flip, zero, &room[0])
	}
	if rest := codes - whole; rest > 0 {
		var last [step]byte
		var widened [step]int16
		copy(last[:], unsafe.Slice((*byte)(g.X.Row(m, k+whole).P), rest))
		widenGroupRowAVX2(&last[0], step, flip, zero, &widened[0])
		copy(room[whole:], widened[:rest])
	}
	clear(room[codes:])
}

// widenGroupW packs weight.
func widenGroupW(g *groupRun, c groupChunk) {
	flip, offset := g.flipped()
	lo, hi := g.Weight.DType.WholeRange()
	pairs := unsafe.Pointer(&g.memory.pairs) // of codes, side by side for the columns
	for n := g.N0; n < g.N1; n += groupRows {
		steps := g.spread(&c, n, flip) / g.step
		transposeBySize[2](pairs, 2*groupRows, unsafe.Pointer(&g.memory.rows), groupRowRoom, groupRows, steps)
		widenGroupPanelAVX2((*byte)(pairs), int(c.pieces*g.size/g.step), int(c.groups), flip, g.zeros(c.group, n-g.N0), float32(lo), float32(hi), offset,
			&g.memory.codes[(n-g.N0)*groupDepth*g.code])
	}
}
