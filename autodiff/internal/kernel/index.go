package kernel

// Out of range indices are reported by position; -1 says there is none.

// CheckIndex returns the position of the first index outside [0, n).
func CheckIndex[I Integer](idx []I, n int) int {
	for i, v := range idx {
		if uint64(v) >= uint64(n) { // below 0 is far above
			return i
		}
	}
	return -1
}

// take writes z[j] = x[at[j]].
func take[T Bits, I Integer](z, x []T, at []I) {
	z = z[:len(at)]
	for j, v := range at {
		z[j] = x[v]
	}
}

// Gather writes z[o, j, i] = x[o, idx[o, j, i], i]: x has the axis, idx m elements along it.
func Gather[T Bits, I Integer](t Threads, z, x []T, idx []I, a Axis, m int) {
	inner := a.Inner
	t.For(a.Outer*m, inner, 64, func(lo, hi int) {
		for lo < hi {
			from := x[lo/m*a.N*inner:][:a.N*inner]
			rows := min(m-lo%m, hi-lo)
			at, dst := idx[lo*inner:][:rows*inner], z[lo*inner:][:rows*inner]
			lo += rows
			if inner == 1 {
				take(dst, from, at)
				continue
			}
			for ; len(at) > 0; at, dst = at[inner:], dst[inner:] {
				row := dst[:inner]
				for i, v := range at[:inner] {
					row[i] = from[int(v)*inner+i]
				}
			}
		}
	})
}

// Select writes z[o, j, :] = x[o, idx[j], :].
func Select[T Bits, I Integer](t Threads, z, x []T, idx []I, a Axis) {
	m, inner := len(idx), a.Inner
	if inner == 1 {
		t.For(a.Outer, m, 1, func(lo, hi int) {
			for o := lo; o < hi; o++ {
				take(z[o*m:], x[o*a.N:][:a.N], idx)
			}
		})
		return
	}
	t.For(a.Outer*m, inner, 1, func(lo, hi int) {
		for r := lo; r < hi; r++ {
			o, j := r/m, r%m
			copy(z[r*inner:(r+1)*inner], x[(o*a.N+int(idx[j]))*inner:])
		}
	})
}

// chunk is the numeric contract's Chunk order: a destination takes its
// contributions in ascending source order, sums chunks of 256 left to right,
// and folds the chunk sums pairwise.
const chunk = 256

// ScatterAdd writes x, which has the axis, with y[o, j, :] added to x[o, dst[j], :]; each o has
// its own destinations if there are so many.
func ScatterAdd[T Float, I Integer](t Threads, z, x, y []T, dst []I, a Axis) {
	if len(z) == 0 { // rows without elements may be as many as you like
		return
	}
	inner := a.Inner
	size, m := a.N*inner, len(y)/max(a.sequences(), 1)
	t.For(a.Outer, size+m*inner, 1, func(lo, hi int) {
		start := make([]int32, a.N+1)
		for o := lo; o < hi; o++ {
			own := dst[o*m%max(len(dst), 1):][:m]
			scatterAdd(z[o*size:][:size], x[o*size:][:size], y[o*m*inner:][:m*inner], own, start, inner)
		}
	})
}

// scatterAdd adds each destination's finished sum once, of no contributions, too, so that a -0
// becomes +0. start has a number for each row, and one more.
func scatterAdd[T Float, I Integer](z, x, y []T, dst []I, start []int32, inner int) {
	clear(start)
	most := int32(0)
	for _, d := range dst {
		start[d+1]++
		most = max(most, start[d+1])
	}
	if most <= chunk { // one chunk each: sums begin at +0, and x may come last
		clear(z)
		if inner == 1 {
			y = y[:len(dst)]
			for j, d := range dst {
				z[d] += y[j]
			}
		} else {
			for j, d := range dst {
				row := z[int(d)*inner:][:inner]
				addVV(row, row, y[j*inner:][:inner])
			}
		}
		addVV(z, x, z)
		return
	}
	addVS(z, x, 0)
	// Sort the sources by destination: counting keeps them in order.
	rows := len(start) - 1
	for r := range rows {
		start[r+1] += start[r]
	}
	order := make([]int32, len(dst))
	fill := append([]int32(nil), start[:rows]...)
	for j, d := range dst {
		order[fill[d]] = int32(j)
		fill[d]++
	}
	sum := make([]T, inner)
	var chunks []T
	for r := range rows {
		from := order[start[r]:start[r+1]]
		if len(from) == 0 {
			continue
		}
		chunks = chunks[:0]
		for c := 0; c < len(from); c += chunk {
			clear(sum)
			for _, j := range from[c:min(c+chunk, len(from))] {
				addVV(sum, sum, y[int(j)*inner:][:inner])
			}
			if len(from) > chunk {
				chunks = append(chunks, sum...)
			}
		}
		if len(from) > chunk {
			foldRows(sum, chunks)
		}
		row := z[r*inner:][:inner]
		addVV(row, row, sum)
	}
}

// FlatIndex writes, for every position of idx[:, i], the flat position [idx, i] in x[o].
func FlatIndex[I Integer](t Threads, z []int64, idx []I, inner int) {
	t.For(len(idx)/inner, 2*inner, 64, func(lo, hi int) {
		for ; lo < hi; lo++ {
			row := z[lo*inner:][:inner]
			for i, v := range idx[lo*inner:][:inner] {
				row[i] = int64(int(v)*inner + i)
			}
		}
	})
}
