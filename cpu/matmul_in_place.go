package cpu

// inPlace computes a tile of which kernels read and write all where it lies, and reports whether it is one: of small
// matrices what the others ask for takes longer than the product.
func (r *kernelMatmul[C]) inPlace(t *MatmulTile) bool {
	size, panels := r.size, &r.there.matmulPanels
	follow := t.Input.RowStride == t.K*size // rows do not meet in a cache then, either
	if r.dots != nil || t.K == 0 || t.Bias.P != nil || t.N%panels.unit != 0 || t.N%panels.half.columns != 0 && r.narrow(t.M, t.N) ||
		t.Input.DType != r.compute || t.Other.DType != r.compute || t.Y.DType != r.compute ||
		t.Input.Stride != size || t.Other.Stride != size || t.Y.Stride != size ||
		!near(&t.Other, t.K) || !follow && !near(&t.Input, t.M) {
		return false
	}
	more := 0
	if t.More {
		more = 1
	}
	for m := int64(0); m < t.M; m += matmulAtOnce {
		rows := min(matmulAtOnce, t.M-m)
		for n := int64(0); n < t.N; {
			kernel := panels.next(t.N-n, rows)
			columns := min(kernel.columns, t.N-n)
			kernel.run((*byte)(t.Input.Row(m, 0).P), int(t.Input.RowStride), int(rows), (*byte)(t.Other.Row(0, n).P), int(t.Other.RowStride), int(columns), int(t.K),
				nil, (*byte)(t.Y.Row(m, n).P), int(t.Y.RowStride), more)
			n += columns
		}
	}
	return true
}
