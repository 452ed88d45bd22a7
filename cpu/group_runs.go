package cpu

import "unsafe"

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

// RotateLanes rotates the lanes of a call's first groups, so that lane number by becomes the first.
func RotateLanes[C Compute](s *Scratch, groups, by int) {
	if by == 0 {
		return
	}
	for all := LanesOfGroups[C](s, groups); len(all) > 0; all = all[Lanes:] {
		lanes := *(*[Lanes]C)(all)
		copy(all[copy(all, lanes[by:]):], lanes[:by])
	}
}

// groupByGroup makes a kernel that takes many groups of one that takes one.
func groupByGroup(one Striped, size int) Striped {
	return func(n int, pos int64, a *Args) {
		if a.Runs.Steps == 0 {
			one(n, pos, a)
			return
		}
		keep, s, bytes := a.Runs.Keep, a.Scratch, func(lanes unsafe.Pointer) []byte { return unsafe.Slice((*byte)(lanes), Lanes*size) }
		a.forRuns(func(group int) {
			for i := range 2 {
				lanes := bytes(unsafe.Pointer(&s.lanes[i]))
				if clear(lanes); keep {
					copy(lanes, bytes(s.lanesOfGroup(group, i, size)))
				}
			}
			one(n, pos, a)
			for i := range 2 {
				copy(bytes(s.lanesOfGroup(group, i, size)), bytes(unsafe.Pointer(&s.lanes[i])))
			}
		})
	}
}
