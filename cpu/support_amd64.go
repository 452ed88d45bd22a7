package cpu

import (
	"unsafe"

	"github.com/isobit-ml/isobit/tensor"
)

// Best returns the largest instruction set that this machine has.
func Best() ISA {
	switch {
	case hasAVX512():
		return AVX512
	case hasAVX2():
		return AVX2
	}
	return Go
}

// ReadsStrands reports whether memory comes faster to this processor in strands
// (Runs) than in one run after the other with lines asked for in advance. AMD's
// family 25 with AVX-512 (Zen 4) takes down to 0.65 of the time, without (Zen 3)
// up to 1.85 of it, family 26 (Zen 5) twice as long.
var ReadsStrands = amdFamily() == 25 && Best() == AVX512

var paramRows = []Row[ParamKernels]{
	{"avx2", AVX2, func(t Types) (ParamKernels, bool) {
		return ParamKernels{
			func(v unsafe.Pointer, n int, s Span, zeroPoints bool, lo, hi float64) {
				loadByKernel(unsafe.Slice((*float32)(v), n), s, zeroPoints, lo, hi)
			},
			func(dst, src unsafe.Pointer, count, run int) {
				expandAVX2F32((*float32)(dst), (*float32)(src), count, run)
			},
		}, t.Compute == tensor.F32
	}},
	{"avx2", AVX2, func(t Types) (ParamKernels, bool) {
		return ParamKernels{loadGo[float64], func(dst, src unsafe.Pointer, count, run int) {
			expandAVX2F64((*float64)(dst), (*float64)(src), count, run)
		}}, t.Compute == tensor.F64
	}},
}

var (
	scaleKernels = [tensor.Count]paramKernel{tensor.F32: copyScales, tensor.F16: loadScalesAVX2F16, tensor.BF16: loadScalesAVX2BF16}
	zeroKernels  = [tensor.Count]paramKernel{
		tensor.F32: loadZerosAVX2F32, tensor.F16: loadZerosAVX2F16, tensor.BF16: loadZerosAVX2BF16,
		tensor.I32: loadZerosAVX2I32, tensor.I64: loadZerosAVX2I64, tensor.S8: loadZerosAVX2S8, tensor.U8: loadZerosAVX2U8,
		tensor.S16: loadZerosAVX2S16, tensor.U16: loadZerosAVX2U16,
	}
)

// copyScales is the kernel of scales in the compute type.
func copyScales(to *float32, from *byte, n int, _, _ float32) {
	copy(unsafe.Slice(to, n), unsafe.Slice((*float32)(unsafe.Pointer(from)), n))
}

// storeZeros clears n bytes around the caches: both are multiples of a line.
func storeZeros(to *byte, n int) { storeZerosAVX2(to, n) }

// storeLines copies n bytes around the caches: n and both addresses are multiples of a line.
func storeLines(to, from unsafe.Pointer, n int) { storeLinesAVX2((*byte)(to), (*byte)(from), n) }

// copyRowsByVectors copies rows of 16 to longCopy bytes, at least one, and reports whether it can.
func copyRowsByVectors(to unsafe.Pointer, toStep int64, from unsafe.Pointer, fromStep, bytes, rows int64) bool {
	if Allowed() < AVX2 {
		return false
	}
	copyShortRowsAVX2((*byte)(to), int(toStep), (*byte)(from), int(fromStep), int(bytes), int(rows))
	return true
}

// prefetch asks for bytes.
func prefetch(from unsafe.Pointer, bytes int64, _ *Scratch) {
	prefetchLines((*byte)(from), int(bytes+63)/64)
}

// StoreFence orders stores around the caches before those that come after.
func StoreFence() { storeFence() }

var foldRows = []Row[Fold[float32]]{{"avx2", AVX2, always(Fold[float32](func(lanes *[Lanes]float32) float32 {
	return foldLanesAVX2(&lanes[0])
}))}}

var minMaxFoldRows = []Row[MinMaxFold[float32]]{{"avx2", AVX2, always(MinMaxFold[float32](func(sums [2]*[Lanes]float32) (extremes [2]float32) {
	lo, hi, nan := foldMinMaxAVX2(&sums[0][0], &sums[1][0])
	if nan != 0 {
		return FoldMinMax(sums)
	}
	MergeMinMax(&extremes[0], &extremes[1], lo, hi)
	return extremes
}))}}

var groupSumRows = []Row[GroupSums[float32]]{{"avx2", AVX2, always(GroupSums[float32](func(terms [2][]float32, n int, to [2][]float32) {
	if n%Lanes != 0 && n != 8 && n != 16 && n != 32 {
		sumGroups(terms, n, to)
		return
	}
	for i, to := range to {
		sumGroupsAVX2(&terms[i][0], n, len(to), &to[0])
	}
}))}}

var (
	columnFoldRows   = []Row[ColumnFold[float32]]{{"avx2", AVX2, always(foldBy(addAVX2F32))}}
	columnFoldRows64 = []Row[ColumnFold[float64]]{{"avx2", AVX2, always(foldBy(addAVX2F64))}}
)

// fewExtremes are the kernels of groups of few elements, by type.
var fewExtremes = map[tensor.DType]fewExtremesKernel{
	tensor.F32: fewExtremesAVX2F32, tensor.F16: fewExtremesAVX2F16, tensor.BF16: fewExtremesAVX2BF16,
}

var columnExtremeRows = []Row[ColumnExtremes[float32]]{{"avx2", AVX2, func(t Types) (ColumnExtremes[float32], bool) {
	kernel := map[tensor.DType]columnKernel[float32]{
		tensor.F32: columnExtremesAVX2F32, tensor.F16: columnExtremesAVX2F16, tensor.BF16: columnExtremesAVX2BF16,
	}[t.In[0]]
	return columnExtremes(kernel), kernel != nil
}}}

var columnExtremeRows64 = []Row[ColumnExtremes[float64]]{{"avx2", AVX2, func(t Types) (ColumnExtremes[float64], bool) {
	return columnExtremes(columnExtremesAVX2F64), t.In[0] == tensor.F64
}}}

var chooseParamsRows = []Row[ChooseParams[float32]]{{"avx2", AVX2, always(ChooseParams[float32](func(extremes [2][]float32, codes Codes[float32]) {
	const step = 8
	whole := len(extremes[0]) / step * step
	switch {
	case whole == 0:
	case codes.Symmetric:
		chooseSymmetricAVX2(&extremes[0][0], &extremes[1][0], whole, codes.QMin, codes.QMax, codes.QMax, codes.Eps)
	default:
		chooseAsymmetricAVX2(&extremes[0][0], &extremes[1][0], whole, codes.QMin, codes.QMax, codes.QMax-codes.QMin, codes.Eps)
	}
	chooseParams([2][]float32{extremes[0][whole:], extremes[1][whole:]}, codes)
}))}}

// quickParams fills in what runs need for quick codes (internal/gen/quick.go),
// and reports whether all of them may have those.
func quickParams(n int, p *runParams, lo, hi float32) bool {
	pitch := int(unsafe.Sizeof(p.first))
	return quickParamsAVX2(n, (*float32)(unsafe.Pointer(&p.scale)), (*float32)(unsafe.Pointer(&p.zero)), 32, &p.first[0], pitch, lo, hi)
}

// quickColumnParams does so for n elements, a multiple of 8, whose zero points lie some bytes apart, 8 by 8.
func quickColumnParams(n int, scale, zero *float32, zeroStep int, p *columnParams, lo, hi float32) bool {
	zeroBytesAVX2(&p.zeros[0], zero, zeroStep, n)
	return quickParamsAVX2(n, scale, zero, zeroStep, &p.first[0], int(unsafe.Sizeof(p.first)), lo, hi)
}
