package cpu

import (
	"unsafe"

	"github.com/isobit-ml/isobit/tensor"
)

// WeightOnlyLinear in f64: a few rows of weight are dequantized, as many positions as near caches hold, and meet
// all rows of x of a tile. Sums wait for the next positions where there are more.

type doubleGroups = func(q *byte, groups, size int, scale, zero, w *float64)

// doubleKernel has the kernels of an instruction set.
type doubleKernel struct {
	dequantize map[tensor.DType]doubleGroups
	tiles      func(x *float64, xRow, rows int, w *float64, wRow, columns, steps int, lanes *float64, laneRow, more, folding int, sums *float64, sumsRow int)
}

const (
	doubleTileRows = 72  // of x
	doubleColumns  = 4   // rows of weight at a time
	doubleTogether = 2   // of which kernels take multiples
	doubleDepth    = 512 // positions at a time
	doubleSlack    = 8   // elements that keep rows from meeting in a cache
)

// doubleScratch is a tile's memory.
type doubleScratch struct {
	lanes         [doubleTileRows][doubleColumns][Lanes]float64
	sums          [doubleTileRows][doubleColumns]float64
	w             [doubleColumns*(doubleDepth+doubleSlack) + doubleSlack]float64
	scales, zeros [doubleDepth + 1]float64
}

// packedDoubles is the distance of rows of x of so many positions.
func packedDoubles(k int64) int64 { return roundUp(k, Lanes) + doubleSlack }

// doubleRow is a row for some codes.
type doubleRow struct {
	*doubleKernel
	packing    Packing
	dequantize doubleGroups
	unsigned   bool
}

// doubles returns the layer by an instruction set's kernels of f64, if it has any.
func (k *weightKernel) doubles(codes tensor.DType) (WeightLayer, bool) {
	if k.doubled == nil {
		return WeightLayer{}, false
	}
	r := &doubleRow{doubleKernel: k.doubled, dequantize: k.doubled.dequantize[byteCodes(codes)], unsigned: codes == tensor.U8}
	r.packing, _ = PickUpTo(PackingRows, k.needs, Types{})
	return WeightLayer{
		Run: r.run, Rows: doubleTileRows, Pack: packDoubles,
		Packed: func(m, k int64) int64 { return m * packedDoubles(k) * 8 },
	}, true
}

// packDoubles copies rows of x, and fills the last stripe of each up with zeros.
func packDoubles(t *WeightTile) {
	if !t.forKernels() {
		return
	}
	width := packedDoubles(t.K)
	for m := t.M0; m < t.M1; m++ {
		row := unsafe.Slice((*float64)(unsafe.Add(t.Packed, m*width*8)), width)
		Load(row[:t.K], t.X.Row(m, 0))
		clear(row[t.K:])
	}
}

func (r *doubleRow) run(t *WeightTile) {
	if !t.forKernels() {
		define[float64](t)
		return
	}
	s, row := &t.Scratch.doubles, packedDoubles(t.K)*8
	w := s.w[misaligned(unsafe.Pointer(&s.w), tensor.F64):]
	x := unsafe.Add(t.Packed, t.M0*row)
	for n := t.N0; n < t.N1; n += doubleColumns {
		count := min(doubleColumns, t.N1-n)
		for k := int64(0); k < t.K; k += doubleDepth {
			size, folding := min(doubleDepth, t.K-k), 0
			if k+size == t.K {
				folding = 1
			}
			for i := range count {
				r.weights(t, w[i*(doubleDepth+doubleSlack):][:roundUp(size, Lanes)], n+i, k, size)
			}
			r.tiles((*float64)(unsafe.Add(x, k*8)), int(row), int(t.M1-t.M0), &w[0], 8*(doubleDepth+doubleSlack),
				int(roundUp(count, doubleTogether)), stripes(int(size)), &s.lanes[0][0][0], int(unsafe.Sizeof(s.lanes[0])), int(k), folding,
				&s.sums[0][0], int(unsafe.Sizeof(s.sums[0])))
		}
		bias := BlockOf[float64](t.Scratch, 0, int(count))
		Load(bias, t.Bias.At(n))
		for m := t.M0; m < t.M1; m++ {
			y := s.sums[m-t.M0][:count]
			if t.Bias.P != nil {
				for i, b := range bias {
					y[i] += b
				}
			}
			Store(t.Y.Row(m, n), y)
		}
	}
}

// weights fills w with so many weights of row n from position k on, and with zeros.
func (r *doubleRow) weights(t *WeightTile, w []float64, n, k, size int64) {
	s, first := &t.Scratch.doubles, k/t.GroupSize
	count := (k+size-1)/t.GroupSize - first + 1
	scales, zeros := s.scales[:count], s.zeros[:count]
	loadParams(scales, t.Scale.Row(n, first), areScales, 0, 0)
	if t.Zero.P == nil {
		clear(zeros)
	} else {
		lo, hi := t.Weight.DType.WholeRange()
		loadParams(zeros, t.Zero.Row(n, first), areZeroPoints, float64(lo), float64(hi))
	}
	codes := codeRun[float64]{t.codeBytes(r.packing, n, k, size), r.unsigned, t.GroupSize, k, scales, zeros}
	codes.weights(w[:size], r.dequantize)
	clear(w[size:])
}
