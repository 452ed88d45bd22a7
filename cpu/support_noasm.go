//go:build !amd64

package cpu

import (
	"unsafe"

	"github.com/isobit-ml/isobit/tensor"
)

// Best returns Go: rows are assembly for amd64. A program for 386 sees the
// processor's AVX2 and has no kernels for it.
func Best() ISA { return Go }

// ReadsStrands is for rows in assembly.
const ReadsStrands = false

var paramRows []Row[ParamKernels]

var scaleKernels, zeroKernels [tensor.Count]paramKernel

var foldRows []Row[Fold[float32]]

var minMaxFoldRows []Row[MinMaxFold[float32]]

var groupSumRows []Row[GroupSums[float32]]

var (
	columnFoldRows   []Row[ColumnFold[float32]]
	columnFoldRows64 []Row[ColumnFold[float64]]
)

var fewExtremes map[tensor.DType]fewExtremesKernel

var (
	columnExtremeRows   []Row[ColumnExtremes[float32]]
	columnExtremeRows64 []Row[ColumnExtremes[float64]]
)

var chooseParamsRows []Row[ChooseParams[float32]]

var packingRows []Row[Packing]

// storeZeros is not reached: no row asks for it.
func storeZeros(to *byte, n int) { clear(unsafe.Slice(to, n)) }

// storeLines is not reached: no kernel asks for it.
func storeLines(unsafe.Pointer, unsafe.Pointer, int) {}

// copyRowsByVectors cannot: there are no vectors.
func copyRowsByVectors(unsafe.Pointer, int64, unsafe.Pointer, int64, int64, int64) bool { return false }

// prefetch asks for bytes: it reads from each line. What it reads goes where nobody looks.
func prefetch(from unsafe.Pointer, bytes int64, s *Scratch) {
	sum := int64(0)
	for at := int64(0); at < bytes; at += 64 {
		sum += int64(*(*byte)(unsafe.Add(from, at)))
	}
	s.Ints(unreadInts, 1)[0] = sum
}

// StoreFence orders stores around the caches, of which there are none.
func StoreFence() {}

// quickParams and quickColumnParams are not reached: no kernel asks for them.
func quickParams(int, *runParams, float32, float32) bool { return false }

func quickColumnParams(int, *float32, *float32, int, *columnParams, float32, float32) bool {
	return false
}
