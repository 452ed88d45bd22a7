package cpu

// Dequantize maps codes q, scale, zero_point to y = (q - z) * s.
var Dequantize = elementwiseRows(dequantizeKernels, 1,
	ByCompute[Elementwise](dequantizeGo[float32], dequantizeGo[float64]))

func dequantizeGo[C Compute](n int, a *Args) {
	forBlocks(n, a, 2, func(b *operands[C]) {
		q, s, z, y := b.in[0], b.in[1], b.in[2], b.out[0]
		for i := range y {
			y[i] = (q[i] - z[i]) * s[i]
		}
	})
}
