package cpu

import (
	"unsafe"

	"github.com/isobit-ml/isobit/tensor"
)

var expandRows = []Row[Expand]{
	{"avx2", AVX2, func(t Types) (Expand, bool) {
		return func(dst, src unsafe.Pointer, count, run int) {
			expandAVX2((*float32)(dst), (*float32)(src), count, run)
		}, t.Compute == tensor.F32
	}},
}

// storeZeros clears n bytes around the caches: both are multiples of a line.
func storeZeros(to *byte, n int) { storeZerosAVX2(to, n) }

// StoreFence orders stores around the caches before those that come after.
func StoreFence() { storeFence() }

var foldRows = []Row[Fold[float32]]{{"avx2", AVX2, always(Fold[float32](func(lanes *[Lanes]float32) float32 {
	return foldLanesAVX2(&lanes[0])
}))}}

var minMaxFoldRows = []Row[MinMaxFold[float32]]{{"avx2", AVX2, always(MinMaxFold[float32](func(s *Scratch) (extremes [2]float32) {
	lo, hi, nan := foldMinMaxAVX2(&LanesOf[float32](s, 0)[0], &LanesOf[float32](s, 1)[0])
	if nan != 0 {
		return FoldMinMax[float32](s)
	}
	MergeMinMax(&extremes[0], &extremes[1], lo, hi)
	return extremes
}))}}

var groupSumRows = []Row[GroupFold[float32]]{{"avx2", AVX2, always(GroupFold[float32](func(terms [2][]float32, n int, to [2][]float32) {
	if !foldable(n) {
		sumGroups(terms, n, to)
		return
	}
	for i, to := range to {
		sumGroupsAVX2(&terms[i][0], n, len(to), &to[0])
	}
}))}}

// Terms have signs by which the bits of the extreme are the largest: those of
// the smallest are not above 0, those of the largest not below it, or NaNs.
var groupExtremeRows = []Row[GroupFold[float32]]{{"avx2", AVX2, always(GroupFold[float32](func(terms [2][]float32, n int, to [2][]float32) {
	if !foldable(n) {
		extremesOfGroups(terms, n, to)
		return
	}
	for i, to := range to {
		largestBitsAVX2(&terms[i][0], n, len(to), &to[0])
	}
	for g, hi := range to[1] {
		if hi != hi {
			to[0][g] = hi
		}
	}
}))}}

// foldable reports whether kernels fold groups of n terms.
func foldable(n int) bool { return n%Lanes == 0 || n == 8 || n == 16 || n == 32 }

var packingRows = []Row[Packing]{{"avx2", AVX2, always(Packing{unpackByKernel, packByKernel})}}

// packedStep is what the number of codes of the packing kernels is a multiple of.
const packedStep = 32

// unpackByKernel is Unpack; codes that begin or end within a byte, and those
// that do not follow each other, are left to the definition.
func unpackByKernel(codes []int8, base unsafe.Pointer, number, stride int64, d tensor.DType) {
	head := min(int(number&1), len(codes))
	whole := (len(codes) - head) / packedStep * packedStep
	if stride != 1 || whole == 0 {
		Unpack(codes, base, number, stride, d)
		return
	}
	Unpack(codes[:head], base, number, 1, d)
	run := unpackU4
	if d == tensor.S4 {
		run = unpackS4
	}
	run(&codes[head], (*byte)(unsafe.Add(base, (number+int64(head))>>1)), whole)
	Unpack(codes[head+whole:], base, number+int64(head+whole), 1, d)
}

// packByKernel is Pack, likewise.
func packByKernel(base unsafe.Pointer, number, stride int64, codes []int8) {
	head := min(int(number&1), len(codes))
	whole := (len(codes) - head) / packedStep * packedStep
	if stride != 1 || whole == 0 {
		Pack(base, number, stride, codes)
		return
	}
	Pack(base, number, 1, codes[:head])
	pack4((*byte)(unsafe.Add(base, (number+int64(head))>>1)), &codes[head], whole)
	Pack(base, number+int64(head+whole), 1, codes[head+whole:])
}
