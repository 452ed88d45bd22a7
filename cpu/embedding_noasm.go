//go:build !amd64

package cpu

// rowSums are the generated sums of rows: none here.
var rowSums []rowSum

var (
	pairKernels  []pairKernel
	rowDivisions []rowDivision
	bagMaxima    []bagMax
)

var outsideRows []Row[IndexSearch]

var widenRows []Row[func(to []int64, from []int32)]

var copyRows []Row[func(*RowCopies)]
