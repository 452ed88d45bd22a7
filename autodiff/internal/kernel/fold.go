package kernel

// SumInts adds whole numbers along an axis.
func SumInts[T Integer](t Threads, z, x []T, a Axis) {
	leftToRight(t, z, x, a, 0, addVV[T], func(z, x []T, n int) {
		for r := range z {
			z[r] = sumInts(x[r*n:][:n])
		}
	})
}

// sumInts adds rows of it first: the order of whole numbers changes nothing.
func sumInts[T Integer](x []T) (sum T) {
	const width = 256
	if len(x) >= 2*width {
		var rows [width]T
		addVV(rows[:], x[:width], x[width:2*width])
		for x = x[2*width:]; len(x) >= width; x = x[width:] {
			addVV(rows[:], rows[:], x[:width])
		}
		for h := width / 2; h >= 16; h /= 2 {
			addVV(rows[:h], rows[:h], rows[h:2*h])
		}
		for _, v := range rows[:16] {
			sum += v
		}
	}
	for _, v := range x {
		sum += v
	}
	return sum
}

// Prod multiplies along an axis, from left to right.
func Prod[T Number](t Threads, z, x []T, a Axis) {
	leftToRight(t, z, x, a, 1, mulVV[T], func(z, x []T, n int) {
		for ; len(z) >= 8; z, x = z[8:], x[8*n:] {
			prodEight(z, x, n)
		}
		for r := range z {
			p := T(1)
			for _, v := range x[r*n:][:n] {
				p *= v
			}
			z[r] = p
		}
	})
}

// prodEight multiplies eight rows side by side, as each product waits for the one before.
func prodEight[T Number](z, x []T, n int) {
	row := func(r int) []T { return x[r*n:][:n] }
	x0, x1, x2, x3, x4, x5, x6, x7 := row(0), row(1), row(2), row(3), row(4), row(5), row(6), row(7)
	a, b, c, d, e, f, g, h := T(1), T(1), T(1), T(1), T(1), T(1), T(1), T(1)
	for i := range x0 {
		a, b, c, d = a*x0[i], b*x1[i], c*x2[i], d*x3[i]
		e, f, g, h = e*x4[i], f*x5[i], g*x6[i], h*x7[i]
	}
	z[0], z[1], z[2], z[3], z[4], z[5], z[6], z[7] = a, b, c, d, e, f, g, h
}

// leftToRight goes along an axis from left to right: over rows of what lies side by side, which
// begin as first, or over whole sequences.
func leftToRight[T Number](t Threads, z, x []T, a Axis, first T, rows func(z, x, y []T), whole func(z, x []T, n int)) {
	n, inner := a.N, a.Inner
	if inner == 1 {
		t.For(a.Outer, n, 8, func(lo, hi int) { whole(z[lo:hi], x[lo*n:hi*n], n) })
		return
	}
	const width = 1024 // results stay in the first cache
	tiles := (inner + width - 1) / width
	t.For(a.Outer*tiles, n*min(inner, width), 1, func(lo, hi int) {
		for ; lo < hi; lo++ {
			o, j := lo/tiles, lo%tiles*width
			z := z[o*inner+j:][:min(width, inner-j)]
			for i := range z {
				z[i] = first
			}
			for i := range n {
				rows(z, z, x[(o*n+i)*inner+j:][:len(z)])
			}
		}
	})
}
