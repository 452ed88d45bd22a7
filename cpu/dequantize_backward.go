package cpu

// DequantizeBackward maps grad_output, q, scale, zero_point to grad_input =
// dy * s and adds to lanes 0 the terms of grad_scale, dy * (q - z), and to
// lanes 1 those of grad_zero_point, dy.
var DequantizeBackward = []Row[Striped]{
	{"go", Go, ByCompute[Striped](dequantizeBackwardGo[float32], dequantizeBackwardGo[float64])},
}

func dequantizeBackwardGo[C Compute](n int, pos int64, a *Args) {
	scaleLanes, zeroLanes := LanesOf[C](a.Scratch, 0), LanesOf[C](a.Scratch, 1)
	forBlocks(n, a, 3, func(b *operands[C]) {
		dy, q, s, z, dq, ds := b.in[0], b.in[1], b.in[2], b.in[3], b.out[0], b.out[1]
		for i := range dq {
			dq[i] = dy[i] * s[i]
			ds[i] = dy[i] * (q[i] - z[i])
		}
		AddStripe(scaleLanes, pos, ds)
		AddStripe(zeroLanes, pos, dy)
		pos += int64(len(dy))
	})
}
