package cpu

import (
	"unsafe"

	"github.com/isobit-ml/isobit/tensor"
)

// RowProduct stores the sum of the products of two rows of n elements, in
// Stripe order.
var RowProduct = productRows(ByCompute(rowProductGo[float32], rowProductGo[float64]))

func rowProductGo[C Compute](out, a, b Span, n int64, s *Scratch) {
	rowProduct(out, n, s, FoldLanes[C], func(lanes *[Lanes]C, start, stop int64) {
		addProducts(lanes, a.At(start), b.At(start), int(stop-start), s)
	})
}

// rowProduct folds the lanes of each block, to which add adds products.
func rowProduct[C Compute](out Span, n int64, s *Scratch, fold Fold[C], add func(lanes *[Lanes]C, start, stop int64)) {
	lanes, tree := LanesOf[C](s, 0), TreeOf[C](s, 0)
	for start := int64(0); start < n; start += StripeBlock {
		clear(lanes[:])
		add(lanes, start, min(n, start+StripeBlock))
		tree.Push(fold(lanes))
	}
	sum := BlockOf[C](s, 0, 1)
	sum[0] = tree.Sum()
	Store(out, sum)
}

// addProducts adds the products of n elements, the first in lane 0.
func addProducts[C Compute](lanes *[Lanes]C, a, b Span, n int, s *Scratch) {
	for at := 0; at < n; at += Block {
		m := min(Block, n-at)
		x, y := BlockOf[C](s, 0, m), BlockOf[C](s, 1, m)
		Load(x, a.At(int64(at)))
		Load(y, b.At(int64(at)))
		for i := range x {
			x[i] *= y[i]
		}
		AddStripe(lanes, int64(at), x)
	}
}

// productRows makes the table of RowProduct: rows go through the kernel of
// weight_only_linear, whose lanes are a Stripe sum's, those of 16 bits after
// they were converted.
func productRows(definition func(Types) (rowProductKernel, bool)) []Row[rowProductKernel] {
	return tableOf(definition, func(isa ISA, t Types) (rowProductKernel, bool) {
		widen := wideners[t.In[0]]
		if t.In[0] != tensor.F32 && widen == nil {
			return nil, false
		}
		for _, k := range weightKernels {
			if k.needs == isa {
				slow, _ := definition(t)
				fold, _ := PickUpTo(FoldRows32, isa, Types{})
				return func(out, a, b Span, n int64, s *Scratch) {
					if !a.Contiguous() || !b.Contiguous() {
						slow(out, a, b, n, s)
						return
					}
					rowProduct(out, n, s, fold, func(lanes *[Lanes]float32, start, stop int64) {
						whole := (stop - start) / Lanes * Lanes
						step := whole
						if widen != nil {
							step = Block
						}
						for at := start; at < start+whole; at += step {
							m := int(min(step, start+whole-at))
							x, y := a.At(at).P, b.At(at).P
							if widen != nil {
								x, y = widened(widen, s, 0, x, m), widened(widen, s, 1, y, m)
							}
							k.products((*float32)(x), 0, 1, (*float32)(y), m, &lanes[0], 0)
						}
						if rest := int(stop - start - whole); rest > 0 {
							addProducts(lanes, a.At(start+whole), b.At(start+whole), rest, s)
						}
					})
				}, true
			}
		}
		return nil, false
	})
}

// widened converts n elements into a block of the scratch memory.
func widened(widen func(to *float32, from *byte, n int), s *Scratch, block int, from unsafe.Pointer, n int) unsafe.Pointer {
	to := BlockOf[float32](s, block, n)
	widen(&to[0], (*byte)(from), n)
	return unsafe.Pointer(&to[0])
}

// rowProductKernel is a way to compute RowProduct.
type rowProductKernel = func(out, a, b Span, n int64, s *Scratch)
