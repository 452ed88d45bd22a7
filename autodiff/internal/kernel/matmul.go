package kernel

import (
	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/gonum"
)

// Gemm's blocks are small enough that gonum computes each on the calling
// goroutine, where an element of c is one chain over k ascending, every
// product and every sum rounded: c never depends on the blocks or threads.
const (
	gemmRows = 64
	gemmCols = 128
)

// Gemm adds a * b to c, or writes it there where add is false: a is m x k
// (k x m where transA), b is k x n and c is m x n, all row-major with the
// given distances between rows. It is the one place that multiplies matrices.
func Gemm[T Float](t Threads, transA bool, m, n, k int, a []T, lda int, b []T, ldb int, c []T, ldc int, add bool) {
	if m == 0 || n == 0 {
		return
	}
	ta, beta := blas.NoTrans, T(0)
	if transA {
		ta = blas.Trans
	}
	if add {
		beta = 1
	}
	if k == 0 {
		for i := 0; i < m && !add; i++ {
			clear(c[i*ldc : i*ldc+n])
		}
		return
	}
	if !gonumRounds || !finiteRows(b, k, n, ldb) {
		chains(t, transA, m, n, k, a, lda, b, ldb, c, ldc, add)
		return
	}
	rows := (m + gemmRows - 1) / gemmRows
	cols := (n + gemmCols - 1) / gemmCols
	t.For(rows*cols, min(m, gemmRows)*min(n, gemmCols)*k/4, 1, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			// Blocks that share columns of b come one after the other.
			r, j := i%rows*gemmRows, i/rows*gemmCols
			mr, nr := min(gemmRows, m-r), min(gemmCols, n-j)
			ar := a[r:]
			if !transA {
				ar = a[r*lda:]
			}
			one(ta, mr, nr, k, ar, lda, b[j:], ldb, beta, c[r*ldc+j:], ldc)
		}
	})
}

// finiteRows reports whether n elements of each of k rows are finite.
func finiteRows[T Float](b []T, k, n, ld int) bool {
	if n == ld {
		k, n = 1, k*n
	}
	for r := range k {
		row := b[r*ld:][:n]
		at, finite := fastFinite(row)
		for _, v := range row[at:] {
			finite = finite && v-v == 0
		}
		if !finite {
			return false
		}
	}
	return true
}

// chains is Gemm in plain Go, the same bits. gonum skips a product whose factor
// in a is 0, which would hide an infinity or a NaN in b; and outside of its
// assembly, compilers may fuse gonum's products with its sums.
func chains[T Float](t Threads, transA bool, m, n, k int, a []T, lda int, b []T, ldb int, c []T, ldc int, add bool) {
	down, right := lda, 1
	if transA {
		down, right = 1, lda
	}
	t.For(m, n*k, 1, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			z := c[i*ldc:][:n]
			if !add {
				clear(z)
			}
			for p := range k {
				v, row := a[i*down+p*right], b[p*ldb:][:n]
				for j := range z {
					z[j] += T(v * row[j])
				}
			}
		}
	})
}

func one[T Float](ta blas.Transpose, m, n, k int, a []T, lda int, b []T, ldb int, beta T, c []T, ldc int) {
	var impl gonum.Implementation
	if is32[T]() {
		impl.Sgemm(ta, blas.NoTrans, m, n, k, 1, slice[float32](a), lda, slice[float32](b), ldb, float32(beta), slice[float32](c), ldc)
	} else {
		impl.Dgemm(ta, blas.NoTrans, m, n, k, 1, slice[float64](a), lda, slice[float64](b), ldb, float64(beta), slice[float64](c), ldc)
	}
}

// Transpose writes the n x m transpose of x, which is m x n with rows ld apart.
func Transpose[T Float](t Threads, z, x []T, m, n, ld int) {
	t.For(n, 2*m, 8, func(lo, hi int) {
		if is32[T]() {
			transposed(slice[uint32](z)[lo*m:], slice[uint32](x)[lo:], hi-lo, m, 1, ld)
		} else {
			transposed(slice[uint64](z)[lo*m:], slice[uint64](x)[lo:], hi-lo, m, 1, ld)
		}
	})
}
