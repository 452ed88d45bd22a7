package cpu

// FakeQuantizeBackward maps grad_output, x, scale, zero_point to grad_input =
// inside ? dy : +0 and adds the terms of LSQ: to lanes 0 those of grad_scale,
// dy * e with e = r - x/s inside, lo - z below, hi - z above; to lanes 1
// those of grad_zero_point, dy where it is below or above.
var FakeQuantizeBackward = stripedRows(fakeQuantizeBackwardKernels, 2,
	byCompute[Striped](fakeQuantizeBackwardGo[float32], fakeQuantizeBackwardGo[float64]))

func fakeQuantizeBackwardGo[C Compute](n int, pos int64, a *Args) {
	at := 0
	lo, hi := C(a.Lo), C(a.Hi)
	forBlocks(n, a, 3, func(b *operands[C]) {
		dy, x, s, z := b.in[0], b.in[1], b.in[2], b.in[3]
		dx, ds, dz := b.out[0], b.out[1], b.out[2]
		for i := range dx {
			u := divide(x[i], s[i], a.Attrs.Reciprocal)
			dx[i], ds[i], dz[i] = 0, 0, 0
			switch c, r := classify(u, z[i], lo, hi, a.Attrs.Code); c {
			case inside:
				dx[i] = dy[i]
				ds[i] = dy[i] * (r - u)
			case below:
				ds[i] = dy[i] * (lo - z[i])
				dz[i] = dy[i]
			case above:
				ds[i] = dy[i] * (hi - z[i])
				dz[i] = dy[i]
			}
		}
		addTerms(a, 0, pos, at, ds)
		addTerms(a, 1, pos, at, dz)
		at += len(dy)
	})
}
