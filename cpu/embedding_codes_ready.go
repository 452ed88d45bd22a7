package cpu

import (
	"unsafe"

	"github.com/isobit-ml/isobit/tensor"
)

// Sums of codes read scales of f32, and zero points of i32 or those that are floats already: rounded, and clamped if they
// were floats. Other parameters are made such, all of a table, or those of some rows as their codes are copied.

// ReadsParameters reports whether sums of codes read scales, or zero points, of a type as they are.
func ReadsParameters(d tensor.DType, zeroPoints bool) bool {
	if zeroPoints {
		return d == tensor.I32 || d == tensor.None
	}
	return d == tensor.F32
}

// MakeReady makes some parameters of codes of a type.
func (k *ParamKernels) MakeReady(to []float32, from Span, zeroPoints bool, codes tensor.DType) {
	lo, hi := codes.WholeRange()
	k.load(unsafe.Pointer(unsafe.SliceData(to)), len(to), from, zeroPoints, float64(lo), float64(hi))
}

// ReadyRows are parameters that were made ready, so many to a row.
func ReadyRows(all []float32, groups int64) Rows {
	return Rows{Span{unsafe.Pointer(unsafe.SliceData(all)), 4, tensor.F32}, 4 * groups}
}

// withReady puts what is ready in its place, and reports whether kernels read all.
func (c *WeightRows) withReady() (all WeightRows, reads bool) {
	all = *c
	for i, p := range []*Rows{&all.Scale, &all.Zero} {
		if c.Ready[i].P != nil {
			*p = c.Ready[i]
		} else if !ReadsParameters(p.DType, i == 1) {
			return all, false
		}
	}
	// A row's zero point is found by where its scale is.
	return all, all.Zero.P == nil || all.Zero.RowStride == all.Scale.RowStride
}
