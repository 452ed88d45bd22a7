//go:build !amd64 || purego

package kernel

import "github.com/isobit-ml/isobit/autodiff/internal/detmath"

// No assembly loops: the Go loops do everything.

func hasAVX2() bool { return false }

func fast[T Number](v vector, z, x, y []T) int { return 0 }

func fastBy[T Number](v vector, z, x, y []T, a, b T) int { return 0 }

func fastVV[T Number](of arithmetic, z, x, y []T) int { return 0 }

func fastVS[T Number](of arithmetic, z, x []T, y T) int { return 0 }

func fastSV[T Number](of arithmetic, z []T, x T, y []T) int { return 0 }

func fastFunction[T any](f functionOf, z, x, dy []T) int { return 0 }

func fastErfs(z, x *detmath.Numbers, n int) bool { return false }

func fastExps(z, x *detmath.Numbers, n int) bool { return false }

func fastCompare[T Number | uint8](of comparison, kind int, not bool, z []uint8, x, y []T) int {
	return 0
}

func fastCast[Z, X any](of castOf, z []Z, x []X) int { return 0 }

func fastReverse[T any](z, x []T) int { return 0 }

func fastAdam[T Float](o *Adam[T], p, g, m, v []T) int { return 0 }

func fastPowers(z, x, y []float64, usual []int64) {}

const tapLines = 1

func fastTaps[T Float](t *taps[T], y, x, w []T, fused bool) {}

const weightTapCount = 1

func fastWeightTaps[T Float](chains, x, dy []T, at *[weightTapCount]int, width, lines, xStep, xSkip int) {
}

func fastPanel() int { return 1 }

func fastConvolve[T Float](panel int, a Matrix[T], rows int, x []T, at []int32, y Matrix[T], with convolveAs) {
}

const runLength = 1

func fastLanes[T any](acc *[lanes]T, x []T) int { return 0 }

func fastPool(y []float32, at []int32, a, b []float32, first, w int) bool { return false }

func fastFold[T any](acc *[lanes]T) bool { return false }
