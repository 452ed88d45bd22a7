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
}

// weightRows makes the rows before the definition. They take x in f32.
func weightRows() (table []Row[func(*WeightTile)]) {
	for i := range weightKernels {
		k := &weightKernels[i]
		table = append(table, Row[func(*WeightTile)]{k.needs.String(), k.needs, func(t Types) (func(*WeightTile), bool) {
			codes := t.In[1]
			if codes.Packed() {
				codes = tensor.S8
			}
			dequantize, ok := PickUpTo(Dequantize, k.needs, Types{Compute: tensor.F32,
				In: [4]tensor.DType{codes, tensor.F32, tensor.F32}, Out: [3]tensor.DType{tensor.F32}})
			expand, _ := PickUpTo(ExpandRows, k.needs, Types{Compute: tensor.F32})
			packing, _ := PickUpTo(PackingRows, k.needs, Types{})
			fold, _ := PickUpTo(FoldRows32, k.needs, Types{})
			r := &weightRow{k, dequantize, expand, packing, fold}
			return r.run, ok && t.Compute == tensor.F32 && t.In[0] == tensor.F32
		}})
	}
	return table
}

type weightRow struct {
	*weightKernel
	dequantize Elementwise
	expand     Expand
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
	if t.Zero.P != nil && t.Zero.DType.IsFloat() {
		for at := 0; at < len(w); at += Block { // the definition rounds learned zero points
			loadWeights(t, w[at:min(at+Block, len(w))], n, k+int64(at))
		}
		return
	}
	s, codes := t.Scratch, Span{}
	if d := t.Weight.DType; !d.Packed() {
		codes = t.Weight.Row(n, k)
	} else {
		bytes := unsafe.Slice((*int8)(unsafe.Pointer(&s.unused)), len(w))
		r.packing.Unpack(bytes, t.Weight.Row(n, 0).P, k, 1, d)
		codes = Span{unsafe.Pointer(&bytes[0]), 1, tensor.S8} // up to 15, also of u4
	}
	a := &t.args
	a.Scratch, a.Ready = s, true
	for at := 0; at < len(w); {
		group := (k + int64(at)) / t.GroupSize
		size, before, count := t.GroupSize, (k+int64(at))%t.GroupSize, int64(1)
		if size > TileRun { // one group at a time, which has one parameter
			size, before = min(size-before, int64(len(w)-at)), 0
		} else {
			count = (int64(len(w)-at) + before + size - 1) / size
		}
		m := min(len(w)-at, int(count*size-before))
		a.In[0], a.Out[0] = codes.At(int64(at)), Span{unsafe.Pointer(&w[at]), 4, tensor.F32}
		for number, p := range []Rows{t.Scale, t.Zero} {
			each := count > 1 && p.P != nil
			if each {
				s.Tile.Add(a, number, p.Row(n, group), -int(before), int(count), int(size), tensor.F32, r.expand)
			} else {
				s.Tile.Add(a, number, p.Row(n, group), 0, 1, 1, tensor.F32, r.expand)
			}
			a.In[1+number] = s.Tile.Span(number, each, tensor.F32)
		}
		r.dequantize(m, a)
		at += m
	}
}
