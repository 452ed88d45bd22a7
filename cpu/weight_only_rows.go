package cpu

import (
	"unsafe"

	"github.com/isobit-ml/isobit/tensor"
)

// What stands between WeightOnlyLinear and the generated products: weights are
// dequantized a tile at a time, once for all rows of x.

// weightKernel has the parts of an instruction set.
type weightKernel struct {
	needs    ISA
	products func(x *float32, xRow, rows int, w *float32, n int, lanes *float32, lanesRow int)
	s8, u8   func(q *byte, groups, size int, scale, zero, w *float32)
}

// weightRows makes the rows before the definition. They take x in f32.
func weightRows() (table []Row[func(*WeightTile)]) {
	for i := range weightKernels {
		k := &weightKernels[i]
		table = append(table, Row[func(*WeightTile)]{k.needs.String(), k.needs, func(t Types) (func(*WeightTile), bool) {
			packing, _ := PickUpTo(PackingRows, k.needs, Types{})
			fold, _ := PickUpTo(FoldRows32, k.needs, Types{})
			r := &weightRow{k, k.s8, packing, fold}
			if t.In[1] == tensor.U8 {
				r.dequantize = k.u8
			}
			return r.run, t.Compute == tensor.F32 && t.In[0] == tensor.F32
		}})
	}
	return table
}

type weightRow struct {
	*weightKernel
	dequantize func(q *byte, groups, size int, scale, zero, w *float32)
	packing    Packing
	fold       Fold[float32]
}

func (r *weightRow) run(t *WeightTile) {
	if !t.X.Contiguous() || !(t.Weight.DType.Packed() || t.Weight.Contiguous()) {
		weightOnlyLinearGo[float32](t)
		return
	}
	weightOnlyLinear(t, r.sumBlock, r.fold)
}

// sumBlock is the definition's, by kernels.
func (r *weightRow) sumBlock(t *WeightTile, n, begin, end int64) {
	s := t.Scratch
	rows := int(t.M1 - t.M0)
	for i := range rows {
		clear(LanesOf[float32](s, i)[:])
	}
	for k := begin; k < end; k += TileSize {
		size := min(TileSize, end-k)
		w := unsafe.Slice((*float32)(unsafe.Pointer(&s.params[0])), size)
		r.weights(t, w, n, k)
		whole := size - size%Lanes
		if whole > 0 {
			r.products((*float32)(t.X.Row(t.M0, k).P), int(t.X.RowStride), rows, &w[0], int(whole),
				&LanesOf[float32](s, 0)[0], int(unsafe.Sizeof(s.lanes[0])))
		}
		for i := range rows {
			x := unsafe.Slice((*float32)(t.X.Row(t.M0+int64(i), k).P), size)
			for l, v := range x[whole:] {
				LanesOf[float32](s, i)[l] += float32(v * w[whole:][l])
			}
		}
	}
}

// weights fills w with the weights of row n from position k on.
func (r *weightRow) weights(t *WeightTile, w []float32, n, k int64) {
	s, q := t.Scratch, unsafe.Pointer(nil)
	if d := t.Weight.DType; !d.Packed() {
		q = t.Weight.Row(n, k).P
	} else {
		bytes := unsafe.Slice((*int8)(unsafe.Pointer(&s.unused)), len(w))
		r.packing.Unpack(bytes, t.Weight.Row(n, 0).P, k, 1, d)
		q = unsafe.Pointer(&bytes[0]) // up to 15, also of u4
	}
	scales, zeros := t.group(n, k, int64(len(w)))
	for at, group := 0, 0; at < len(w); {
		left := len(w) - at
		size := min(int(t.GroupSize-(k+int64(at))%t.GroupSize), left)
		groups, kernels := 1, size&^(groupUnit-1)
		if size == kernels && int64(size) == t.GroupSize {
			groups = left / size
		}
		if kernels > 0 {
			r.dequantize((*byte)(unsafe.Add(q, at)), groups, kernels, &scales[group], &zeros[group], &w[at])
		}
		for i := kernels; i < size; i++ {
			code := float32(*(*int8)(unsafe.Add(q, at+i)))
			if t.Weight.DType == tensor.U8 {
				code = float32(*(*uint8)(unsafe.Add(q, at+i)))
			}
			w[at+i] = (code - zeros[group]) * scales[group]
		}
		at, group = at+groups*size, group+groups
	}
}

// groupUnit is of how many elements kernels take multiples.
const groupUnit = 16

// Scratch blocks of a tile's scales and zero points: groups may be single elements.
const (
	scaleBlocks = 10
	zeroBlocks  = scaleBlocks + TileSize*4/(Block*8) + 1
)

// group loads the scales and zero points of n elements of a row from position k on.
func (t *WeightTile) group(row, k, n int64) (scales, zeros []float32) {
	first := k / t.GroupSize
	count := int((k+n-1)/t.GroupSize - first + 1)
	scales, zeros = BlockOf[float32](t.Scratch, scaleBlocks, count), BlockOf[float32](t.Scratch, zeroBlocks, count)
	Load(scales, t.Scale.Row(row, first))
	if t.Zero.P == nil {
		clear(zeros)
		return scales, zeros
	}
	Load(zeros, t.Zero.Row(row, first))
	if t.Zero.DType.IsFloat() {
		lo, hi := t.Weight.DType.WholeRange()
		for i, z := range zeros {
			zeros[i] = roundZeroPoint(z, float32(lo), float32(hi))
		}
	}
	return scales, zeros
}
