//go:build !amd64

package cpu

// rowSums are the generated sums of rows: none here.
var rowSums []rowSum

var (
	pairKernels []pairKernel
	bagMaxima   []bagMax
)

var outsideRows []Row[IndexSearch]

var copyRows []Row[func(*RowCopies)]
