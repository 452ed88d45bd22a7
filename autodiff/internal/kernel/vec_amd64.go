//go:build !purego

package kernel

import "golang.org/x/sys/cpu"

// The loops of f32 that training spends its time in besides matrix products,
// in assembly (see internal/gen/vectors.go). Each works on a multiple of 8
// elements and is followed by its Go loop for the rest; both give the same bits.

var hasAVX2 = cpu.X86.HasAVX2

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
	case shiftVec:
		shiftAVX2(z0, x0, y0, n)
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

// fastPool does all windows of a row.
func fastPool(y []float32, at []int32, a, b []float32, first, w int) bool {
	if !hasAVX2 || len(y) == 0 {
		return false
	}
	maxPool2AVX2(&y[0], &at[0], &a[0], &b[0], int32(first), int32(w), len(y))
	return true
}

// fastLanes adds whole rows of lanes and returns how many elements it has added.
func fastLanes[T any](acc *[lanes]T, x []T) int {
	n := len(x) / lanes * lanes
	if !hasAVX2 || n == 0 || !isFloat32[T]() {
		return 0
	}
	addLanesAVX2(as[[lanes]float32](acc), as[float32](&x[0]), n)
	return n
}
