package cpu

import "unsafe"

// Transpose copies a matrix so that rows become columns: element (r, c) goes
// from c elements after r*fromStep bytes to r elements after c*toStep bytes.
type Transpose func(to unsafe.Pointer, toStep int64, from unsafe.Pointer, fromStep, rows, columns int64)

// Transposes are the ways to transpose, by the type of elements: In[0].
var Transposes = withDefinition(transposeRows, pickTranspose)

func pickTranspose(t Types) (Transpose, bool) {
	f := [...]Transpose{1: transpose[uint8], 2: transpose[uint16], 4: transpose[uint32], 8: transpose[uint64]}[t.In[0].Size()]
	return f, f != nil
}

func transpose[T any](to unsafe.Pointer, toStep int64, from unsafe.Pointer, fromStep, rows, columns int64) {
	size := int64(unsafe.Sizeof(*new(T)))
	for c := range columns {
		for r := range rows {
			*(*T)(unsafe.Add(to, c*toStep+r*size)) = *(*T)(unsafe.Add(from, r*fromStep+c*size))
		}
	}
}
