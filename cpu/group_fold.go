package cpu

import (
	"math/bits"
	"slices"
)

// Groups of n elements that lie one after the other, many at a time.

// GroupSums sums the terms of groups of n elements, for both sums: a kernel left a term in
// the accumulator of each element. GroupExtremes finds the smallest and the largest of the
// elements of each group of x, and of 0.
type (
	GroupSums[C Compute]     func(terms [2][]C, n int, to [2][]C)
	GroupExtremes[C Compute] func(s *Scratch, x Span, n int, to [2][]C)
)

// GroupSumRows is the table of the ways to sum groups.
func GroupSumRows[C Compute]() []Row[GroupSums[C]] {
	return float32Before[GroupSums[C]](groupSumRows, sumGroups)
}

// GroupExtremeRows is the table of the ways to find extremes.
func GroupExtremeRows[C Compute]() []Row[GroupExtremes[C]] {
	rows := slices.Concat(ownRows[GroupExtremes[C]](groupExtremeRows), ownRows[GroupExtremes[C]](groupExtremeRows64))
	return withDefinition(rows, always[GroupExtremes[C]](extremesOfGroups))
}

// sumGroups sums in Stripe order, in the memory of the terms. Lanes that no
// term falls to are +0, and no lane is -0: they can be left out.
func sumGroups[C Compute](terms [2][]C, n int, to [2][]C) {
	for sum, to := range to {
		if n == 1 {
			copy(to, terms[sum])
			continue
		}
		for g := range to {
			lanes := terms[sum][g*n:][:n]
			for p := Lanes; p < n; p++ {
				lanes[p%Lanes] += lanes[p]
			}
			for h := 1 << bits.Len(uint(min(n, Lanes)-1)) / 2; h > 0; h /= 2 {
				for l := 0; l < h && l+h < n; l++ {
					lanes[l] += lanes[l+h]
				}
			}
			to[g] = lanes[0]
		}
	}
}

// extremesOfGroups makes both of a group NaNs where an element is.
func extremesOfGroups[C Compute](s *Scratch, x Span, n int, to [2][]C) {
	for g := range to[0] {
		var lo, hi C
		for at := 0; at < n; at += Block {
			v := BlockOf[C](s, groupBlock, min(Block, n-at))
			Load(v, x.At(int64(g*n+at)))
			for _, v := range v {
				if v < lo {
					lo = v
				}
				if v > hi || v != v {
					hi = v
				}
			}
		}
		if hi != hi {
			lo = hi
		}
		to[0][g], to[1][g] = lo, hi
	}
}
