//go:build !purego

package kernel

import (
	"unsafe"

	"github.com/isobit-ml/isobit/autodiff/internal/detmath"
	"github.com/isobit-ml/isobit/cpu"
)

// The loops that training spends its time in besides matrix products, in assembly (see
// internal/gen/vectors.go). Each works on whole vectors and is followed by its Go loop for the rest;
// both give the same bits.

func hasAVX2() bool   { return cpu.Allowed() >= cpu.AVX2 }
func hasAVX512() bool { return cpu.Allowed() >= cpu.AVX512 }

// runLength is how many elements a call of a loop takes at most: Go's scheduler and collector wait
// for it, here for less than 100 us.
const runLength = 1 << 13

// fast runs an assembly loop on the first elements of z and returns how many
// it has done.
func fast[T Number](v vector, z, x, y []T) int { return fastBy(v, z, x, y, 0, 0) }

// fastBy does so with numbers.
func fastBy[T Number](v vector, z, x, y []T, a, b T) int {
	step := 32 / int(unsafe.Sizeof(a))
	if !hasAVX2() || len(z) < step || !isFloat[T]() {
		return 0
	}
	wide := hasAVX512() && len(z) >= 8*step // few elements may be a vector of AVX2 and no other
	if wide {
		step *= 2
	}
	n := len(z) &^ (step - 1)
	for at := 0; at < n; at += runLength {
		length := min(runLength, n-at)
		if isFloat32[T]() {
			runF32(v, wide, as[float32](&z[at]), as[float32](&x[at]), as[float32](&y[at]), float32(a), float32(b), length)
		} else {
			runF64(v, wide, as[float64](&z[at]), as[float64](&x[at]), as[float64](&y[at]), float64(a), float64(b), length)
		}
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

// doubleLoops are those of f64, of some.
var doubleLoops = [functions][2]func(z, x *float64, table *[744]float64, n int){
	expOf:     {expAVX2F64, expAVX512F64},
	logOf:     {logAVX2F64, logAVX512F64},
	log1pOf:   {log1pAVX2F64, log1pAVX512F64},
	tanhOf:    {tanhAVX2F64, tanhAVX512F64},
	sigmoidOf: {sigmoidAVX2F64, sigmoidAVX512F64},
	erfOf:     {erfAVX2F64, erfAVX512F64},
}

// fastDouble does so with a function's loop of f64.
func fastDouble[T any](f functionOf, z, x []T) int {
	loop, n := doubleLoops[f][0], len(z)&^3
	if !hasAVX2() || loop == nil {
		return 0
	}
	if hasAVX512() {
		loop, n = doubleLoops[f][1], len(z)&^7
	}
	for at := 0; at < n; at += runLength {
		loop(as[float64](&z[at]), as[float64](&x[at]), &detmath.ErfNumbers, min(runLength, n-at))
	}
	return n
}

// fastErfs takes the first n numbers of a block and those that fill a vector with them. It names its loops, so
// that a block may lie on the stack.
func fastErfs(z, x *detmath.Numbers, n int) bool {
	n = (n + 7) &^ 7
	if hasAVX512() {
		erfAVX512F64(&z[0], &x[0], &detmath.ErfNumbers, n)
	} else if hasAVX2() {
		erfAVX2F64(&z[0], &x[0], &detmath.ErfNumbers, n)
	}
	return hasAVX2()
}

// fastExps does so with exp.
func fastExps(z, x *detmath.Numbers, n int) bool {
	n = (n + 7) &^ 7
	if hasAVX512() {
		expAVX512F64(&z[0], &x[0], &detmath.ErfNumbers, n)
	} else if hasAVX2() {
		expAVX2F64(&z[0], &x[0], &detmath.ErfNumbers, n)
	}
	return hasAVX2()
}

// fastFunction does so with a function's loop. That of AVX-512 takes 16 elements at a time.
func fastFunction[T any](f functionOf, z, x, dy []T) int {
	if !is32[T]() {
		return fastDouble(f, z, x)
	}
	n, wide := len(z)&^7, 0
	if !hasAVX2() || n == 0 {
		return 0
	}
	if hasAVX512() {
		wide = n &^ 15
	}
	for at := 0; at < n; {
		loop, length := functionLoops[f][0], n-at
		if at < wide {
			loop, length = functionLoops[f][1], wide-at
		}
		length = min(runLength, length)
		loop(as[float32](&z[at]), as[float32](&x[at]), as[float32](&dy[at]), &detmath.ErfNumbers, length)
		at += length
	}
	return n
}

// fastCast casts the first elements and returns how many.
func fastCast[Z, X any](of castOf, z []Z, x []X) int {
	n := len(z) &^ 7
	if !hasAVX2() {
		return 0
	}
	for at := 0; at < n; at += runLength {
		runCast(of, as[uint8](&z[at]), as[uint8](&x[at]), min(runLength, n-at))
	}
	return n
}

// fastReverse copies the last elements of x to the first of z, from the end on, and returns how many.
func fastReverse[T any](z, x []T) int {
	var one T
	size := int(unsafe.Sizeof(one))
	n := len(z) &^ (32/size - 1)
	if !hasAVX2() || size < 4 {
		return 0
	}
	for at := 0; at < n; at += runLength {
		length := min(runLength, n-at)
		from := as[uint8](&x[len(x)-at-length])
		if size == 4 {
			reverse32AVX2(as[uint8](&z[at]), from, length)
		} else {
			reverse64AVX2(as[uint8](&z[at]), from, length)
		}
	}
	return n
}

// runCast is a switch because of what its arguments are, as runF32.
func runCast(of castOf, z, x *uint8, n int) {
	switch of {
	case bf16ToF32:
		bf16ToF32AVX2(z, x, n)
	case f16ToF32:
		f16ToF32AVX2(z, x, n)
	case f64ToF32:
		f64ToF32AVX2(z, x, n)
	case f32ToF64:
		f32ToF64AVX2(z, x, n)
	case f32ToF16:
		f32ToF16AVX2(z, x, n)
	case f32ToBF16:
		f32ToBF16AVX2(z, x, n)
	}
}

// fastPowers takes what is a usual power of the first elements, and says of each whether it is.
func fastPowers(z, x, y []float64, usual []int64) {
	n := len(z) &^ 15
	switch {
	case !hasAVX2() || n == 0:
	case hasAVX512():
		powAVX512(&z[0], &x[0], &y[0], &usual[0], n)
	default:
		powAVX2(&z[0], &x[0], &y[0], &usual[0], n)
	}
}

// fastAdam takes the first elements' step and returns how many.
func fastAdam[T Float](o *Adam[T], p, g, m, v []T) int {
	lanes := 32 / int(unsafe.Sizeof(o.Rate))
	if !hasAVX2() {
		return 0
	}
	f32, f64 := adamAVX2F32, adamAVX2F64
	if hasAVX512() && len(p) >= 2*lanes {
		f32, f64, lanes = adamAVX512F32, adamAVX512F64, 2*lanes
	}
	n := len(p) &^ (lanes - 1)
	for at := 0; at < n; at += runLength {
		length := min(runLength, n-at)
		if isFloat32[T]() {
			f32(as[float32](&p[at]), as[float32](&g[at]), as[float32](&m[at]), as[float32](&v[at]), as[[8]float32](o), length)
		} else {
			f64(as[float64](&p[at]), as[float64](&g[at]), as[float64](&m[at]), as[float64](&v[at]), as[[8]float64](o), length)
		}
	}
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

const weightTapCount = 9

// fastWeightTaps does some lines of positions; at is in bytes, other distances in elements.
func fastWeightTaps[T Float](chains, x, dy []T, at *[weightTapCount]int, width, lines, xStep, xSkip int) {
	weightTapsAVX2(as[[weightTapCount][channelLanes]float32](&chains[0]), as[float32](&x[0]), as[float32](&dy[0]), at, lines, xStep*4, xSkip*4, width)
}

// fastPanel is how many columns fastConvolve takes at a time: ask once, since a cap may change.
func fastPanel() int {
	if hasAVX512() {
		return convolvePanel
	}
	return convolvePanel / 2
}

// fastConvolve multiplies rows of a with a panel of x, whose rows begin at some elements.
func fastConvolve[T Float](panel int, a Matrix[T], rows int, x []T, at []int32, y Matrix[T], with convolveAs) {
	loop := convolveAVX2
	if panel == convolvePanel {
		loop = convolveAVX512
	}
	const most = 48 // rows in a call, see runLength
	for i := 0; i < rows; i += most {
		loop(as[float32](&a.Data[i*a.Row]), a.Row*4, min(most, rows-i), as[float32](&x[0]), &at[0], len(at),
			as[float32](&y.Data[i*y.Row]), y.Row*4, int(with&moreOf), int(with&addTo))
	}
}

// fastPool does all windows of a row.
func fastPool(y []float32, at []int32, a, b []float32, first, w int) bool {
	if !hasAVX2() || len(y) == 0 {
		return false
	}
	maxPool2AVX2(&y[0], &at[0], &a[0], &b[0], int32(first), int32(w), len(y))
	return true
}

// fastLanes adds whole rows of lanes and returns how many elements it has added.
func fastLanes[T any](acc *[lanes]T, x []T) int {
	n := len(x) / lanes * lanes
	switch {
	case !hasAVX2() || n == 0:
		return 0
	case is32[T]():
		addLanesAVX2(as[[lanes]float32](acc), as[float32](&x[0]), n)
	default:
		addLanesAVX2F64(as[[lanes]float64](acc), as[float64](&x[0]), n)
	}
	return n
}

// fastFold folds all lanes into the first one, and reports whether it did.
func fastFold[T any](acc *[lanes]T) bool {
	switch {
	case !hasAVX2():
		return false
	case is32[T]():
		foldLanesAVX2(as[[lanes]float32](acc))
	default:
		foldLanesAVX2F64(as[[lanes]float64](acc))
	}
	return true
}
