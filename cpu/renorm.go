package cpu

import "math"

// Renorm scales a row of n elements so that its p-norm is at most maxNorm:
// the norm in Stripe order, the factor maxNorm / (norm + 1e-7) where the norm
// exceeds maxNorm (NUMERICS.md, section 5).
var Renorm = []Row[func(row Span, n int64, p, maxNorm float64, s *Scratch)]{
	{"go", Go, ByCompute(renormGo[float32], renormGo[float64])},
}

func renormGo[C Compute](row Span, n int64, p, maxNorm float64, s *Scratch) {
	norm := rowNorm[C](row, n, p, s)
	if !(norm > C(maxNorm)) {
		return
	}
	factor := C(maxNorm) / (norm + C(1e-7))
	for at := int64(0); at < n; at += Block {
		x := BlockOf[C](s, 0, int(min(Block, n-at)))
		Load(x, row.At(at))
		for i := range x {
			x[i] *= factor
		}
		Store(row.At(at), x)
	}
}

func rowNorm[C Compute](row Span, n int64, p float64, s *Scratch) C {
	var largest C
	lanes, tree := LanesOf[C](s, 0), TreeOf[C](s, 0)
	for start := int64(0); start < n; start += StripeBlock {
		clear(lanes[:])
		stop := min(n, start+StripeBlock)
		for at := start; at < stop; at += Block {
			x := BlockOf[C](s, 0, int(min(Block, stop-at)))
			Load(x, row.At(at))
			for i, v := range x {
				a := C(math.Abs(float64(v)))
				if a > largest || a != a {
					largest = a
				}
				x[i] = normTerm(a, p)
			}
			AddStripe(lanes, at-start, x)
		}
		tree.Push(FoldLanes(lanes))
	}
	switch {
	case math.IsInf(p, 1):
		return largest
	case p == 1:
		return tree.Sum()
	case p == 2:
		return C(math.Sqrt(float64(tree.Sum())))
	}
	return C(math.Pow(float64(tree.Sum()), 1/p))
}

// normTerm returns a to the power of p.
func normTerm[C Compute](a C, p float64) C {
	switch p {
	case 1:
		return a
	case 2:
		return a * a
	}
	return C(math.Pow(float64(a), p))
}
