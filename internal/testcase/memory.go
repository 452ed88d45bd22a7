package testcase

import (
	"unsafe"
)

// Memory is where tensors lie.
type Memory int

// The kinds of memory. In the last two, the pages on both sides are not
// mapped, so that the first byte that a run reads or writes beside a tensor
// ends it with a fault; inputs cannot be written. Where the system does not
// have such pages, and with the build tag heap, they end and begin an object of
// Go's heap like plain memory.
const (
	Plain      Memory = iota
	EndsPage          // the next byte is not mapped
	BeginsPage        // the byte before is not mapped
)

func (m Memory) get(n int64) (memory []byte, free func()) {
	if m == Plain || !hasGuards {
		return Heap(n, m != BeginsPage), func() {}
	}
	return guarded(n, m == EndsPage)
}

// protect makes memory read-only where it lies between guards, and says whether it did.
func (m Memory) protect(memory []byte) bool {
	if m == Plain || !hasGuards {
		return false
	}
	protect(memory)
	return true
}

// Heap returns n bytes that end an object of Go's heap, or begin it. A pointer
// to what lies beside it, which no kernel need ever follow, ends the program:
// when the collector finds it, and as soon as it is made if that was compiled
// with -d=checkptr.
func Heap(n int64, atEnd bool) []byte {
	words := append([]uint64{}, make([]uint64, (n+7)/8)...) // of which the object has cap
	object := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(words))), 8*cap(words))
	if atEnd {
		return object[int64(len(object))-n:]
	}
	return object[:n:n]
}
