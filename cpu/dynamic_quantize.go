package cpu

import "unsafe"

// ChooseRuns chooses the scale and the zero point of groups of n elements, each
// a run of a call, as QParams does for what MinMax finds, and returns them in
// to. It may quantize the group with them, too. Operands that hold parameters
// are left alone. It does nothing, and is false, where elements lie otherwise.
type ChooseRuns[C Compute] func(n int, a *Args, to [2][]C) bool

// The ways to do in one step what tables of MinMax and Quantize do, by compute
// type; their definitions are the definition.
var (
	DynamicQuantizeRows32 = chooseRows(dynamicQuantizeKernels)
	DynamicQuantizeRows64 []Row[ChooseRuns[float64]]
	ChooseQParamsRows32   = chooseRows(chooseQParamsKernels)
	ChooseQParamsRows64   []Row[ChooseRuns[float64]]
)

func chooseRows(ks kernels) []Row[ChooseRuns[float32]] {
	return []Row[ChooseRuns[float32]]{{"avx512", AVX512, func(t Types) (ChooseRuns[float32], bool) {
		k := ks.find(AVX512, &t, 1)
		if k == nil {
			return nil, false
		}
		return func(n int, a *Args, to [2][]float32) bool {
			if n*a.Runs.Steps > runsCall || a.Runs.Steps > maxRuns || !k.runs(n, 1, a) {
				return false
			}
			runs := &a.Scratch.runs
			copy(to[0], (*[maxRuns]float32)(unsafe.Pointer(&runs.scale))[:])
			copy(to[1], (*[maxRuns]float32)(unsafe.Pointer(&runs.zero))[:])
			return true
		}, true
	}}}
}
