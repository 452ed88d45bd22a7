package cpu

// FakeQuantize maps x, scale, zero_point to y: quantize, then dequantize.
var FakeQuantize = elementwiseRows(fakeQuantizeKernels, 1,
	byCompute[Elementwise](fakeQuantizeGo[float32], fakeQuantizeGo[float64]))

func fakeQuantizeGo[C Compute](n int, a *Args) {
	lo, hi := C(a.Lo), C(a.Hi)
	forBlocks(n, a, 2, func(b *operands[C]) {
		x, s, z, y := b.in[0], b.in[1], b.in[2], b.out[0]
		for i := range y {
			q := quantize(divide(x[i], s[i], a.Attrs.Reciprocal), z[i], lo, hi, a.Attrs.Code)
			y[i] = (q - z[i]) * s[i]
		}
	})
}
