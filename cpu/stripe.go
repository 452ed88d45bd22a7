package cpu

import "unsafe"

// The order of dense sums (NUMERICS.md, section 4, "Stripe"): lane l of 64
// sums the positions l, l+64, ...; the lanes fold by halves; reductions longer
// than StripeBlock positions are cut into blocks of that many, whose results
// fold pairwise.
const (
	Lanes       = 64
	StripeBlock = 65536
	// laneSlack is how far behind the last lane a kernel may go on for zeros:
	// extremes there must not be another set's.
	laneSlack = 8
)

// lanesOf returns one of a scratch's sets of lanes.
func lanesOf[C Compute](s *Scratch, number int) *[Lanes]C {
	return (*[Lanes]C)(unsafe.Pointer(&s.lanes[number]))
}

// BothLanes returns the sets of lanes that striped kernels add to.
func BothLanes[C Compute](s *Scratch) [2]*[Lanes]C {
	return [2]*[Lanes]C{lanesOf[C](s, 0), lanesOf[C](s, 1)}
}

// addStripe adds terms at consecutive positions, the first of which is pos.
func addStripe[C Compute](lanes *[Lanes]C, pos int64, terms []C) {
	for len(terms) > 0 {
		l := int(pos % Lanes)
		m := min(Lanes-l, len(terms))
		for i, t := range terms[:m] {
			lanes[l+i] += t
		}
		terms, pos = terms[m:], pos+int64(m)
	}
}

// addTerms adds the terms of a striped kernel's elements from at on; pos is
// the position of its first element.
func addTerms[C Compute](a *Args, sum int, pos int64, at int, terms []C) {
	if !a.Wide {
		addStripe(lanesOf[C](a.Scratch, sum), pos+int64(at), terms)
		return
	}
	sums := unsafe.Slice((*C)(a.Sums[sum].P), at+len(terms))[at:]
	for i, t := range terms {
		sums[i] += t
	}
}

// Fold is a way to sum lanes by halves.
type Fold[C Compute] func(lanes *[Lanes]C) C

// FoldRows is the table of the ways to do so.
func FoldRows[C Compute]() []Row[Fold[C]] { return float32Before[Fold[C]](foldRows, foldLanes) }

// foldLanes sums the lanes by halves: l with l+32, then l+16, ... 1.
func foldLanes[C Compute](lanes *[Lanes]C) C {
	for h := Lanes / 2; h > 0; h /= 2 {
		for l := range h {
			lanes[l] += lanes[l+h]
		}
	}
	return lanes[0]
}

// Tree folds values pairwise in the order they are pushed: the binary tree
// over positions, in which an odd one out moves up unchanged. It never
// overflows: its depth is the number of bits of the count.
type Tree[C Compute] struct {
	level [64]C // level[k] is a finished subtree of 1<<k values where bit k of count is set
	count uint64
}

// Push adds the next value.
func (t *Tree[C]) Push(v C) {
	k := 0
	for ; t.count>>k&1 == 1; k++ {
		v = t.level[k] + v
	}
	t.level[k] = v
	t.count++
}

// Sum returns the fold of all values pushed, +0 if none were.
func (t *Tree[C]) Sum() C {
	var sum C
	first := true
	for k := 0; t.count>>k != 0; k++ {
		switch {
		case t.count>>k&1 == 0:
		case first:
			sum, first = t.level[k], false
		default:
			sum = t.level[k] + sum
		}
	}
	return sum
}

// TreeOf returns one of a scratch's trees, empty.
func TreeOf[C Compute](s *Scratch, number int) *Tree[C] {
	tree := ofCompute[C, Tree[C]](&s.tree32[number], &s.tree64[number])
	tree.count = 0
	return tree
}

// Striped is a kernel that maps n elements like an Elementwise one and adds
// up to two terms per element to two sets of lanes. pos is the position in
// the reduction of the first element.
type Striped func(n int, pos int64, a *Args)
