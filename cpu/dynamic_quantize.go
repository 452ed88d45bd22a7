package cpu

import "unsafe"

// ChooseRuns chooses the scale and the zero point of groups of n elements, each
// a run of a call, as QParams does for what MinMax finds, and returns them in
// to; it does not read operands that hold parameters. A row of dynamic_quantize
// quantizes the groups, too. It does nothing, and returns false, where elements do
// not lie as its kernel wants them.
type ChooseRuns[C Compute] func(n int, a *Args, to [2][]C) bool

// DynamicQuantizeRows is the table of kernels that do in one step what rows of MinMax
// and Quantize do in two. It has no definition, which is those of MinMax, QParams and
// Quantize, and is empty for float64.
func DynamicQuantizeRows[C Compute]() []Row[ChooseRuns[C]] {
	return ownRows[ChooseRuns[C]](chooseRows(dynamicQuantizeKernels))
}

// ChooseQParamsRows is that of kernels that choose only.
func ChooseQParamsRows[C Compute]() []Row[ChooseRuns[C]] {
	return ownRows[ChooseRuns[C]](chooseRows(chooseQParamsKernels))
}

func chooseRows(ks kernels) []Row[ChooseRuns[float32]] {
	return fastRows(func(isa ISA, t Types) (ChooseRuns[float32], bool) {
		k := ks.find(isa, &t, 1)
		if k == nil {
			return nil, false
		}
		return k.chooseRuns, true
	})
}

// chooseRuns is ChooseRuns by a kernel.
func (k *kernel) chooseRuns(n int, a *Args, to [2][]float32) bool {
	if n*a.Runs.Steps > runsCall || a.Runs.Steps > maxRuns || !k.tryRuns(n, 1, a) {
		return false
	}
	runs := &a.Scratch.runs
	copy(to[0], (*[maxRuns]float32)(unsafe.Pointer(&runs.scale))[:])
	copy(to[1], (*[maxRuns]float32)(unsafe.Pointer(&runs.zero))[:])
	return true
}
