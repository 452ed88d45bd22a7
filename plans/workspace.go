package plans

import (
	"unsafe"

	"github.com/isobit-ml/isobit/cpu"
	"github.com/isobit-ml/isobit/tensor"
)

// valuesIn are the first n values of some memory.
func valuesIn[T any](memory []byte, n int64) []T {
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(memory))), n)
}

// words hands out the workspace in pieces of 64-bit words.
type words []byte

func (w *words) ints(n int64) []int64 {
	list := valuesIn[int64](*w, n)
	*w = (*w)[n*8:]
	return list
}

// int32s hands out 32-bit numbers, two to a word.
func (w *words) int32s(n int64) []int32 {
	list := valuesIn[int32](*w, n)
	*w = (*w)[int32Bytes(n):]
	return list
}

func int32Bytes(n int64) int64 { return roundUp(n*4, 8) }

// elements hands out elements of a float type, which take elementBytes.
func (w *words) elements(n int64, d tensor.DType) cpu.Span {
	list := cpu.Span{P: unsafe.Pointer(unsafe.SliceData(*w)), Stride: d.Size(), DType: d}
	*w = (*w)[elementBytes(n, d):]
	return list
}

func elementBytes(n int64, d tensor.DType) int64 { return roundUp(n*d.Size(), 8) }
