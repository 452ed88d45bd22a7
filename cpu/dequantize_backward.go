package cpu

// DequantizeBackward maps grad_output, q, scale, zero_point to grad_input =
// dy * s and adds to lanes 0 the terms of grad_scale, dy * (q - z), and to
// lanes 1 those of grad_zero_point, dy.
var DequantizeBackward = stripedRows(dequantizeBackwardKernels, 2,
	byCompute[Striped](dequantizeBackwardGo[float32], dequantizeBackwardGo[float64]))

func dequantizeBackwardGo[C Compute](n int, pos int64, a *Args) {
	at := 0
	forBlocks(n, a, 3, func(b *operands[C]) {
		dy, q, s, z, dq, ds := b.in[0], b.in[1], b.in[2], b.in[3], b.out[0], b.out[1]
		q = lessZero(a.Scratch, a.In[1].At(int64(at)), q, z)
		for i := range dq {
			dq[i] = dy[i] * s[i]
			ds[i] = dy[i] * q[i]
		}
		addTerms(a, 0, pos, at, ds)
		addTerms(a, 1, pos, at, dy)
		at += len(dy)
	})
}
