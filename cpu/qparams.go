package cpu

// MinMax is a kernel that folds n elements of In[0] into the smallest and the
// largest of them and 0, which lanes 0 and 1 hold in their first element; a
// NaN makes both a NaN. The position does not matter.
var MinMax = []Row[Striped]{
	{"go", Go, ByCompute[Striped](minMaxGo[float32], minMaxGo[float64])},
}

func minMaxGo[C Compute](n int, _ int64, a *Args) {
	lo, hi := &LanesOf[C](a.Scratch, 0)[0], &LanesOf[C](a.Scratch, 1)[0]
	for at := 0; at < n; at += Block {
		x := BlockOf[C](a.Scratch, 0, min(Block, n-at))
		Load(x, a.In[0].At(int64(at)))
		for _, v := range x {
			MergeMinMax(lo, hi, v, v)
		}
	}
}

// MergeMinMax folds another pair of extremes into lo and hi.
func MergeMinMax[C Compute](lo, hi *C, otherLo, otherHi C) {
	if otherLo < *lo || otherLo != otherLo {
		*lo = otherLo
	}
	if otherHi > *hi || otherHi != otherHi {
		*hi = otherHi
	}
}

// QParams returns the scale and the zero point for a range of values [lo, hi]
// that includes 0 (NUMERICS.md, section 3, "dynamic parameters").
func QParams[C Compute](lo, hi, qmin, qmax C, symmetric bool) (scale, zeroPoint C) {
	if symmetric {
		scale = max(-lo, hi) / qmax
	} else {
		scale = (hi - lo) / (qmax - qmin)
	}
	if scale == 0 {
		scale = 1
	}
	if !symmetric {
		zeroPoint = roundZeroPoint(qmin-lo/scale, qmin, qmax)
	}
	return scale, zeroPoint
}
