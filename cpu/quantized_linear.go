package cpu

import "unsafe"

// LinearTile is a part of a quantized linear layer: rows [M0, M1) of x
// against rows [N0, N1) of weight.
type LinearTile struct {
	X, Weight            Rows // s8 codes, K side by side
	XScale, WScale, Bias Span
	Y                    Rows
	M0, M1, N0, N1, K    int64
	Panels               LinearPanels
	Scratch              *Scratch
}

// LinearPanels are the first Rows of x, packed for kernels; none is 0 rows.
type LinearPanels struct {
	P    unsafe.Pointer
	Rows int64
}

// LinearLayer is a way to compute tiles, by Run. Pack, unless nil, is called for all rows of x first and packs those that
// Panels has room for; Packed returns how many of m rows these are, for a product with n rows of k codes, and their size
// in bytes. Tiles begin with a row that is a multiple of LinearPanel, and have MostLinearRows rows at most.
type LinearLayer struct {
	Run, Pack func(*LinearTile)
	Packed    func(m, n, k int64) (rows, bytes int64)
}

// MostLinearRows is the most rows of x of a tile.
const MostLinearRows = 512

// LinearPanel is the most rows of a panel.
const LinearPanel = 32

// panelRows returns how many rows the next panel has room for where so many are left: 0 if too few for a panel. A panel
// is not full where that is faster than a smaller panel and single rows.
func panelRows(rows int64) int64 {
	switch {
	case rows >= 27:
		return LinearPanel
	case rows >= 13:
		return 16
	case rows >= 7:
		return 8
	}
	return 0
}

// RowsPacked returns how many of m rows are packed for a product with n rows of k codes, and the bytes that their panels take.
func RowsPacked(m, n, k int64) (rows, bytes int64) {
	if k == 0 || k > maxInt32Depth {
		return 0, 0
	}
	if n >= leastForPanel(LinearPanel, k) {
		rows = m / LinearPanel * LinearPanel
	}
	for {
		room := panelRows(m - rows)
		if room == 0 || n < leastForPanel(room, k) {
			return rows, panelAt(rows, k)
		}
		if rows+room >= m {
			return m, panelAt(rows+room, k)
		}
		rows += room
	}
}

// leastForPanel returns the fewest rows of weight that make up for packing a panel of rows of k codes. It was measured;
// tests replace it.
var leastForPanel = func(room, k int64) int64 {
	switch least := 32 + k/16; room {
	case 8:
		return 8 * least
	case 16:
		return 2 * least
	default:
		return least
	}
}

// leastForWinograd is the fewest rows of x, and of weight, for which packing both pays with AVX2. It was measured; tests
// replace it.
var leastForWinograd = int64(32)

// panelAt returns the byte at which the panel begins whose first row has this number.
func panelAt(row, k int64) int64 { return row * (16 + roundUp(k, 16)) }

// maxInt32Depth products of two bytes always sum up within 32 bits.
const maxInt32Depth = 65536

// QuantizedLinear computes y[m,n] = float(acc) * (sx[m] * sw[n]) + bias[n],
// where acc = sum over k of x[m,k] * weight[n,k] is an exact integer.
var QuantizedLinear = append(linearRows, Row[LinearLayer]{"go", Go, func(t Types) (LinearLayer, bool) {
	run, ok := byCompute(quantizedLinearGo[float32], quantizedLinearGo[float64])(t)
	return LinearLayer{Run: run}, ok
}})

// LinearColumns bounds the columns of a tile: their weights stay in cache. Of so few rows that these are met once, a
// tile may have MostLinearColumns, if rows and columns make no more results than LinearPanel rows of LinearColumns.
const (
	LinearColumns     = 64
	MostLinearColumns = Block
)

// TileColumns returns how many columns tiles of m rows of k codes have: more than LinearColumns where these are multiplied
// in so little time that what a tile takes beside that counts.
func TileColumns(m, k int64) int64 {
	columns := int64(LinearColumns)
	for columns < MostLinearColumns && 2*columns*m <= LinearPanel*LinearColumns && columns*k < linearTileBytes {
		columns *= 2
	}
	return columns
}

// linearTileBytes are codes of weight that are read in some microseconds. It was measured.
const linearTileBytes = 1 << 18

const linearPanelColumns = 8 // what kernels take multiples of

func quantizedLinearGo[C Compute](t *LinearTile) {
	acc := t.Scratch.Ints(0, int(t.N1-t.N0))
	scaled := newScaled[C](t)
	for m := t.M0; m < t.M1; m++ {
		for i := range acc {
			acc[i] = dot(t.X.Row(m, 0), t.Weight.Row(t.N0+int64(i), 0), t.K)
		}
		storeScaled(scaled, m, acc)
	}
}

// scaled turns integer sums into outputs: y = float(acc) * (sx * sw) + bias.
type scaled[C Compute] struct {
	*LinearTile
	sx, sw, bias, y []C
}

func newScaled[C Compute](t *LinearTile) scaled[C] {
	s := scaled[C]{LinearTile: t}
	width := int(t.N1 - t.N0)
	s.sx, s.sw = BlockOf[C](t.Scratch, 0, 1), BlockOf[C](t.Scratch, 1, width)
	s.bias, s.y = BlockOf[C](t.Scratch, 2, width), BlockOf[C](t.Scratch, 3, width)
	Load(s.sw, t.WScale.At(t.N0))
	Load(s.bias, t.Bias.At(t.N0))
	return s
}

// storeScaled writes the outputs of row m.
func storeScaled[C Compute](s scaled[C], m int64, acc []int64) {
	Load(s.sx, s.XScale.At(m))
	scaleSums(s, s.sx[0], s.y, 0, acc)
	Store(s.Y.Row(m, s.N0), s.y[:len(acc)])
}

// scaleSums makes y of sums, from column first on.
func scaleSums[C Compute, I int32 | int64](s scaled[C], sx C, y []C, first int, acc []I) {
	for i := first; i < len(acc); i++ {
		y[i] = fromInt[C](int64(acc[i])) * C(sx*s.sw[i])
	}
	if s.Bias.P != nil {
		for i := first; i < len(acc); i++ {
			y[i] += s.bias[i]
		}
	}
}

// dot returns the exact sum of products of n signed bytes.
func dot(a, b Span, n int64) (sum int64) {
	for at := int64(0); at < n; at += maxInt32Depth {
		m := min(maxInt32Depth, n-at)
		sum += int64(dot32(a.At(at), b.At(at), m))
	}
	return sum
}

func dot32(a, b Span, n int64) (sum int32) {
	x, y := unsafe.Slice((*int8)(a.P), n), unsafe.Slice((*int8)(b.P), n)
	for i, v := range x {
		sum += int32(v) * int32(y[i])
	}
	return sum
}
