package cpu

import "unsafe"

// StridedCopy copies n elements that lie fromStep bytes apart to where they lie toStep bytes apart.
type StridedCopy func(to unsafe.Pointer, toStep int64, from unsafe.Pointer, fromStep, n int64)

// StridedCopies are the ways to do so, by the type of elements: In[0].
var StridedCopies = withDefinition(stridedCopyRows, pickStridedCopy)

func pickStridedCopy(t Types) (StridedCopy, bool) {
	f := [...]StridedCopy{1: copyStrided[uint8], 2: copyStrided[uint16], 4: copyStrided[uint32], 8: copyStrided[uint64]}[t.In[0].Size()]
	return f, f != nil
}

// copyStrided takes four elements at a time, which halves its time.
func copyStrided[T any](to unsafe.Pointer, toStep int64, from unsafe.Pointer, fromStep, n int64) {
	toAt, fromAt := int64(0), int64(0)
	for ; n >= 4; n -= 4 {
		t, f := unsafe.Add(to, toAt), unsafe.Add(from, fromAt)
		v0, v1, v2, v3 := *(*T)(f), *(*T)(unsafe.Add(f, fromStep)), *(*T)(unsafe.Add(f, 2*fromStep)), *(*T)(unsafe.Add(f, 3*fromStep))
		*(*T)(t), *(*T)(unsafe.Add(t, toStep)), *(*T)(unsafe.Add(t, 2*toStep)), *(*T)(unsafe.Add(t, 3*toStep)) = v0, v1, v2, v3
		toAt, fromAt = toAt+4*toStep, fromAt+4*fromStep
	}
	for range n {
		*(*T)(unsafe.Add(to, toAt)) = *(*T)(unsafe.Add(from, fromAt))
		toAt, fromAt = toAt+toStep, fromAt+fromStep
	}
}

// RepeatEach copies each of count elements that lie fromStep bytes apart times over, to where they follow one another.
type RepeatEach func(to, from unsafe.Pointer, fromStep, count, times int64)

// RepeatsEach are the ways to do so, by the type of elements: In[0].
var RepeatsEach = withDefinition(repeatEachRows, pickRepeatEach)

func pickRepeatEach(t Types) (RepeatEach, bool) {
	f := [...]RepeatEach{1: repeatEach[uint8], 2: repeatEach[uint16], 4: repeatEach[uint32], 8: repeatEach[uint64]}[t.In[0].Size()]
	return f, f != nil
}

func repeatEach[T any](to, from unsafe.Pointer, fromStep, count, times int64) {
	size := int64(unsafe.Sizeof(*new(T)))
	toAt, fromAt := int64(0), int64(0)
	for range count {
		v := *(*T)(unsafe.Add(from, fromAt))
		fromAt += fromStep
		for range times {
			*(*T)(unsafe.Add(to, toAt)) = v
			toAt += size
		}
	}
}

// RepeatFirst fills some memory with copies of its first n bytes.
func RepeatFirst(all []byte, n int) {
	for ; n < len(all); n *= 2 {
		copy(all[n:], all[:n])
	}
}
