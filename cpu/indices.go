package cpu

// IndexSearch finds the position of the first index that is negative or larger than
// that of the last row, or -1, for each type of indices.
type IndexSearch struct {
	I64 func(indices []int64, last int64) int64
	I32 func(indices []int32, last int32) int64
}

// FirstOutside are the ways to do so.
var FirstOutside = append(outsideRows, Row[IndexSearch]{"go", Go, always(IndexSearch{firstOutside[int64], firstOutside[int32]})})

func firstOutside[T int32 | int64](indices []T, last T) int64 {
	for i, v := range indices {
		if v < 0 || v > last {
			return int64(i)
		}
	}
	return -1
}

const (
	outsideStep = 32      // what a kernel takes a multiple of
	widenStep   = 16      // what that of Widen does
	indicesPart = 1 << 16 // what it takes at most: the scheduler waits for it
)

// outsideBy is firstOutside by a kernel that reports whether there is one: none
// is what matters.
func outsideBy[T int32 | int64](found func(indices *T, n int, last T) bool) func(indices []T, last T) int64 {
	return func(indices []T, last T) int64 {
		whole := len(indices) / outsideStep * outsideStep
		for at := 0; at < whole; at += min(indicesPart, whole-at) {
			if n := min(indicesPart, whole-at); found(&indices[at], n, last) {
				return int64(at) + firstOutside(indices[at:], last)
			}
		}
		if at := firstOutside(indices[whole:], last); at >= 0 {
			return int64(whole) + at
		}
		return -1
	}
}

// Widen are the ways to make a list of the first of some indices of 32 bits.
var Widen = append(widenRows, Row[func(to []int64, from []int32)]{"go", Go, always(widenGo)})

func widenGo(to []int64, from []int32) {
	for i, v := range from[:len(to)] {
		to[i] = int64(v)
	}
}

// widenBy is widenGo by a kernel.
func widenBy(run func(to *int64, from *int32, n int)) func(to []int64, from []int32) {
	return func(to []int64, from []int32) {
		for len(to) >= widenStep {
			n := min(indicesPart, len(to)/widenStep*widenStep)
			run(&to[0], &from[0], n)
			to, from = to[n:], from[n:]
		}
		widenGo(to, from)
	}
}
