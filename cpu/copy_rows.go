package cpu

import "unsafe"

// longCopy is how many bytes of a row the runtime copies as fast as moves of 16 or more.
const longCopy = 256

// CopyRows copies rows of some bytes, which lie a step apart. What is moved last of a row overlaps what was moved before.
func CopyRows(to unsafe.Pointer, toStep int64, from unsafe.Pointer, fromStep, bytes, rows int64) {
	switch {
	case bytes >= 16 && bytes <= longCopy && copyRowsByVectors(to, toStep, from, fromStep, bytes, rows):
	case bytes >= longCopy:
		for r := range rows {
			copy(unsafe.Slice((*byte)(unsafe.Add(to, r*toStep)), bytes), unsafe.Slice((*byte)(unsafe.Add(from, r*fromStep)), bytes))
		}
	case bytes >= 16:
		copyRowsBy[[16]byte](to, toStep, from, fromStep, bytes, rows)
	case bytes >= 8:
		copyRowsBy[[8]byte](to, toStep, from, fromStep, bytes, rows)
	case bytes >= 4:
		copyRowsBy[[4]byte](to, toStep, from, fromStep, bytes, rows)
	case bytes >= 2:
		copyRowsBy[[2]byte](to, toStep, from, fromStep, bytes, rows)
	default:
		copyStrided[uint8](to, toStep, from, fromStep, rows*bytes)
	}
}

// copyRowsBy moves arrays of bytes, which processors may want aligned no further.
func copyRowsBy[T any](to unsafe.Pointer, toStep int64, from unsafe.Pointer, fromStep, bytes, rows int64) {
	size := int64(unsafe.Sizeof(*new(T)))
	last := bytes - size
	if last <= size { // two moves a row, without a loop
		for toAt, fromAt := int64(0), int64(0); rows > 0; rows-- {
			t, f := unsafe.Add(to, toAt), unsafe.Add(from, fromAt)
			*(*T)(t) = *(*T)(f)
			*(*T)(unsafe.Add(t, last)) = *(*T)(unsafe.Add(f, last))
			toAt, fromAt = toAt+toStep, fromAt+fromStep
		}
		return
	}
	for r := range rows {
		t, f := unsafe.Add(to, r*toStep), unsafe.Add(from, r*fromStep)
		for at := int64(0); at < last; at += size {
			*(*T)(unsafe.Add(t, at)) = *(*T)(unsafe.Add(f, at))
		}
		*(*T)(unsafe.Add(t, last)) = *(*T)(unsafe.Add(f, last))
	}
}
