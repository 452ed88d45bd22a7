package cpu

// GroupFold folds the terms of groups of n that lie one after the other into a
// result each, for both sums: what a kernel left that had accumulators for
// each element.
type GroupFold[C Compute] func(terms [2][]C, n int, to [2][]C)

// The ways to sum the terms of groups, and to find their extremes.
var (
	GroupSumRows32     = append(groupSumRows, Row[GroupFold[float32]]{"go", Go, always(GroupFold[float32](sumGroups[float32]))})
	GroupSumRows64     = []Row[GroupFold[float64]]{{"go", Go, always(GroupFold[float64](sumGroups[float64]))}}
	GroupExtremeRows32 = append(groupExtremeRows, Row[GroupFold[float32]]{"go", Go, always(GroupFold[float32](extremesOfGroups[float32]))})
	GroupExtremeRows64 = []Row[GroupFold[float64]]{{"go", Go, always(GroupFold[float64](extremesOfGroups[float64]))}}
)

// sumGroups sums in Stripe order, in the memory of the terms. Lanes that no
// term falls to are +0, and no lane is -0: they can be left out.
func sumGroups[C Compute](terms [2][]C, n int, to [2][]C) {
	for sum, to := range to {
		for g := range to {
			lanes := terms[sum][g*n:][:n]
			for p := Lanes; p < n; p++ {
				lanes[p%Lanes] += lanes[p]
			}
			for h := Lanes / 2; h > 0; h /= 2 {
				for l := 0; l < h && l+h < n; l++ {
					lanes[l] += lanes[l+h]
				}
			}
			to[g] = lanes[0]
		}
	}
}

// extremesOfGroups makes both of a group NaNs where one of the largest is.
func extremesOfGroups[C Compute](terms [2][]C, n int, to [2][]C) {
	for g := range to[0] {
		var lo, hi C
		for _, v := range terms[0][g*n:][:n] {
			if v < lo {
				lo = v
			}
		}
		for _, v := range terms[1][g*n:][:n] {
			if v > hi || v != v {
				hi = v
			}
		}
		if hi != hi {
			lo = hi
		}
		to[0][g], to[1][g] = lo, hi
	}
}
