package kernel

import (
	"math"

	"github.com/isobit-ml/isobit/autodiff/internal/detmath"
)

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
	t.For(len(z), 32, 64, func(a, b int) {
		for i := a; i < b; i++ {
			for try := seed; ; try += 0x632be59bd9b4e019 {
				bits := Bits64(try, uint64(i))
				u := float64(float64(int32(bits))/(1<<31)) + 0x1p-32
				v := float64(float64(int32(bits>>32))/(1<<31)) + 0x1p-32
				if s := float64(u*u) + float64(v*v); s < 1 {
					r := math.Sqrt(-2 * detmath.Log(s) / s)
					z[i] = T(mean + float64(std*float64(u*r)))
					break
				}
			}
		}
	})
}
