package autodiff

import (
	"math"

	"github.com/isobit-ml/isobit/autodiff/internal/kernel"
	"github.com/isobit-ml/isobit/tensor"
)

// directCasts are the pairs of types, from and to, that training casts between: without blocks of a
// third type, and with the bits of those.
var directCasts = map[[2]tensor.DType]func(z, x *cpuTensor, lo, hi int){
	{tensor.BF16, tensor.F32}: direct(kernel.FromBF16),
	{tensor.F16, tensor.F32}:  direct(kernel.FromF16),
	{tensor.F64, tensor.F32}:  direct(kernel.FromF64),
	{tensor.F32, tensor.F64}:  direct(kernel.ToF64),
	{tensor.F32, tensor.F16}:  direct(kernel.ToF16),
	{tensor.F32, tensor.BF16}: direct(kernel.ToBF16),

	{tensor.Bool, tensor.F32}: direct(kernel.Convert[float32, uint8]),
	{tensor.Bool, tensor.F64}: direct(kernel.Convert[float64, uint8]),
	{tensor.Bool, tensor.I32}: direct(kernel.Convert[int32, uint8]),
	{tensor.Bool, tensor.I64}: direct(kernel.Convert[int64, uint8]),
	{tensor.U8, tensor.F32}:   direct(kernel.Convert[float32, uint8]),
	{tensor.U8, tensor.I64}:   direct(kernel.Convert[int64, uint8]),
	{tensor.I32, tensor.I64}:  direct(kernel.Convert[int64, int32]),
	{tensor.I64, tensor.I32}:  direct(kernel.Convert[int32, int64]),
	{tensor.I32, tensor.F32}:  direct(kernel.Convert[float32, int32]),
	{tensor.I32, tensor.F64}:  direct(kernel.Convert[float64, int32]),
	{tensor.I64, tensor.F64}:  direct(kernel.Convert[float64, int64]),
	{tensor.I64, tensor.F32}: direct(func(z []float32, x []int64) {
		for i, v := range x {
			z[i] = toFloat32(v)
		}
	}),
	{tensor.F32, tensor.I64}: direct(cut[int64, float32](math.MinInt64, math.MaxInt64)),
	{tensor.F64, tensor.I64}: direct(cut[int64, float64](math.MinInt64, math.MaxInt64)),
	{tensor.F32, tensor.I32}: direct(cut[int32, float32](math.MinInt32, math.MaxInt32)),
	{tensor.F64, tensor.I32}: direct(cut[int32, float64](math.MinInt32, math.MaxInt32)),
}

func direct[Z, X any](loop func(z []Z, x []X)) func(z, x *cpuTensor, lo, hi int) {
	return func(z, x *cpuTensor, lo, hi int) { loop(elements[Z](z)[lo:hi], elements[X](x)[lo:hi]) }
}

// cut cuts towards zero, within the type: most numbers need no bounds.
func cut[Z int32 | int64, X kernel.Float](lo, hi int64) func(z []Z, x []X) {
	return func(z []Z, x []X) {
		for i, v := range x {
			if v > math.MinInt32 && v < math.MaxInt32 {
				z[i] = Z(v)
			} else {
				z[i] = Z(min(max(whole(float64(v)), lo), hi))
			}
		}
	}
}
