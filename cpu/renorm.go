package cpu

import "math"

// RowRenorm is a way to compute Renorm.
type RowRenorm = func(row Span, n int64, p, maxNorm float64, s *Scratch)

// Renorm scales a row of n elements so that its p-norm is at most maxNorm:
// the norm in Stripe order, the factor maxNorm / (norm + 1e-7) where the norm
// exceeds maxNorm (NUMERICS.md, section 5).
var Renorm = tableOf(byCompute[RowRenorm](renormGo[float32], renormGo[float64]), rowsByCompute(renormBy[float32], renormBy[float64]))

func renormGo[C Compute](row Span, n int64, p, maxNorm float64, s *Scratch) {
	if factor, ok := factorOf(rowNorm[C](row, n, p, s), maxNorm); ok {
		scaleGo(row, n, factor, s)
	}
}

// factorOf returns what a row is multiplied by, if it is.
func factorOf[C Compute](norm C, maxNorm float64) (C, bool) {
	return C(maxNorm) / (norm + C(1e-7)), norm > C(maxNorm)
}

// scaleGo multiplies a row by a factor.
func scaleGo[C Compute](row Span, n int64, factor C, s *Scratch) {
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
	extreme := larger[C]
	var far C
	if p < 0 {
		extreme, far = smaller[C], C(math.Inf(1))
	}
	lanes, tree := lanesOf[C](s, 0), TreeOf[C](s, 0)
	for start := int64(0); start < n; start += StripeBlock {
		clear(lanes[:])
		stop := min(n, start+StripeBlock)
		for at := start; at < stop; at += Block {
			x := BlockOf[C](s, 0, int(min(Block, stop-at)))
			Load(x, row.At(at))
			for i, v := range x {
				a := C(math.Abs(float64(v)))
				far = extreme(far, a)
				x[i] = normTerm(a, p)
			}
			addStripe(lanes, at-start, x)
		}
		tree.Push(foldLanes(lanes))
	}
	if math.IsInf(p, 0) {
		return far
	}
	return normOf(tree.Sum(), p)
}

// larger returns the larger one of two absolute values, a NaN if there is one.
func larger[C Compute](a, b C) C {
	if b > a || b != b {
		return b
	}
	return a
}

// smaller returns the smaller one of two absolute values, a NaN if there is one.
func smaller[C Compute](a, b C) C {
	if b < a || b != b {
		return b
	}
	return a
}

// normTerm returns a to the power of p, 0 of zeros for p = 0: what is not 0 is counted.
func normTerm[C Compute](a C, p float64) C {
	switch p {
	case 0:
		if a == 0 {
			return 0
		}
		return 1
	case 1:
		return a
	case 2:
		return C(a * a)
	case 3:
		return C(cube(float64(a)))
	}
	return C(math.Pow(float64(a), p))
}

// cube returns math.Pow(a, 3), which multiplies in this order, too, but rounds
// twice where the result is subnormal.
func cube(a float64) float64 {
	if a > 1e-100 && a < 1e100 {
		return a * float64(a*a)
	}
	return math.Pow(a, 3)
}

// normOf returns the norm whose terms have a sum.
func normOf[C Compute](sum C, p float64) C {
	switch p {
	case 0, 1:
		return sum
	case 2:
		return C(math.Sqrt(float64(sum)))
	}
	return C(math.Pow(float64(sum), 1/p))
}
