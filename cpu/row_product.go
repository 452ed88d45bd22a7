package cpu

import "github.com/isobit-ml/isobit/tensor"

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

// productRows makes the table of RowProduct: rows of float32 go through the
// kernel of weight_only_linear, whose lanes are a Stripe sum's.
func productRows(definition func(Types) (rowProductKernel, bool)) []Row[rowProductKernel] {
	return tableOf(definition, func(isa ISA, t Types) (rowProductKernel, bool) {
		for _, k := range weightKernels {
			if k.needs == isa && t.In[0] == tensor.F32 {
				slow, _ := definition(t)
				fold, _ := PickUpTo(FoldRows32, isa, Types{})
				return func(out, a, b Span, n int64, s *Scratch) {
					if !a.Contiguous() || !b.Contiguous() {
						slow(out, a, b, n, s)
						return
					}
					rowProduct(out, n, s, fold, func(lanes *[Lanes]float32, start, stop int64) {
						x, y, whole := a.At(start), b.At(start), int(stop-start)/Lanes*Lanes
						if whole > 0 {
							k.products((*float32)(x.P), 0, 1, (*float32)(y.P), whole, &lanes[0], 0)
						}
						if rest := int(stop-start) - whole; rest > 0 {
							addProducts(lanes, x.At(int64(whole)), y.At(int64(whole)), rest, s)
						}
					})
				}, true
			}
		}
		return nil, false
	})
}

// rowProductKernel is a way to compute RowProduct.
type rowProductKernel = func(out, a, b Span, n int64, s *Scratch)
