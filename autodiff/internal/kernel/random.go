package kernel

// mix is the finaliser of SplitMix64: it turns a counter into random bits.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// Bits64 returns random bits for position i of a stream. Every element has
// its own, so the order in which elements are made does not matter.
func Bits64(seed, i uint64) uint64 { return bitsOf(mix(seed), i) }

// bitsOf is Bits64 of a mixed seed.
func bitsOf(mixed, i uint64) uint64 { return mix(mixed ^ i*0xd1342543de82ef95) }

// Uniform writes numbers in [lo, hi).
func Uniform[T Float](t Threads, z []T, seed uint64, lo, hi float64) {
	bits := 53
	if is32[T]() {
		bits = 24
	}
	first, unit := mix(seed), 1/float64(uint64(1)<<bits)
	t.For(len(z), 4, 64, func(a, b int) {
		for i := a; i < b; i++ {
			u := float64(int64(bitsOf(first, uint64(i))>>(64-bits))) * unit
			v := T(lo + float64(u*(hi-lo)))
			if v >= T(hi) { // rounded up
				v = T(lo)
			}
			z[i] = v
		}
	})
}

// Normal writes normally distributed numbers, by the polar method.
func Normal[T Float](t Threads, z []T, seed uint64, mean, std float64) {
	const block = circleBlock
	log, mul, div, add := Log[float64], Mul[float64](), Div[float64](), Add[float64]()
	mixed := mix(seed)
	t.For(len(z), 16, block, func(a, b int) {
		var us, ss, rs [block]float64
		for ; a < b; a += block {
			n := min(block, b-a)
			u, s, r := us[:n], ss[:n], rs[:n]
			inCircles(u, s, seed, mixed, a)
			log(r, s, nil)
			mul.VS(r, r, -2)
			div.VV(r, r, s)
			Sqrt(r, r, nil)
			mul.VV(r, u, r)
			mul.VS(r, r, std)
			add.VS(r, r, mean)
			for i, v := range r {
				z[a+i] = T(v)
			}
		}
	})
}

// circleBlock is how many random points are looked for at a time.
const circleBlock = 128

// inCircles writes, for each position from at on, a coordinate of a random point in the unit circle and the square of
// its distance from the centre. The first points lie outside in a fifth of the cases, which no branch foresees.
func inCircles(u, s []float64, seed, mixed uint64, at int) {
	var outside [circleBlock]int
	n := 0
	s = s[:len(u)]
	for i := range u {
		u[i], s[i] = inSquare(bitsOf(mixed, uint64(at+i)))
		outside[n%circleBlock] = i
		if s[i] >= 1 {
			n++
		}
	}
	for _, i := range outside[:n] {
		for try := seed; s[i] >= 1; {
			try += 0x632be59bd9b4e019
			u[i], s[i] = inSquare(Bits64(try, uint64(at+i)))
		}
	}
}

// inSquare returns those of a point in the square around the circle.
func inSquare(bits uint64) (u, s float64) {
	u = float64(float64(int32(bits))*0x1p-31) + 0x1p-32
	v := float64(float64(int32(bits>>32))*0x1p-31) + 0x1p-32
	return u, float64(u*u) + float64(v*v)
}
