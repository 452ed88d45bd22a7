//go:build !amd64 || purego

package kernel

// No assembly loops: the Go loops do everything.

func hasAVX2() bool { return false }

func fast[T any](v vector, z, x, y []T) int { return 0 }

func fastFunction[T any](f functionOf, z, x, dy []T) int { return 0 }

const tapLines = 1

func fastTaps[T Float](t *taps[T], y, x, w []T, fused bool) {}

func fastLanes[T any](acc *[lanes]T, x []T) int { return 0 }

func fastPool(y []float32, at []int32, a, b []float32, first, w int) bool { return false }
