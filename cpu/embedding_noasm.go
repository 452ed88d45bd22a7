//go:build !amd64

package cpu

var (
	outsideRows []Row[IndexSearch]
	widenRows   []Row[func(to []int64, from []int32)]
	copyRows    []Row[func(*RowCopies)]
	codeSums    []rowSum
	doublePair  doublePairKernel
)
