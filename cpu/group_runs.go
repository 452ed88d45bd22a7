package cpu

import (
	"unsafe"

	"github.com/isobit-ml/isobit/tensor"
)

// Groups of a run each, many in a call of a striped kernel: see Args.Runs.

// MaxGroupRuns is how many groups a Scratch has lanes for.
const MaxGroupRuns = 64

// LanesOfGroup returns both sets of lanes of a call's group.
func LanesOfGroup[C Compute](s *Scratch, number int) (sums [2]*[Lanes]C) {
	for i := range sums {
		sums[i] = (*[Lanes]C)(s.lanesOfGroup(number, i, int(unsafe.Sizeof(C(0)))))
	}
	return sums
}

// LanesOfGroups returns the lanes of a call's first groups, one set after the
// other: both of a group, then both of the next.
func LanesOfGroups[C Compute](s *Scratch, groups int) []C {
	return unsafe.Slice((*C)(unsafe.Pointer(&s.groups)), groups*2*Lanes)
}

// lanesOfGroup returns where a set of lanes is, of elements of a size.
func (s *Scratch) lanesOfGroup(number, sum, size int) unsafe.Pointer {
	return unsafe.Pointer(&unsafe.Slice((*byte)(unsafe.Pointer(&s.groups)), unsafe.Sizeof(s.groups))[(2*number+sum)*Lanes*size])
}

// groupByGroup makes a kernel that takes many groups of one that takes one.
func groupByGroup[C Compute](one Striped) Striped {
	return func(n int, pos int64, a *Args) {
		if a.Runs.Steps == 0 {
			one(n, pos, a)
			return
		}
		r, s := a.Runs, a.Scratch
		a.forRuns(func(group int) {
			for i, lanes := range BothLanes[C](s) {
				if *lanes = ([Lanes]C{}); r.Keep {
					*lanes = *LanesOfGroup[C](s, group)[i]
				}
			}
			one(n, pos, a)
			s.rotateLanes(r.Turn, int(unsafe.Sizeof(C(0))))
			for i, lanes := range BothLanes[C](s) {
				if r.Fold {
					*(*C)(a.Sums[i].At(int64(group)).P) = foldLanes(lanes)
				} else {
					*LanesOfGroup[C](s, group)[i] = *lanes
				}
			}
		})
	}
}

// HoldsRuns reports whether rows of an instruction set hold the sums of runs in registers (internal/gen/held_runs.go).
func (i ISA) HoldsRuns(compute, code tensor.DType) bool {
	return i == AVX512 && compute == tensor.F32 && code == tensor.None
}

// tryGroups runs a striped kernel on many groups, whose first elements belong to a lane,
// and reports whether it could.
func (k *kernel) tryGroups(n, lane, data int, a *Args) bool {
	r, c, s, size := &a.Runs, &a.call, a.Scratch, int(k.compute.Size())
	held := k.holds && lane == 0 && n <= runsCall
	if !held && (r.Fold || lane > 0 && lane+n > Lanes) {
		return false
	}
	if !r.Fold || r.Keep {
		c.sum0 = s.lanesOfGroup(0, 0, size)
	}
	if held {
		vector := vectorBytes[k.needs] / size
		c.held, c.fresh, c.folds = true, !r.Keep, r.Fold
		c.turn, c.turnTo = uint32(r.Turn%vector), (Lanes-r.Turn/vector*vector)%Lanes*size
	} else if !r.Keep {
		clear(unsafe.Slice((*byte)(c.sum0), r.Steps*2*Lanes*size))
	}
	r.lane = lane
	done := k.tryRuns(n, data, a)
	if *c, r.lane = (kernelCall{}), 0; done && !held && r.Turn > 0 {
		for i := range 2 * r.Steps {
			s.rotateSet(s.lanesOfGroup(0, i, size), r.Turn, size)
		}
	}
	return done
}
