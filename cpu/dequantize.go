package cpu

import "github.com/isobit-ml/isobit/tensor"

// Dequantize maps codes q, scale, zero_point to y = (q - z) * s.
var Dequantize = elementwiseRows(dequantizeKernels, 1,
	byCompute[Elementwise](dequantizeGo[float32], dequantizeGo[float64]))

func dequantizeGo[C Compute](n int, a *Args) {
	at := 0
	forBlocks(n, a, 2, func(b *operands[C]) {
		s, z, y := b.in[1], b.in[2], b.out[0]
		q := lessZero(a.Scratch, a.In[0].At(int64(at)), b.in[0], z)
		for i := range y {
			y[i] = q[i] * s[i]
		}
		at += len(y)
	})
}

// lessZero replaces codes q by q - z, rounded once: from is where they were
// loaded from, since a float32 does not hold every i32.
func lessZero[C Compute](scratch *Scratch, from Span, q, z []C) []C {
	if from.DType != tensor.I32 {
		for i := range q {
			q[i] -= z[i]
		}
		return q
	}
	codes := BlockOf[float64](scratch, lessZeroBlock, len(q))
	Load(codes, from)
	for i, code := range codes {
		q[i] = C(code - float64(z[i]))
	}
	return q
}
