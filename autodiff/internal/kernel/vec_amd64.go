//go:build !purego

package kernel

import (
	"golang.org/x/sys/cpu"

	"github.com/isobit-ml/isobit/autodiff/internal/detmath"
)

// The loops of f32 that training spends its time in besides matrix products,
// in assembly (see internal/gen/vectors.go and functions.go). Each works on a multiple of 8
// elements and is followed by its Go loop for the rest; both give the same bits.

var hasAVX2 = cpu.X86.HasAVX2 && cpu.X86.HasFMA

var hasAVX512 = cpu.X86.HasAVX512F && cpu.X86.HasAVX512DQ && cpu.X86.HasAVX512VL

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
	case divVec:
		divAVX2(z0, x0, y0, n)
	case shareVec:
		shareAVX2(z0, x0, y0, n)
	case descendVec:
		descendAVX2(z0, x0, y0, n)
	case reluVec:
		reluAVX2(z0, x0, y0, n)
	case reluGradVec:
		reluGradAVX2(z0, x0, y0, n)
	}
	return n
}

// functionLoops are those of functions, on AVX2 and AVX-512.
var functionLoops = [functions][2]func(z, x, dy *float32, table *[744]float64, n int){
	expOf:      {expAVX2, expAVX512},
	logOf:      {logAVX2, logAVX512},
	log1pOf:    {log1pAVX2, log1pAVX512},
	tanhOf:     {tanhAVX2, tanhAVX512},
	sigmoidOf:  {sigmoidAVX2, sigmoidAVX512},
	erfOf:      {erfAVX2, erfAVX512},
	geluOf:     {geluAVX2, geluAVX512},
	geluGradOf: {geluGradAVX2, geluGradAVX512},
}

// fastFunction does so with a function's loop.
func fastFunction[T any](f functionOf, z, x, dy []T) int {
	n := len(z) &^ 7
	if !hasAVX2 || n == 0 || !isFloat32[T]() {
		return 0
	}
	wide := 0
	if hasAVX512 {
		wide = 1
	}
	functionLoops[f][wide](as[float32](&z[0]), as[float32](&x[0]), as[float32](&dy[0]), &detmath.ErfNumbers, n)
	return n
}

const tapLines = 4

// fastTaps does tapLines lines.
func fastTaps[T Float](t *taps[T], y, x, w []T, fused bool) {
	loop := roundedTapsAVX2
	if fused {
		loop = fusedTapsAVX2
	}
	loop(as[float32](&y[0]), as[float32](&x[0]), as[float32](&w[0]), t.rows, t.columns, t.down*4, t.across*4, t.line*4, t.width*4, t.width)
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
