//go:build !purego

package kernel

import "unsafe"

// Assembly loops of arithmetic and comparisons, for vec_amd64.go.

// fastVV runs the assembly loop of arithmetic on the first elements of rows and returns how many it has done.
func fastVV[T Number](of arithmetic, z, x, y []T) int {
	if len(z) == 0 {
		return 0
	}
	return fastArithmetic(of, z, &x[0], &y[0], isRow, isRow)
}

// fastVS does so with a row and a number.
func fastVS[T Number](of arithmetic, z, x []T, y T) int {
	if len(z) == 0 {
		return 0
	}
	return fastArithmetic(of, z, &x[0], &y, isRow, isNumber)
}

// fastSV does so with a number and a row.
func fastSV[T Number](of arithmetic, z []T, x T, y []T) int {
	if len(z) == 0 {
		return 0
	}
	return fastArithmetic(of, z, &x, &y[0], isNumber, isRow)
}

// What an operand of an assembly loop is.
const isRow, isNumber = false, true

func fastArithmetic[T Number](of arithmetic, z []T, x, y *T, xNumber, yNumber bool) int {
	size := int(unsafe.Sizeof(*x))
	step, wide := 32/size, 0
	if !hasAVX2() || len(z) < step {
		return 0
	}
	if hasAVX512() && len(z) >= 8*step { // see fastBy
		step, wide = 2*step, 1
	}
	xStep, yStep := size, size
	if xNumber {
		xStep = 0
	}
	if yNumber {
		yStep = 0
	}
	n, kind := len(z)&^(step-1), kindOf[T]()
	for i := 0; i < n; i += runLength {
		xAt, yAt := unsafe.Add(unsafe.Pointer(x), i*xStep), unsafe.Add(unsafe.Pointer(y), i*yStep)
		if !runArithmetic(of, kind, wide, as[uint8](&z[i]), (*uint8)(xAt), (*uint8)(yAt), xNumber, yNumber, min(runLength, n-i)) {
			return 0
		}
	}
	return n
}

// compareLoops are those of comparisons: of f32, f64, i32, i64 and truth values, on AVX2 and AVX-512.
var compareLoops = [comparisons][5][2]func(z, x, y *uint8, xNumber, yNumber, not bool, n int){
	equalOf: {
		{equalAVX2F32, equalAVX512F32}, {equalAVX2F64, equalAVX512F64},
		{equalAVX2I32, equalAVX512I32}, {equalAVX2I64, equalAVX512I64},
	},
	lessOf: {
		{lessAVX2F32, lessAVX512F32}, {lessAVX2F64, lessAVX512F64},
		{lessAVX2I32, lessAVX512I32}, {lessAVX2I64, lessAVX512I64},
	},
	lessEqualOf: {{lessEqualAVX2F32, lessEqualAVX512F32}, {lessEqualAVX2F64, lessEqualAVX512F64}},
	andOf:       {truthValues: {andAVX2U8, andAVX512U8}},
	orOf:        {truthValues: {orAVX2U8, orAVX512U8}},
	xorOf:       {truthValues: {xorAVX2U8, xorAVX512U8}},
}

// fastCompare compares the first elements of rows, of which one may be a number, and returns how many.
func fastCompare[T Number | uint8](of comparison, kind int, not bool, z []uint8, x, y []T) int {
	if compareLoops[of][kind][0] == nil { // of whole numbers x <= y where y < x does not hold
		of, not, x, y = lessOf, !not, y, x
	}
	n, wide := len(z)&^31, 0
	if !hasAVX2() {
		return 0
	}
	if hasAVX512() {
		wide = n &^ 63
	}
	xStep, yStep := min(len(x)-1, 1), min(len(y)-1, 1)
	for at := 0; at < n; {
		loop, length := compareLoops[of][kind][0], n-at
		if at < wide {
			loop, length = compareLoops[of][kind][1], wide-at
		}
		length = min(runLength, length)
		loop(&z[at], as[uint8](&x[at*xStep]), as[uint8](&y[at*yStep]), xStep == 0, yStep == 0, not, length)
		at += length
	}
	return n
}
