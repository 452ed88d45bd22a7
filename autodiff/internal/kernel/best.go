package kernel

// Which element is the best.
const Largest, Smallest = false, true

// Best writes the largest element along an axis, or the smallest, and its
// position: the first of equals, the first NaN before all.
func Best[T Number](t Threads, z []T, at []int64, x []T, a Axis, smallest bool) {
	t.For(a.sequences(), 2*a.N, 1, func(lo, hi int) {
		var memory [bestBlock / 2]T
		for r := lo; r < hi; r++ {
			from := a.start(r)
			pos := 0
			if a.Inner == 1 && isFloat[T]() {
				pos = bestOfRow(x[from:][:a.N], memory[:], smallest)
			} else {
				best := x[from]
				for i := 1; i < a.N && best == best; i++ {
					if v := x[from+i*a.Inner]; isBetter(v, best, smallest) {
						best, pos = v, i
					}
				}
			}
			at[r] = int64(pos)
			if z != nil {
				z[r] = x[from+pos*a.Inner]
			}
		}
	})
}

func isBetter[T Number](v, best T, smallest bool) bool {
	return v != v || v > best && !smallest || v < best && smallest
}

// bestBlock is how many elements are held against each other before it is looked where the best one is.
const bestBlock = 4096

// bestOfRow returns Best's position.
func bestOfRow[T Number](x, memory []T, smallest bool) (pos int) {
	best := x[0]
	for from := 0; from < len(x) && best == best; from += bestBlock {
		part := x[from:min(from+bestBlock, len(x))]
		v := extremeOf(part, memory, smallest)
		if from > 0 && !isBetter(v, best, smallest) {
			continue
		}
		best = v
		for i, w := range part {
			if w == v || w != w {
				pos = from + i
				break
			}
		}
	}
	return pos
}

// extremeOf returns the largest element or the smallest, a NaN if there is one: it holds halves against
// each other, in memory for half of them, as long as there are many.
func extremeOf[T Number](x, memory []T, smallest bool) T {
	of := maxOf
	if smallest {
		of = minOf
	}
	for hasAVX2() && len(x) >= 32 {
		half := (len(x) + 1) / 2
		a, b := x[:half], x[len(x)-half:]
		for i := fastVV(of, memory[:half], a, b); i < half; i++ {
			if smallest {
				memory[i] = min(a[i], b[i])
			} else {
				memory[i] = max(a[i], b[i])
			}
		}
		x = memory[:half]
	}
	// Four of them, as each waits for the one before.
	a, b, c, d := x[0], x[0], x[0], x[0]
	if smallest {
		for ; len(x) >= 4; x = x[4:] {
			a, b, c, d = min(a, x[0]), min(b, x[1]), min(c, x[2]), min(d, x[3])
		}
		for _, v := range x {
			a = min(a, v)
		}
		return min(a, b, c, d)
	}
	for ; len(x) >= 4; x = x[4:] {
		a, b, c, d = max(a, x[0]), max(b, x[1]), max(c, x[2]), max(d, x[3])
	}
	for _, v := range x {
		a = max(a, v)
	}
	return max(a, b, c, d)
}
