//go:build !amd64

package cpu

import "unsafe"

var (
	outsideRows []Row[IndexSearch]
	widenRows   []Row[func(to []int64, from []int32)]
	copyRows    []Row[func(*RowCopies)]
	codeSums    []rowSum
	doublePair  doublePairKernel
)

// copyBytes copies some bytes of the rows with numbers.
func copyBytes(to unsafe.Pointer, apart int64, from unsafe.Pointer, stride int64, rows []int64, size int64) {
	for i, row := range rows {
		copy(unsafe.Slice((*byte)(unsafe.Add(to, int64(i)*apart)), size), unsafe.Slice((*byte)(unsafe.Add(from, row*stride)), size))
	}
}
