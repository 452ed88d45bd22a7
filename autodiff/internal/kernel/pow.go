package kernel

import (
	"math"

	"github.com/isobit-ml/isobit/autodiff/internal/detmath"
)

// Power is x to the power y: detmath.Pow, rounded once.
func Power[T Float]() Binary[T, T] {
	return Binary[T, T]{
		VV: powers[T],
		VS: func(z, x []T, y T) { powers(z, x, []T{y}) },
		SV: func(z []T, x T, y []T) { powers(z, []T{x}, y) },
	}
}

// powBlock is how many numbers are taken at a time, in f64.
const powBlock = 512

// powers takes rows, or a number for x or y.
func powers[T Float](z, x, y []T) {
	var power, base, exponent [powBlock]float64
	whole := 0 // a power for all that is a product
	if n := float64(y[0]); len(y) == 1 && n == math.Trunc(n) && math.Abs(n) <= 64 {
		whole = int(n)
	}
	for at := 0; at < len(z); at += powBlock {
		n := min(powBlock, len(z)-at)
		widen(base[:n], x, at)
		if whole != 0 {
			wholePowers(power[:n], base[:n], exponent[:n], whole)
		} else {
			widen(exponent[:n], y, at)
			anyPowers(power[:n], base[:n], exponent[:n])
		}
		z := z[at : at+n]
		if is32[T]() {
			FromF64(slice[float32](z), power[:n])
		} else {
			copy(slice[float64](z), power[:n])
		}
	}
}

// widen fills a block from an element on, or with a number.
func widen[T Float](to []float64, x []T, at int) {
	switch {
	case len(x) == 1:
		for i := range to {
			to[i] = float64(x[0])
		}
	case is32[T]():
		ToF64(to, slice[float32](x[at:]))
	default:
		copy(to, slice[float64](x[at:]))
	}
}

// anyPowers leaves what is no usual power to detmath.
func anyPowers(z, x, y []float64) {
	var usual [powBlock]int64
	fastPowers(z, x, y, usual[:])
	for i, done := range usual[:len(z)] {
		if done == 0 {
			z[i] = detmath.Pow(x[i], y[i])
		}
	}
}

// wholePowers are detmath's products, with some memory. Of a negative power, it takes another way where
// those are infinite.
func wholePowers(z, x, memory []float64, n int) {
	factor, begun := x, false
	for left := max(n, -n); left > 0; left >>= 1 {
		if left&1 == 1 {
			if begun {
				mulVV(z, z, factor)
			} else {
				copy(z, factor)
			}
			begun = true
		}
		if left > 1 {
			mulVV(memory, factor, factor)
			factor = memory
		}
	}
	if n > 0 {
		return
	}
	divSV(z, 1, z)
	for i, v := range z {
		if v == 0 {
			z[i] = detmath.Pow(x[i], float64(n))
		}
	}
}
