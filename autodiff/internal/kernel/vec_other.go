//go:build !amd64 || purego

package kernel

var hasAVX2 = false

type vector int

const (
	addVec vector = iota
	mulVec
	scaleVec
	descendVec
	reluVec
	reluGradVec
)

func fast[T any](v vector, z, x, y []T) int { return 0 }

func fastLanes[T any](acc *[lanes]T, x []T) int { return 0 }

func fastFinite[T any](x []T) (n int, finite bool) { return 0, true }

func fastPool(y []float32, at []int32, a, b []float32, first, w int) bool { return false }
