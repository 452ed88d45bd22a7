package kernel

import "math"

// Rows calls loop on pieces of z, x and, where they are given, y; cost is of an element, as for Threads.For.
func Rows[T any](t Threads, cost int, z, x, y []T, loop func(z, x, y []T)) {
	t.For(len(z), cost, 64, func(lo, hi int) {
		if y == nil {
			loop(z[lo:hi], x[lo:hi], nil)
		} else {
			loop(z[lo:hi], x[lo:hi], y[lo:hi])
		}
	})
}

// Neg writes -x.
func Neg[T Number](z, x, _ []T) {
	x = x[:len(z)]
	for i := fast(negX, z, x, x); i < len(z); i++ {
		z[i] = -x[i]
	}
}

// Relu writes max(x, 0), a NaN for a NaN.
func Relu[T Float](z, x, _ []T) {
	x = x[:len(z)]
	for i := fast(reluX, z, x, x); i < len(z); i++ {
		z[i] = max(x[i], 0)
	}
}

// ReluGrad writes g where y, Relu's result, is not 0; else 0. Without a
// branch, which real activations mispredict half of the time.
func ReluGrad[T Float](z, g, y []T) {
	n := fast(reluGradXY, z, g, y)
	z, g, y = z[n:], g[n:], y[n:]
	if is32[T]() {
		z, g, y := slice[uint32](z), slice[uint32](g), slice[uint32](y)
		g, y = g[:len(z)], y[:len(z)]
		for i := range z {
			v := y[i] << 1
			z[i] = g[i] & uint32(int32(v|-v)>>31)
		}
		return
	}
	zb, gb, yb := slice[uint64](z), slice[uint64](g), slice[uint64](y)
	for i := range zb {
		v := yb[i] << 1
		zb[i] = gb[i] & uint64(int64(v|-v)>>63)
	}
}

// Abs clears the sign.
func Abs[T Float](z, x, _ []T) {
	x = x[:len(z)]
	for i := fast(absX, z, x, x); i < len(z); i++ {
		z[i] = T(math.Abs(float64(x[i])))
	}
}

// Sign writes -1, 0 or 1, and a NaN for a NaN.
func Sign[T Float](z, x, _ []T) {
	x = x[:len(z)]
	for i := fast(signX, z, x, x); i < len(z); i++ {
		switch v := x[i]; {
		case v > 0:
			z[i] = 1
		case v < 0:
			z[i] = -1
		default:
			z[i] = v - v + 0
		}
	}
}

// Floor writes the next whole number below.
func Floor[T Float](z, x, _ []T) { whole(floorX, z, x, math.Floor) }

// Ceil writes the next whole number above.
func Ceil[T Float](z, x, _ []T) { whole(ceilX, z, x, math.Ceil) }

// Round writes the nearest whole number, ties to even.
func Round[T Float](z, x, _ []T) { whole(roundX, z, x, math.RoundToEven) }

func whole[T Float](v vector, z, x []T, f func(float64) float64) {
	x = x[:len(z)]
	for i := fast(v, z, x, x); i < len(z); i++ {
		z[i] = T(f(float64(x[i])))
	}
}

// Clamp writes x within [lo, hi], a NaN if one of the three is.
func Clamp[T Float](z, x []T, lo, hi T) {
	x = x[:len(z)]
	for i := fastBy(clampXAB, z, x, x, lo, hi); i < len(z); i++ {
		z[i] = min(max(x[i], lo), hi)
	}
}

// ClampGrad writes g where x is inside, bounds included, else 0.
func ClampGrad[T Float](z, g, x []T, lo, hi T) {
	g, x = g[:len(z)], x[:len(z)]
	for i := fastBy(clampGradXYAB, z, g, x, lo, hi); i < len(z); i++ {
		z[i] = 0
		if x[i] >= lo && x[i] <= hi {
			z[i] = g[i]
		}
	}
}

// In64 computes a function in float64 and rounds the result once.
func In64[T Float](f func(float64) float64) func(T) T {
	return func(x T) T { return T(f(float64(x))) }
}
