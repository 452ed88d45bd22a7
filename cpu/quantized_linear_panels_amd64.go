package cpu

import "unsafe"

// Many rows of x lie in panels: two vectors of what sums start with, then, as often as K needs, two of 4, 8 or 16 codes
// of each row.

var panelKernels = map[int64]func(x *int8, k int, w *int8, wStride, columns, ahead int, acc *int32, accStride int){
	8: dotPanel8VNNI, 16: dotPanel16VNNI, 32: dotPanel32VNNI,
}

// panel is where the panel lies that begins with row m.
func (t *LinearTile) panel(m int64) unsafe.Pointer { return unsafe.Add(t.Panels.P, panelAt(m, t.K)) }

// packPanels is Pack.
func packPanels(t *LinearTile) {
	for m, end := t.M0, min(t.M1, t.Panels.Rows); m < end; {
		room := panelRows(t.Panels.Rows - m)
		t.packPanel(m, min(room, end-m), room)
		m += room
	}
}

// packPanel packs some rows from row m on in a panel with room for so many.
func (t *LinearTile) packPanel(m, rows, room int64) {
	start := (*[LinearPanel]int32)(t.panel(m))
	clear(start[:])
	for i := range rows {
		start[i*LinearPanel/room] = -correctionVNNI((*int8)(t.X.Row(m+i, 0).P), int(t.K))
	}
	codes, size := unsafe.Add(unsafe.Pointer(start), unsafe.Sizeof(*start)), 4*LinearPanel/room // size: codes of a row side by side
	whole := t.K &^ (size - 1)
	transposeCodes[size](codes, 4*LinearPanel, t.X.Row(m, 0).P, t.X.RowStride, rows, whole/size)
	if whole == t.K {
		return
	}
	last := (*[4 * LinearPanel]int8)(unsafe.Add(codes, whole/size*4*LinearPanel))
	clear(last[:])
	for i := range rows {
		copy(last[size*i:], unsafe.Slice((*int8)(t.X.Row(m+i, whole).P), t.K-whole))
	}
}

// transposeCodes transposes matrices whose elements are so many codes.
var transposeCodes = [...]Transpose{4: transposeBySize[4], 8: transposeBySize[8], 16: transpose[[16]int8]}

// packed computes the sums of the panel that begins with row m, and returns how many rows it has.
func (s *linearSums) packed(m int64) (rows int64) {
	room := panelRows(s.t.Panels.Rows - m)
	rows = min(room, s.t.Panels.Rows-m)
	most := max(linearPanelColumns, linearProducts/(room*s.t.K)&^(linearPanelColumns-1))
	for j := int64(0); j < s.columns; {
		column, columns := wholeOrLast(j, s.columns, linearPanelColumns)
		columns = min(columns, most)
		panelKernels[room]((*int8)(s.t.panel(m)), int(s.t.K), (*int8)(s.t.Weight.Row(s.t.N0+column, 0).P), int(s.t.Weight.RowStride), int(columns),
			s.ahead(linearPanelColumns), &s.acc[column], int(4*s.columns))
		j = column + columns
	}
	return rows
}
