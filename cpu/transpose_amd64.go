package cpu

import "unsafe"

// transposeKernels take multiples of some rows and columns, by the size of elements.
var transposeKernels = [...]struct {
	side int64
	run  func(to *byte, toStep int, from *byte, fromStep, rows, columns int)
}{1: {8, transpose8AVX2}, 2: {8, transpose16AVX2}, 4: {4, transpose32AVX2}, 8: {2, transpose64AVX2}}

var transposeRows = []Row[Transpose]{{"avx2", AVX2, func(t Types) (Transpose, bool) {
	size := t.In[0].Size()
	kernel := transposeKernels[size]
	rest, ok := pickTranspose(t)
	return func(to unsafe.Pointer, toStep int64, from unsafe.Pointer, fromStep, rows, columns int64) {
		wholeRows, wholeColumns := rows-rows%kernel.side, columns-columns%kernel.side
		kernel.run((*byte)(to), int(toStep), (*byte)(from), int(fromStep), int(wholeRows), int(wholeColumns))
		if wholeColumns < columns && rows > 0 {
			rest(unsafe.Add(to, wholeColumns*toStep), toStep, unsafe.Add(from, wholeColumns*size), fromStep, wholeRows, columns-wholeColumns)
		}
		if wholeRows < rows && columns > 0 {
			rest(unsafe.Add(to, wholeRows*size), toStep, unsafe.Add(from, wholeRows*fromStep), fromStep, rows-wholeRows, columns)
		}
	}, ok
}}}
