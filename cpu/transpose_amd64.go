package cpu

import "unsafe"

type transposeRun func(to *byte, toStep int, from *byte, fromStep, rows, columns int)

// transposeKernels take multiples of some rows and columns, by the size of elements; few rows, or
// columns, are fewer than that.
var transposeKernels = [...]struct {
	side                     int64
	run, fewRows, fewColumns transposeRun
}{
	1: {8, transpose8AVX2, transposeFewRows8AVX2, transposeFewColumns8AVX2},
	2: {8, transpose16AVX2, transposeFewRows16AVX2, transposeFewColumns16AVX2},
	4: {4, transpose32AVX2, transposeFewRows32AVX2, transposeFewColumns32AVX2},
	8: {2, transpose64AVX2, nil, nil},
}

const leastPage = 4096

var transposeRows = []Row[Transpose]{{"avx2", AVX2, func(t Types) (Transpose, bool) {
	size := t.In[0].Size()
	kernel := transposeKernels[size]
	side := kernel.side
	rest, ok := pickTranspose(t)
	return func(to unsafe.Pointer, toStep int64, from unsafe.Pointer, fromStep, rows, columns int64) {
		wholeRows, wholeColumns := rows-rows%side, columns-columns%side
		lastRows, lastColumns := rows-wholeRows, columns-wholeColumns
		run := func(f transposeRun, row, column, rows, columns int64) {
			f((*byte)(unsafe.Add(to, column*toStep+row*size)), int(toStep), (*byte)(unsafe.Add(from, row*fromStep+column*size)), int(fromStep), int(rows), int(columns))
		}
		across, down := int64(0), int64(0) // columns of the last rows, and rows of the last columns, that kernels take
		if lastRows > 0 && kernel.fewRows != nil && toStep == rows*size {
			// Stores that reach into the next columns, all of whose rows come later.
			beyond := ceilDiv(side-lastRows, rows)
			if across = max(0, columns-beyond) / side * side; across > 0 {
				run(kernel.fewRows, wholeRows, 0, lastRows, across)
			}
		}
		if wholeColumns > 0 {
			run(kernel.run, 0, 0, wholeRows, wholeColumns)
		}
		if gap := fromStep - columns*size; lastColumns > 0 && kernel.fewColumns != nil && gap >= 0 && gap < leastPage {
			// Loads that reach into gaps between rows, where each page has some of the rows.
			beyond := ceilDiv((side-lastColumns)*size, fromStep)
			if down = max(0, rows-beyond) / side * side; down > 0 {
				run(kernel.fewColumns, 0, wholeColumns, down, lastColumns)
			}
		}
		if lastColumns > 0 && down < rows {
			rest(unsafe.Add(to, wholeColumns*toStep+down*size), toStep, unsafe.Add(from, wholeColumns*size+down*fromStep), fromStep, rows-down, lastColumns)
		}
		if lastRows > 0 && across < wholeColumns {
			rest(unsafe.Add(to, wholeRows*size+across*toStep), toStep, unsafe.Add(from, wholeRows*fromStep+across*size), fromStep, lastRows, wholeColumns-across)
		}
	}, ok
}}}
