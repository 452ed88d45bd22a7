//go:build !heap

package testcase

import (
	"os"
	"syscall"
	"unsafe"
)

const hasGuards = true

var page = int64(os.Getpagesize())

// guarded maps n bytes between two pages that are not, at the end of the
// last page or at the start of the first. At the end they are aligned for
// elements of which n is a multiple.
func guarded(n int64, atEnd bool) (memory []byte, free func()) {
	inside := (n + page - 1) / page * page
	all, err := syscall.Mmap(-1, 0, int(inside+2*page), syscall.PROT_NONE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		panic(err)
	}
	pages := all[page : page+inside]
	if inside > 0 {
		if err := syscall.Mprotect(pages, syscall.PROT_READ|syscall.PROT_WRITE); err != nil {
			panic(err)
		}
	}
	memory = pages[:n:n]
	if atEnd {
		memory = pages[inside-n:]
	}
	return memory, func() {
		if err := syscall.Munmap(all); err != nil {
			panic(err)
		}
	}
}

// protect makes the pages of guarded memory read-only.
func protect(memory []byte) {
	if len(memory) == 0 {
		return
	}
	start := uintptr(unsafe.Pointer(unsafe.SliceData(memory)))
	before := start % uintptr(page)
	pages := unsafe.Slice((*byte)(unsafe.Add(unsafe.Pointer(unsafe.SliceData(memory)), -int(before))), uintptr(len(memory))+before)
	if err := syscall.Mprotect(pages, syscall.PROT_READ); err != nil {
		panic(err)
	}
}
