package cpu

import "github.com/isobit-ml/isobit/tensor"

// class says where x / s falls among the codes. Both bounds are inside.
type class int

const (
	inside class = iota
	below
	above
	nan
)

// classify returns the class of u = x / s and, for those inside, the rounded
// u. 8-bit floats are classified before they are rounded.
func classify[C Compute](u, z, lo, hi C, code tensor.DType) (class, C) {
	r := rint(u)
	t := r + z
	if code != tensor.None {
		r, t = C(tensor.RoundFloat8(code, float64(u))), u
	}
	switch {
	case u != u:
		return nan, r
	case t < lo:
		return below, r
	case t > hi:
		return above, r
	}
	return inside, r
}

// QuantizeBackward maps grad_output, x, scale, zero_point to grad_input: the
// straight-through estimate, dx = inside ? dy / s : +0.
var QuantizeBackward = elementwiseRows(quantizeBackwardKernels, 2,
	byCompute[Elementwise](quantizeBackwardGo[float32], quantizeBackwardGo[float64]))

func quantizeBackwardGo[C Compute](n int, a *Args) {
	lo, hi := C(a.Lo), C(a.Hi)
	forBlocks(n, a, 3, func(b *operands[C]) {
		dy, x, s, z, dx := b.in[0], b.in[1], b.in[2], b.in[3], b.out[0]
		for i := range dx {
			dx[i] = 0
			if c, _ := classify(divide(x[i], s[i], a.Attrs.Reciprocal), z[i], lo, hi, a.Attrs.Code); c == inside {
				dx[i] = dy[i] / s[i]
			}
		}
	})
}
