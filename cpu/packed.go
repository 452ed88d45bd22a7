package cpu

import (
	"unsafe"

	"github.com/isobit-ml/isobit/tensor"
)

// Packing is a way to take 4-bit codes apart and to put them together.
type Packing struct {
	Unpack func(codes []int8, base unsafe.Pointer, number, stride int64, d tensor.DType)
	Pack   func(base unsafe.Pointer, number, stride int64, codes []int8)
}

// PackingRows are the ways to pack.
var PackingRows = withDefinition(packingRows, always(Packing{unpack, pack}))

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
