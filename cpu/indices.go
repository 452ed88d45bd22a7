package cpu

// IndexSearch searches lists of indices, for each type: I64 and I32 for the position of the
// first one that is negative or larger than that of the last row, or -1; Leaps for
// whether one that follows the first is negative, less than the one before, or
// larger by more than most.
type IndexSearch struct {
	I64      func(indices []int64, last int64) int64
	I32      func(indices []int32, last int32) int64
	LeapsI64 func(indices []int64, most int64) bool
	LeapsI32 func(indices []int32, most int32) bool
}

// FirstOutside is the table of rows of IndexSearch.
var FirstOutside = withDefinition(outsideRows, always(IndexSearch{firstOutside[int64], firstOutside[int32], leaps[int64], leaps[int32]}))

func leaps[T int32 | int64](indices []T, most T) bool {
	for i := 1; i < len(indices); i++ {
		if step := indices[i] - indices[i-1]; indices[i] < 0 || step < 0 || step > most {
			return true
		}
	}
	return false
}

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

// leapsBy is leaps by a kernel.
func leapsBy[T int32 | int64](found func(indices *T, n int, most T) bool) func(indices []T, most T) bool {
	return func(indices []T, most T) bool {
		for len(indices) > outsideStep {
			n := min(indicesPart, (len(indices)-1)/outsideStep*outsideStep)
			if found(&indices[0], n, most) {
				return true
			}
			indices = indices[n:]
		}
		return leaps(indices, most)
	}
}

// Widen are the ways to make a list of the first of some indices of 32 bits.
var Widen = withDefinition(widenRows, always(widenGo))

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
