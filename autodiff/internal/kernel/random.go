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
func Bits64(seed, i uint64) uint64 { return mix(mix(seed) ^ i*0xd1342543de82ef95) }

// Uniform writes numbers in [lo, hi).
func Uniform[T Float](t Threads, z []T, seed uint64, lo, hi float64) {
	bits := 53
	if is32[T]() {
		bits = 24
	}
	t.For(len(z), 4, 64, func(a, b int) {
		for i := a; i < b; i++ {
			u := float64(Bits64(seed, uint64(i))>>(64-bits)) / float64(uint64(1)<<bits)
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
	const block = 128
	log, mul, div, add := Log[float64], Mul[float64](), Div[float64](), Add[float64]()
	t.For(len(z), 16, block, func(a, b int) {
		var us, ss, rs [block]float64
		for ; a < b; a += block {
			n := min(block, b-a)
			u, s, r := us[:n], ss[:n], rs[:n]
			for i := range u {
				u[i], s[i] = inCircle(seed, uint64(a+i))
			}
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

// inCircle returns a coordinate of a random point in the unit circle, and the square of its distance from the centre.
func inCircle(seed, i uint64) (u, s float64) {
	for try := seed; ; try += 0x632be59bd9b4e019 {
		bits := Bits64(try, i)
		u = float64(float64(int32(bits))/(1<<31)) + 0x1p-32
		v := float64(float64(int32(bits>>32))/(1<<31)) + 0x1p-32
		if s = float64(u*u) + float64(v*v); s < 1 {
			return u, s
		}
	}
}
