package cpu

import (
	"unsafe"

	"github.com/isobit-ml/isobit/tensor"
)

// Packing is a way to take 4-bit codes apart and to put them together.
type Packing struct {
	Unpack func(codes []int8, base unsafe.Pointer, number, stride int64, d tensor.DType)
	Pack   func(base unsafe.Pointer, number, stride int64, codes []int8)
	// UnpackRows and PackRows take whole rows of n codes that follow one another, each of which starts at a byte.
	UnpackRows func(codes []int8, packed unsafe.Pointer, n int, d tensor.DType)
	PackRows   func(packed unsafe.Pointer, codes []int8, n int)
}

// PackingRows are the ways to pack.
var PackingRows = withDefinition(packingRows, always(Packing{unpack, pack, unpackEach(unpack), packEach(pack)}))

// unpack reads 4-bit codes of type d from halves of bytes: the first has the
// given number, counted from base, and each next one is stride further.
func unpack(codes []int8, base unsafe.Pointer, number, stride int64, d tensor.DType) {
	for i := range codes {
		b := *(*uint8)(unsafe.Add(base, number>>1)) >> (4 * (number & 1))
		codes[i] = int8(b & 15)
		if d == tensor.S4 {
			codes[i] = int8(b<<4) >> 4
		}
		number += stride
	}
}

// pack is the inverse of unpack. Writing a lower half clears the upper one,
// which a row of odd length leaves at 0.
func pack(base unsafe.Pointer, number, stride int64, codes []int8) {
	for _, q := range codes {
		p := (*uint8)(unsafe.Add(base, number>>1))
		if number&1 == 0 {
			*p = uint8(q) & 15
		} else {
			*p = *p&15 | uint8(q)<<4
		}
		number += stride
	}
}

// unpackEach makes unpackRows of unpack, row by row.
func unpackEach(unpack func(codes []int8, base unsafe.Pointer, number, stride int64, d tensor.DType)) func([]int8, unsafe.Pointer, int, tensor.DType) {
	return func(codes []int8, packed unsafe.Pointer, n int, d tensor.DType) {
		for number := int64(0); len(codes) > 0; number += rowWidth(n) {
			unpack(codes[:n], packed, number, 1, d)
			codes = codes[n:]
		}
	}
}

// packEach makes packRows of pack.
func packEach(pack func(base unsafe.Pointer, number, stride int64, codes []int8)) func(unsafe.Pointer, []int8, int) {
	return func(packed unsafe.Pointer, codes []int8, n int) {
		for number := int64(0); len(codes) > 0; number += rowWidth(n) {
			pack(packed, number, 1, codes[:n])
			codes = codes[n:]
		}
	}
}

// rowWidth is how many halves of bytes a row of n codes has.
func rowWidth(n int) int64 { return roundUp(int64(n), 2) }
