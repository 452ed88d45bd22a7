// Package kernel holds the loops of autodiff's CPU backend: plain functions of
// slices, without tensors, errors or allocation. Results never depend on the
// number of threads: work is split over outputs, and sums follow the orders
// of the project's numeric contract.
package kernel

import "unsafe"

// Float lists the element types that are computed in.
type Float interface{ float32 | float64 }

// Integer lists the element types of index tensors.
type Integer interface{ int32 | int64 }

// Number lists the element types with arithmetic.
type Number interface{ Float | Integer }

// Bits lists the element types by size, for loops that only move elements.
type Bits interface {
	uint8 | uint16 | uint32 | uint64
}

// arithmetic names an assembly loop of rows or numbers (internal/gen/row_arithmetic.go).
type arithmetic int

const (
	addOf arithmetic = iota
	subOf
	mulOf
	divOf
	maxOf
	minOf
)

// vector names an assembly loop of a function (internal/gen/row_loops.go), X and Y being its rows, Z
// the result's row, which it reads, and A and B numbers.
type vector int

const (
	descendZXA vector = iota
	negX
	absX
	signX
	sqrtX
	floorX
	ceilX
	roundX
	reluX
	reluGradXY
	tanhGradXY
	sigmoidGradXY
	clampXAB
	clampGradXYAB
)

// functionOf names one of the functions that have assembly loops.
type functionOf int

const (
	expOf functionOf = iota
	logOf
	log1pOf
	tanhOf
	sigmoidOf
	erfOf
	geluOf
	geluGradOf
	functions
)

func as[U, T any](p *T) *U { return (*U)(unsafe.Pointer(p)) }

// slice reads x as elements of another type of the same size.
func slice[U, T any](x []T) []U {
	return unsafe.Slice((*U)(unsafe.Pointer(unsafe.SliceData(x))), len(x))
}

// isFloat32 tells float32 from the other types of arithmetic.
func isFloat32[T any]() bool {
	var t T
	_, ok := any(t).(float32)
	return ok
}

// isFloat tells floats from whole numbers.
func isFloat[T Number]() bool { return T(1)/2 != 0 }

// kindOf numbers f32, f64, i32 and i64.
func kindOf[T Number]() (kind int) {
	if !isFloat[T]() {
		kind = 2
	}
	if !is32[T]() {
		kind++
	}
	return kind
}

// is32 tells the sizes of floats apart.
func is32[T any]() bool {
	var t T
	return unsafe.Sizeof(t) == 4
}
