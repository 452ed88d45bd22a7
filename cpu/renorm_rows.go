package cpu

import (
	"math"
	"unsafe"

	"github.com/isobit-ml/isobit/tensor"
)

// normKernel is what is generated for rows of a type: terms of whole stripes of
// 64 elements are added to lanes, or for p = inf kept there where they are larger.
type normKernel struct {
	needs                ISA
	dtype                tensor.DType
	abs, square, largest func(x *byte, stripes int, lanes *byte)
	cube                 func(x *byte, stripes int, lanes *byte) // nil for f64
	scale                func(x *byte, n int, factor *byte)
}

// terms returns the kernel of the terms of a norm, nil if there is none.
func (k *normKernel) terms(p float64) func(x *byte, stripes int, lanes *byte) {
	switch {
	case p == 1:
		return k.abs
	case p == 2:
		return k.square
	case p == 3:
		return k.cube
	case math.IsInf(p, 1):
		return k.largest
	}
	return nil
}

// renormBy returns a row of Renorm.
func renormBy[C Compute](isa ISA, t Types) (RowRenorm, bool) {
	for i := range normKernels {
		if k := &normKernels[i]; k.needs == isa && k.dtype == t.In[0] {
			sum, _ := PickUpTo(FoldRows[C](), isa, t)
			return func(row Span, n int64, p, maxNorm float64, s *Scratch) {
				if k.terms(p) == nil || !row.Contiguous() {
					renormGo[C](row, n, p, maxNorm, s)
				} else if factor, ok := factorOf(kernelNorm(k, row, n, p, sum, s), maxNorm); ok {
					scaleBy(k, row, n, factor, s)
				}
			}, true
		}
	}
	return nil, false
}

func kernelNorm[C Compute](k *normKernel, row Span, n int64, p float64, fold Fold[C], s *Scratch) C {
	lanes, tree, terms, size := lanesOf[C](s, 0), TreeOf[C](s, 0), k.terms(p), row.Stride
	inf := math.IsInf(p, 1)
	clear(lanes[:])
	for start := int64(0); start < n; start += StripeBlock {
		m := min(StripeBlock, n-start)
		if stripes := m / Lanes; stripes > 0 {
			terms((*byte)(unsafe.Add(row.P, start*size)), int(stripes), bytesOf(lanes[:]))
		}
		if rest := m % Lanes; rest > 0 {
			x := BlockOf[C](s, 0, int(rest))
			Load(x, row.At(start+m-rest))
			for i, v := range x {
				a := C(math.Abs(float64(v)))
				if inf {
					lanes[i] = larger(lanes[i], a)
				} else {
					lanes[i] += normTerm(a, p)
				}
			}
		}
		if !inf {
			tree.Push(fold(lanes))
			clear(lanes[:])
		}
	}
	if inf {
		var largest C
		for _, a := range lanes {
			largest = larger(largest, a)
		}
		return largest
	}
	return normOf(tree.Sum(), p)
}

func scaleBy[C Compute](k *normKernel, row Span, n int64, factor C, s *Scratch) {
	whole, by := n/Lanes*Lanes, BlockOf[C](s, 1, 1)
	by[0] = factor
	for at := int64(0); at < whole; at += callSize {
		k.scale((*byte)(row.At(at).P), int(min(callSize, whole-at)), bytesOf(by))
	}
	if whole < n {
		scaleGo(row.At(whole), n-whole, factor, s)
	}
}
