package plans

import (
	"unsafe"

	"github.com/isobit-ml/isobit/cpu"
	"github.com/isobit-ml/isobit/tensor"
)

// Indices are read as a list of 64 bits, wherever they lie and whichever type they have.

// isList reports whether indices are contiguous and of 64 bits, so that they can be
// used as a slice.
func isList(v *tensor.View) bool { return v.DType == tensor.I64 && v.IsContiguous() }

// readIndices fills list with the indices from a row-major position on.
func readIndices(list []int64, v *tensor.View, from int64) {
	switch {
	case !v.IsContiguous() && v.DType == tensor.I32:
		readApart[int32](list, v, from)
	case !v.IsContiguous():
		readApart[int64](list, v, from)
	case v.DType == tensor.I32:
		readWider(list, tensor.Slice[int32](*v)[from:])
	default:
		copy(list, tensor.Slice[int64](*v)[from:])
	}
}

// readWider is readIndices of a list of 32 bits.
func readWider(list []int64, from []int32) {
	for i, r := range from[:len(list)] {
		list[i] = int64(r)
	}
}

// readApart is readIndices of those that lie apart: as many at a time as a row has, which is along the
// innermost dimension of more than one.
func readApart[T int32 | int64](list []int64, v *tensor.View, from int64) {
	inner := len(v.Shape) - 1
	for inner > 0 && v.Shape[inner] == 1 {
		inner--
	}
	row, size := v.Shape[inner], v.DType.Size()
	step := v.Stride(inner) * size
	for len(list) > 0 {
		first, n := unsafe.Add(v.Data, elementOffset(v, from)*size), min(int64(len(list)), row-from%row)
		for i := range list[:n] {
			list[i] = int64(*(*T)(unsafe.Add(first, int64(i)*step)))
		}
		list, from = list[n:], from+n
	}
}

// readManyIndices is readIndices by a kernel: for lists that are not on a stack.
func readManyIndices(list []int64, v *tensor.View, from int64) {
	if v.DType == tensor.I32 && v.IsContiguous() {
		pickSupport(cpu.Widen, cpu.Types{})(list, tensor.Slice[int32](*v)[from:])
		return
	}
	readIndices(list, v, from)
}

// firstOutside returns the position of the first index that names none of the rows, or -1.
func firstOutside(indices *tensor.View, rows int64) int64 {
	var list [cpu.Block]int64
	for at, n := int64(0), indices.NumElements(); at < n; at += cpu.Block {
		part := list[:min(cpu.Block, n-at)]
		readIndices(part, indices, at)
		for i, row := range part {
			if uint64(row) >= uint64(rows) {
				return at + int64(i)
			}
		}
	}
	return -1
}

// indexAt returns the index at a row-major position.
func indexAt(v *tensor.View, i int64) int64 {
	if !v.IsContiguous() {
		i = elementOffset(v, i)
	}
	if v.DType == tensor.I32 {
		return int64(*(*int32)(unsafe.Add(v.Data, i*4)))
	}
	return *(*int64)(unsafe.Add(v.Data, i*8))
}
