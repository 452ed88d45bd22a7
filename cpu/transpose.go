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

// StridedCopy copies n elements that lie fromStep bytes apart to where they lie toStep bytes apart.
type StridedCopy func(to unsafe.Pointer, toStep int64, from unsafe.Pointer, fromStep, n int64)

// StridedCopies are the ways to do so, by the type of elements: In[0].
var StridedCopies = withDefinition(nil, pickStridedCopy)

func pickStridedCopy(t Types) (StridedCopy, bool) {
	f := [...]StridedCopy{1: copyStrided[uint8], 2: copyStrided[uint16], 4: copyStrided[uint32], 8: copyStrided[uint64]}[t.In[0].Size()]
	return f, f != nil
}

func copyStrided[T any](to unsafe.Pointer, toStep int64, from unsafe.Pointer, fromStep, n int64) {
	for i := range n {
		*(*T)(unsafe.Add(to, i*toStep)) = *(*T)(unsafe.Add(from, i*fromStep))
	}
}
