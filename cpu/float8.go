package cpu

import (
	"unsafe"

	"github.com/isobit-ml/isobit/tensor"
)

// float8Vectors are the numbers by which kernels round to an 8-bit float type, each in
// every lane of a vector; internal/gen/float8.go names them.
type float8Vectors [5][8]uint64

// Of f8e4m3 and f8e5m2, in f32 and in f64.
var float8Vectors32, float8Vectors64 = [2]float8Vectors{
	newFloat8Vectors(3, -6, 0x7f, 23, 127), newFloat8Vectors(2, -14, 0x7e, 23, 127),
}, [2]float8Vectors{
	newFloat8Vectors(3, -6, 0x7f, 52, 1023), newFloat8Vectors(2, -14, 0x7e, 52, 1023),
}

// newFloat8Vectors makes those of a type with so many bits of mantissa and least exponent of
// normal numbers, in a compute type with bits of mantissa and a bias.
func newFloat8Vectors(mantissa, least, nan, bits, bias int64) (v float8Vectors) {
	shift := bits - mantissa
	for number, word := range []int64{(bias + least) << bits, shift << bits, shift, (bias + least + shift) << mantissa, nan} {
		for i := range v[number] {
			if v[number][i] = uint64(word); bits < 32 {
				v[number][i] |= uint64(word) << 32
			}
		}
	}
	return v
}

// float8Words returns what a kernel rounds codes with, if they are 8-bit floats.
func float8Words(k *kernel) unsafe.Pointer {
	if k.code == tensor.None {
		return nil
	}
	all := ForCompute(k.compute, &float8Vectors32, &float8Vectors64)
	return unsafe.Pointer(&all[k.code-tensor.F8E4M3])
}
