package cpu

import "unsafe"

// With AVX2 many rows of x, and of weight for them, are packed for Winograd's inner product (internal/gen/linear_winograd.go),
// which takes fewer multiplications. Rows of x are packed once, those of weight by each tile, some depth along K at a time.

const (
	winogradColumns = 16  // of a panel of weight
	winogradDepth   = 512 // of panels, one of which stays in the first cache
	winogradStep    = 8   // codes: what depths are made up to, with zeros,
	winogradRowStep = 16  // and rows of x
	winogradStart   = 32  // bytes: what sums begin with, and nothing
	winogradStrip   = 64  // rows of x that meet a panel at a time
	winogradBytes   = winogradColumns * (4 + 2*winogradDepth)
)

// There is room for a tile's sums, and for panels and what they are made of: a negative number would not compile.
const (
	_ = uint(int(unsafe.Sizeof(Scratch{}.columns[0])) - 4*MostLinearRows*LinearColumns)
	_ = uint(int(unsafe.Sizeof(Scratch{}.columns[1])) - LinearColumns/winogradColumns*winogradBytes - winogradColumns*winogradDepth - streamAlignment)
)

// winogradPacked is Packed: all rows or none.
func winogradPacked(m, n, k int64) (rows, bytes int64) {
	wide := min(n, TileColumns(m, k)) > LinearColumns // scratch has no room for panels of so many columns
	if min(m, n) < leastForWinograd || wide || k == 0 || k > maxInt32Depth {
		return 0, 0
	}
	return m, m * (ceilDiv(k, winogradDepth)*winogradStart + 2*roundUp(k, winogradRowStep))
}

// winogradRow is where row m of x is packed from position k on, a multiple of the depth, and how many bytes lie between
// rows: those of a depth lie side by side.
func (t *LinearTile) winogradRow(m, k int64) (p unsafe.Pointer, apart int64) {
	apart = winogradStart + 2*roundUp(min(winogradDepth, t.K-k), winogradRowStep)
	return unsafe.Add(t.Panels.P, t.Panels.Rows*(k/winogradDepth)*(winogradStart+2*winogradDepth)+m*apart+winogradStart), apart
}

// packWinograd is Pack.
func packWinograd(t *LinearTile) {
	for m := t.M0; m < t.M1; m++ {
		start := int32(0)
		for k := int64(0); k < t.K; k += winogradDepth {
			depth := min(winogradDepth, t.K-k)
			to, _ := t.winogradRow(m, k)
			whole := depth &^ (winogradRowStep - 1)
			start += packWinogradRowAVX2((*int8)(t.X.Row(m, k).P), int(whole/winogradRowStep), (*byte)(to))
			if whole < depth {
				var last [winogradRowStep]int8
				copy(last[:], unsafe.Slice((*int8)(t.X.Row(m, k+whole).P), depth-whole))
				start += packWinogradRowAVX2(&last[0], 1, (*byte)(unsafe.Add(to, 2*whole)))
			}
		}
		to, _ := t.winogradRow(m, 0)
		*(*int32)(unsafe.Add(to, -winogradStart)) = start
	}
}

// linearAVX2 is Run.
func linearAVX2[C Compute](t *LinearTile) {
	if t.Panels.Rows == 0 {
		linearTiles[C](t, &avx2)
		return
	}
	apart := roundUp(t.N1-t.N0, winogradColumns)
	s := newScaledBy[C](t, scaleSumsAVX2, apart)
	sums := unsafe.Slice((*int32)(unsafe.Pointer(&t.Scratch.columns[0])), (t.M1-t.M0)*apart)
	for k := int64(0); k < t.K; k += winogradDepth {
		depth := min(winogradDepth, t.K-k)
		for n := t.N0; n < t.N1; n += winogradColumns {
			t.packWinogradPanel(n, k, depth)
		}
		for m := t.M0; m < t.M1; m += winogradStrip {
			x, xRow := t.winogradRow(m, k)
			rows, acc := min(winogradStrip, t.M1-m), sums[(m-t.M0)*apart:]
			for n := t.N0; n < t.N1; n += winogradColumns {
				dotWinogradAVX2((*byte)(x), int(xRow), int(rows), (*byte)(t.winogradPanel(n)), int(ceilDiv(depth, winogradStep)), &acc[n-t.N0], int(4*apart), int(k))
			}
			if k+depth == t.K {
				s.store(m, rows, acc)
			}
		}
	}
}

// winogradPanels is where panels lie: loads of vectors that lie across lines take longer.
func (s *Scratch) winogradPanels() unsafe.Pointer {
	p := unsafe.Pointer(&s.columns[1])
	return unsafe.Add(p, -uintptr(p)%streamAlignment)
}

// winogradPanel is where the panel lies that begins with row n of weight.
func (t *LinearTile) winogradPanel(n int64) unsafe.Pointer {
	return unsafe.Add(t.Scratch.winogradPanels(), (n-t.N0)/winogradColumns*winogradBytes)
}

// packWinogradPanel packs codes of the panel that begins with row n of weight.
func (t *LinearTile) packWinogradPanel(n, k, depth int64) {
	const size = 4 // codes of a row side by side
	codes := (*[winogradDepth / size][winogradColumns][size]int8)(t.winogradPanel(t.N0 + LinearColumns))
	rows, whole, steps := min(winogradColumns, t.N1-n), depth/size, roundUp(depth, winogradStep)/size
	if rows < winogradColumns {
		clear(codes[:steps])
	}
	transposeCodes[size](unsafe.Pointer(codes), size*winogradColumns, t.Weight.Row(n, k).P, t.Weight.RowStride, rows, whole)
	clear(codes[whole:steps])
	if rest := depth - whole*size; rest > 0 {
		for i := range rows {
			copy(codes[whole][i][:], unsafe.Slice((*int8)(t.Weight.Row(n+i, k+whole*size).P), rest))
		}
	}
	packWinogradPanelAVX2((*byte)(unsafe.Pointer(codes)), int(steps), (*byte)(t.winogradPanel(n)))
}
