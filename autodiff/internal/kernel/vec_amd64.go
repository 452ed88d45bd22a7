//go:build !purego

package kernel

import "golang.org/x/sys/cpu"

// The loops of f32 that training spends its time in besides matrix products,
// in assembly. Each works on a multiple of 8 elements and is followed by its
// Go loop for the rest; both give the same bits.

// addAVX2 is: z[i] = x[i] + y[i].
//
//go:noescape
func addAVX2(z, x, y *float32, n int)

// addLanesAVX2 is: acc[i%64] += x[i], for n a multiple of 64, not 0.
//
//go:noescape
func addLanesAVX2(acc *[64]float32, x *float32, n int)

// mulAVX2 is: z[i] = x[i] * y[i].
//
//go:noescape
func mulAVX2(z, x, y *float32, n int)

// scaleAVX2 is: z[i] = x[i] * y[0].
//
//go:noescape
func scaleAVX2(z, x, y *float32, n int)

// descendAVX2 is: z[i] -= x[i] * y[0].
//
//go:noescape
func descendAVX2(z, x, y *float32, n int)

// reluAVX2 is: z[i] = max(x[i], 0).
//
//go:noescape
func reluAVX2(z, x, y *float32, n int)

// reluGradAVX2 is: z[i] = x[i] if y[i] != 0, else 0.
//
//go:noescape
func reluGradAVX2(z, x, y *float32, n int)

var hasAVX2 = cpu.X86.HasAVX2

// vector names an assembly loop. It is no function value, which would move
// its arguments to the heap.
type vector int

const (
	addVec vector = iota
	mulVec
	scaleVec
	descendVec
	reluVec
	reluGradVec
)

// fast runs an assembly loop on the first elements of z and returns how many
// it has done.
func fast[T any](v vector, z, x, y []T) int {
	n := len(z) &^ 7
	if !hasAVX2 || n == 0 || !isFloat32[T]() {
		return 0
	}
	z0, x0, y0 := as[float32](&z[0]), as[float32](&x[0]), as[float32](&y[0])
	switch v {
	case addVec:
		addAVX2(z0, x0, y0, n)
	case mulVec:
		mulAVX2(z0, x0, y0, n)
	case scaleVec:
		scaleAVX2(z0, x0, y0, n)
	case descendVec:
		descendAVX2(z0, x0, y0, n)
	case reluVec:
		reluAVX2(z0, x0, y0, n)
	case reluGradVec:
		reluGradAVX2(z0, x0, y0, n)
	}
	return n
}

func fastLanes[T any](acc *[lanes]T, x []T) int {
	n := len(x) / lanes * lanes
	if !hasAVX2 || n == 0 || !isFloat32[T]() {
		return 0
	}
	addLanesAVX2(as[[lanes]float32](acc), as[float32](&x[0]), n)
	return n
}
