package testcase

import (
	"unsafe"
)

// Memory is where tensors lie.
type Memory int

// The kinds of memory. In the last two, the pages on both sides are not
// mapped, so that the first byte that a run reads or writes beside a tensor
// ends it with a fault; inputs cannot be written. Where the system does not
// have such pages, they are plain memory.
const (
	Plain      Memory = iota
	EndsPage          // the next byte is not mapped
	BeginsPage        // the byte before is not mapped
)

func (m Memory) get(n int64) (memory []byte, free func()) {
	if m == Plain || !hasGuards {
		words := make([]uint64, n/8+1) // words, so that elements are aligned
		return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(words))), n), func() {}
	}
	return guarded(n, m == EndsPage)
}

func (m Memory) protect(memory []byte) {
	if m != Plain && hasGuards {
		protect(memory)
	}
}
