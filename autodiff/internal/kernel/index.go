package kernel

// Out of range indices are reported by position; -1 says there is none.

// CheckIndex returns the position of the first index outside [0, n).
func CheckIndex[I Integer](idx []I, n int) int {
	for i, v := range idx {
		if v < 0 || int64(v) >= int64(n) {
			return i
		}
	}
	return -1
}

// Gather writes z[o, j, i] = x[o, idx[o, j, i], i].
func Gather[T Bits, I Integer](t Threads, z, x []T, idx []I, outer, n, m, inner int) {
	t.For(outer, m*inner, 1, func(lo, hi int) {
		for o := lo; o < hi; o++ {
			for j := range m {
				row := idx[(o*m+j)*inner:][:inner]
				dst := z[(o*m+j)*inner:][:inner]
				for i, v := range row {
					dst[i] = x[(o*n+int(v))*inner+i]
				}
			}
		}
	})
}

// Select writes z[o, j, :] = x[o, idx[j], :].
func Select[T Bits, I Integer](t Threads, z, x []T, idx []I, outer, n, inner int) {
	m := len(idx)
	t.For(outer*m, inner, 1, func(lo, hi int) {
		for r := lo; r < hi; r++ {
			o, j := r/m, r%m
			copy(z[r*inner:(r+1)*inner], x[(o*n+int(idx[j]))*inner:])
		}
	})
}

// chunk is the numeric contract's Chunk order: a destination takes its
// contributions in ascending source order, sums chunks of 256 left to right,
// and folds the chunk sums pairwise.
const chunk = 256

// ScatterAdd writes x with the rows y[j, :] of inner elements added to x[dst[j], :],
// where x has rows rows: each destination's finished sum is added once, of no
// contributions, too, so that a -0 becomes +0.
func ScatterAdd[T Float, I Integer](z, x, y []T, dst []I, rows, inner int) {
	start := make([]int32, rows+1)
	most := int32(0)
	for _, d := range dst {
		start[d+1]++
		most = max(most, start[d+1])
	}
	if most <= chunk { // one chunk each: sums begin at +0, and x may come last
		clear(z)
		for j, d := range dst {
			if inner == 1 {
				z[d] += y[j]
			} else {
				row := z[int(d)*inner:][:inner]
				addVV(row, row, y[j*inner:][:inner])
			}
		}
		addVV(z, x, z)
		return
	}
	addVS(z, x, 0)
	// Sort the sources by destination: counting keeps them in order.
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

// FlatIndex writes, for every position of idx[o, j, i], the flat position
// [o, idx, i] in a tensor with n elements along the middle dimension.
func FlatIndex[I Integer](z []int64, idx []I, outer, n, m, inner int) {
	for o := range outer {
		for j := range m {
			for i := range inner {
				at := (o*m+j)*inner + i
				z[at] = int64((o*n+int(idx[at]))*inner + i)
			}
		}
	}
}
