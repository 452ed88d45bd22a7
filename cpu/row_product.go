package cpu

import "github.com/isobit-ml/isobit/tensor"

// RowPairs are rows of two matrices, by number, of which N elements are
// multiplied.
type RowPairs struct {
	X, Y    Matrix
	Xs, Ys  []int64 // at most Block
	N       int64
	Scratch *Scratch
}

// RowProducts stores, for each pair, the sum of the products of its two rows, in
// Stripe order.
var RowProducts = pairRows(byCompute(rowProductsGo[float32], rowProductsGo[float64]))

// rowProducts is a way to compute them.
type rowProducts = func(p *RowPairs, out Span)

func rowProductsGo[C Compute](p *RowPairs, out Span) {
	lanes := lanesOf[C](p.Scratch, 0)
	for i, row := range p.Xs {
		tree := TreeOf[C](p.Scratch, 0)
		x, y := p.X.Row(row, 0), p.Y.Row(p.Ys[i], 0)
		for start := int64(0); start < p.N; start += StripeBlock {
			clear(lanes[:])
			addProducts(lanes, x.At(start), y.At(start), int(min(StripeBlock, p.N-start)), p.Scratch)
			tree.Push(foldLanes(lanes))
		}
		sum := BlockOf[C](p.Scratch, 0, 1)
		sum[0] = tree.Sum()
		Store(out.At(int64(i)), sum)
	}
}

// addProducts adds the products of n elements, the first in lane 0.
func addProducts[C Compute](lanes *[Lanes]C, x, y Span, n int, s *Scratch) {
	for at := 0; at < n; at += Block {
		m := min(Block, n-at)
		a, b := BlockOf[C](s, 0, m), BlockOf[C](s, 1, m)
		Load(a, x.At(int64(at)))
		Load(b, y.At(int64(at)))
		for i := range a {
			a[i] *= b[i]
		}
		addStripe(lanes, int64(at), a)
	}
}

// pairKernel is a generated RowProducts of one type.
type pairKernel struct {
	needs ISA
	dtype tensor.DType
	run   func(x *byte, xStride int, y *byte, yStride int, xs, ys *int64, count, n int, to *float32)
}

// doublePairKernel is a generated function for one pair of rows of float64.
type doublePairKernel func(x, y, later *float64, n int, lanes *[Lanes]float64, to *float64)

// pairsEarly is how many pairs ahead it asks for memory.
const pairsEarly = 4

// productsOfDoubles is RowProducts by it.
func productsOfDoubles(p *RowPairs, out Span) {
	if !p.X.hasEvenRows() || !p.Y.hasEvenRows() || p.N == 0 || p.N > StripeBlock {
		rowProductsGo[float64](p, out)
		return
	}
	sums, lanes := BlockOf[float64](p.Scratch, 0, len(p.Xs)), lanesOf[float64](p.Scratch, 0)
	row := func(m *Matrix, number int64) *float64 { return (*float64)(m.Row(number, 0).P) }
	for i := range sums {
		later := row(&p.Y, p.Ys[min(i+pairsEarly, len(p.Ys)-1)])
		doublePair(row(&p.X, p.Xs[i]), row(&p.Y, p.Ys[i]), later, int(p.N), lanes, &sums[i])
	}
	Store(out, sums)
}

// pairRows makes the table of RowProducts.
func pairRows(definition func(Types) (rowProducts, bool)) []Row[rowProducts] {
	return tableOf(definition, func(isa ISA, t Types) (rowProducts, bool) {
		if isa == AVX2 && t.In[0] == tensor.F64 && doublePair != nil {
			return productsOfDoubles, true
		}
		for _, k := range pairKernels {
			if k.needs == isa && k.dtype == t.In[0] {
				slow, _ := definition(t)
				stored := typeFor(isa, k.dtype)
				return func(p *RowPairs, out Span) {
					if !p.X.hasEvenRows() || !p.Y.hasEvenRows() || p.N == 0 || p.N > StripeBlock {
						slow(p, out)
						return
					}
					sums := BlockOf[float32](p.Scratch, 0, len(p.Xs))
					k.run((*byte)(p.X.P), int(p.X.Strides[0]), (*byte)(p.Y.P), int(p.Y.Strides[0]), &p.Xs[0], &p.Ys[0], len(p.Xs), int(p.N), &sums[0])
					storeRow(stored, out, sums)
				}, true
			}
		}
		return nil, false
	})
}
