package kernel

import "math"

// ranked is an element by what orders it, and where it was.
type ranked struct {
	rank uint64
	at   int
}

// rank orders elements as whole numbers do, with equal zeros and NaN last; that of 32 bits has mostly
// as many.
func rank[T Number](v T) uint64 {
	switch {
	case isFloat[T]() && is32[T]():
		return uint64(key(float32(v)) + 1<<31)
	case isFloat[T]():
		return uint64(key(float64(v))) ^ 1<<63
	case is32[T]():
		return uint64(int64(v) + 1<<31)
	}
	return uint64(v) ^ 1<<63
}

// Sort writes the elements in ascending order along an axis and
// where each was: equals keep their order, NaN comes last.
func Sort[T Number](t Threads, z []T, at []int64, x []T, a Axis, descending bool) {
	reversed := uint64(0)
	if descending {
		reversed = math.MaxUint64
	}
	t.For(a.sequences(), 16*a.N, 1, func(lo, hi int) {
		memory := make([]ranked, 2*a.N)
		for r := lo; r < hi; r++ {
			from := a.start(r)
			for i := range a.N {
				memory[i] = ranked{rank(x[from+i*a.Inner]) ^ reversed, i}
			}
			for i, e := range ordered(memory[:a.N], memory[a.N:]) {
				z[from+i*a.Inner] = x[from+e.at*a.Inner]
				at[from+i*a.Inner] = int64(e.at)
			}
		}
	})
}

// ordered returns x in order, in its place or the other one: digit by digit from the last, of those in
// which elements differ.
func ordered(x, other []ranked) []ranked {
	const few = 48
	if len(x) <= few {
		for i := 1; i < len(x); i++ {
			e, j := x[i], i
			for ; j > 0 && x[j-1].rank > e.rank; j-- {
				x[j] = x[j-1]
			}
			x[j] = e
		}
		return x
	}
	differ := uint64(0)
	for _, e := range x {
		differ |= e.rank ^ x[0].rank
	}
	for shift := 0; shift < 64; shift += 8 {
		if differ>>shift&255 == 0 {
			continue
		}
		var place [256]int
		for _, e := range x {
			place[e.rank>>shift&255]++
		}
		next := 0
		for d, count := range place {
			place[d], next = next, next+count
		}
		for _, e := range x {
			d := e.rank >> shift & 255
			other[place[d]] = e
			place[d]++
		}
		x, other = other, x
	}
	return x
}
