package cpu

// The input gradients alone, for plans that ask for no other.

// DequantizeBackwardInput maps grad_output, q, scale, zero_point to
// grad_input = dy * s.
var DequantizeBackwardInput = elementwiseRows(dequantizeBackwardInputKernels, 2,
	byCompute[Elementwise](dequantizeBackwardInputGo[float32], dequantizeBackwardInputGo[float64]))

func dequantizeBackwardInputGo[C Compute](n int, a *Args) {
	forBlocks(n, a, -1, func(b *operands[C]) {
		dy, s, dq := b.in[0], b.in[2], b.out[0]
		for i := range dq {
			dq[i] = dy[i] * s[i]
		}
	})
}

// FakeQuantizeBackwardInput maps grad_output, x, scale, zero_point to
// grad_input = inside ? dy : +0.
var FakeQuantizeBackwardInput = elementwiseRows(fakeQuantizeBackwardInputKernels, 2,
	byCompute[Elementwise](fakeQuantizeBackwardInputGo[float32], fakeQuantizeBackwardInputGo[float64]))

func fakeQuantizeBackwardInputGo[C Compute](n int, a *Args) {
	lo, hi := C(a.Lo), C(a.Hi)
	forBlocks(n, a, 3, func(b *operands[C]) {
		dy, x, s, z, dx := b.in[0], b.in[1], b.in[2], b.in[3], b.out[0]
		for i := range dx {
			dx[i] = 0
			if c, _ := classify(divide(x[i], s[i], a.Attrs.Reciprocal), z[i], lo, hi, a.Attrs.Code); c == inside {
				dx[i] = dy[i]
			}
		}
	})
}
