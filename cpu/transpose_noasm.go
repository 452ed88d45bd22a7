//go:build !amd64

package cpu

var (
	transposeRows   []Row[Transpose]
	stridedCopyRows []Row[StridedCopy]
	repeatEachRows  []Row[RepeatEach]
)
