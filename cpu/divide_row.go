package cpu

import (
	"unsafe"

	"github.com/isobit-ml/isobit/tensor"
)

// RowDivision divides n elements by a count, which becomes a float first; out has the compute type.
type RowDivision func(out, row Span, n, count int64, s *Scratch)

// DivideRow is the table of RowDivision.
var DivideRow = tableOf(byCompute[RowDivision](divideRowGo[float32], divideRowGo[float64]), func(isa ISA, t Types) (RowDivision, bool) {
	for _, d := range rowDivisions {
		if d.needs == isa && d.dtype == t.In[0] {
			return ForCompute(t.Compute, divideBy[float32], divideBy[float64])(d.run), true
		}
	}
	return nil, false
})

// rowDivision is a generated one of a type.
type rowDivision struct {
	needs ISA
	dtype tensor.DType
	run   func(from *byte, n int, by, to *byte)
}

// dividedAtOnce is what the number of elements is a multiple of that kernels divide.
const dividedAtOnce = 32

func divideBy[C Compute](run func(from *byte, n int, by, to *byte)) RowDivision {
	return func(out, row Span, n, count int64, s *Scratch) {
		whole := n &^ (dividedAtOnce - 1)
		if !out.Contiguous() || !row.Contiguous() {
			whole = 0
		}
		if whole > 0 {
			by := BlockOf[C](s, 0, 1) // a variable would be allocated
			by[0] = C(count)
			run((*byte)(row.P), int(whole), (*byte)(unsafe.Pointer(&by[0])), (*byte)(out.P))
		}
		if whole < n {
			divideRowGo[C](out.At(whole), row.At(whole), n-whole, count, s)
		}
	}
}

func divideRowGo[C Compute](out, row Span, n, count int64, s *Scratch) {
	for at := int64(0); at < n; at += Block {
		x := BlockOf[C](s, 0, int(min(Block, n-at)))
		Load(x, row.At(at))
		for i := range x {
			x[i] /= C(count)
		}
		Store(out.At(at), x)
	}
}
