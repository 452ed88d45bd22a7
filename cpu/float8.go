package cpu

import (
	"math"
	"unsafe"

	"github.com/isobit-ml/isobit/tensor"
)

// float8Vectors are the numbers by which kernels round to an 8-bit float type, each in
// every lane of a vector; internal/gen/float8.go names them.
type float8Vectors [5][8]uint64

// Those of each type, in f32 and in f64.
var float8Vectors32, float8Vectors64 = newFloat8Vectors(23, 127), newFloat8Vectors(52, 1023)

// newFloat8Vectors makes those in a compute type whose mantissa has some bits and whose exponent a bias.
func newFloat8Vectors(bits, bias int64) (all [tensor.Count]float8Vectors) {
	for _, d := range tensor.Float8s() {
		all[d] = float8VectorsOf(d, bits, bias)
	}
	return all
}

func float8VectorsOf(d tensor.DType, bits, bias int64) (v float8Vectors) {
	mantissa, minExp := tensor.Float8Format(d)
	least, nan := int64(minExp), int64(tensor.ToFloat8(d, math.NaN()))
	shift := bits - int64(mantissa)
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
	return unsafe.Pointer(&all[k.code])
}
