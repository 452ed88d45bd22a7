package cpu

import (
	"math"

	"github.com/isobit-ml/isobit/tensor"
)

// rint rounds to a whole number, ties to even.
func rint[C Compute](x C) C { return C(math.RoundToEven(float64(x))) }

// clamp returns v between lo and hi; a NaN stays a NaN.
func clamp[C Compute](v, lo, hi C) C {
	if v < lo {
		return lo
	}
	if v > hi {
		return hi
	}
	return v
}

// roundZeroPoint gives the zero point that a learned one stands for: a NaN
// counts as 0, and the result is never -0.
func roundZeroPoint[C Compute](z, lo, hi C) C {
	if z != z {
		z = 0
	}
	return clamp(rint(z), lo, hi) + 0
}

// divide returns x / s, or x * (1/s) for rounding=reciprocal.
func divide[C Compute](x, s C, reciprocal bool) C {
	if reciprocal {
		return x * (1 / s)
	}
	return x / s
}

// quantize returns the code of u = x / s: clamp(rint(u) + z, lo, hi), or of a
// NaN clamp(z, lo, hi). Codes of an 8-bit float type clamp, then round, without z.
func quantize[C Compute](u, z, lo, hi C, code tensor.DType) C {
	switch {
	case code != tensor.None:
		return C(tensor.RoundFloat8(code, float64(clamp(u, lo, hi))))
	case u != u:
		return clamp(z, lo, hi)
	}
	return clamp(rint(u)+z, lo, hi)
}

// Quantize maps x, scale, zero_point to codes q (NUMERICS.md, section 3).
var Quantize = elementwiseRows(quantizeKernels, 1,
	byCompute[Elementwise](quantizeGo[float32], quantizeGo[float64]))

func quantizeGo[C Compute](n int, a *Args) {
	lo, hi := C(a.Lo), C(a.Hi)
	forBlocks(n, a, 2, func(b *operands[C]) {
		x, s, z, q := b.in[0], b.in[1], b.in[2], b.out[0]
		for i := range q {
			q[i] = quantize(divide(x[i], s[i], a.Attrs.Reciprocal), z[i], lo, hi, a.Attrs.Code)
		}
	})
}
