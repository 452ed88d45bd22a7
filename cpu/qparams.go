package cpu

import "unsafe"

// MinMax leaves the smallest and the largest of 0 and the elements of In[0] in
// accumulators, which FoldMinMax folds; positions do not matter. A NaN makes both
// a NaN.
var MinMax = stripedRows(minMaxKernels, 1,
	byCompute[Striped](minMaxGo[float32], minMaxGo[float64]))

func minMaxGo[C Compute](n int, _ int64, a *Args) {
	lo, hi := lanesOf[C](a.Scratch, 0)[:1], lanesOf[C](a.Scratch, 1)[:1]
	if a.Wide {
		lo, hi = unsafe.Slice((*C)(a.Sums[0].P), n), unsafe.Slice((*C)(a.Sums[1].P), n)
	}
	for at := 0; at < n; at += Block {
		x := BlockOf[C](a.Scratch, 0, min(Block, n-at))
		Load(x, a.In[0].At(int64(at)))
		for i, v := range x {
			l := min(at+i, len(lo)-1)
			MergeMinMax(&lo[l], &hi[l], v, v)
		}
	}
}

// MinMaxFold is a way to fold two sets of lanes into their extremes.
type MinMaxFold[C Compute] func(sums [2]*[Lanes]C) [2]C

// MinMaxFoldRows is the table of the ways to do so.
func MinMaxFoldRows[C Compute]() []Row[MinMaxFold[C]] {
	return float32Before[MinMaxFold[C]](minMaxFoldRows, FoldMinMax)
}

// FoldMinMax returns the extremes that MinMax left in lanes.
func FoldMinMax[C Compute](sums [2]*[Lanes]C) (extremes [2]C) {
	var lo, hi C
	for _, v := range sums[0] {
		if v < lo {
			lo = v
		}
	}
	for _, v := range sums[1] {
		if v > hi || v != v {
			hi = v
		}
	}
	MergeMinMax(&extremes[0], &extremes[1], lo, hi)
	return extremes
}

// MergeMinMax folds another pair of extremes into lo and hi.
func MergeMinMax[C Compute](lo, hi *C, otherLo, otherHi C) {
	if otherLo < *lo || otherLo != otherLo {
		*lo = otherLo
	}
	if otherHi > *hi || otherHi != otherHi {
		*hi = otherHi
	}
	if *hi != *hi {
		*lo = *hi // kernels note a NaN in the largest only
	}
}

// ChooseParams makes of the extremes of groups their scales and zero points, as QParams
// does.
type ChooseParams[C Compute] func(extremes [2][]C, codes Codes[C])

// ChooseParamsRows is the table of the ways to do so.
func ChooseParamsRows[C Compute]() []Row[ChooseParams[C]] {
	return float32Before[ChooseParams[C]](chooseParamsRows, chooseParams)
}

func chooseParams[C Compute](extremes [2][]C, codes Codes[C]) {
	for i, lo := range extremes[0] {
		extremes[0][i], extremes[1][i] = codes.QParams(lo, extremes[1][i])
	}
}

// Codes says what scales and zero points are chosen for.
type Codes[C Compute] struct {
	QMin, QMax, Eps C
	Symmetric       bool
}

// QParams returns the scale and the zero point for a range of values [lo, hi]
// that includes 0 (NUMERICS.md, section 3, choose_qparams). The zero point of a
// symmetric range is 0.
func (q Codes[C]) QParams(lo, hi C) (scale, zeroPoint C) {
	if q.Symmetric {
		scale = max(-lo, hi) / q.QMax
	} else {
		scale = (hi - lo) / (q.QMax - q.QMin)
	}
	if scale == 0 {
		scale = 1
	}
	if scale < q.Eps {
		scale = q.Eps
	}
	if !q.Symmetric {
		zeroPoint = roundZeroPoint(q.QMin-lo/scale, q.QMin, q.QMax)
	}
	return scale, zeroPoint
}
