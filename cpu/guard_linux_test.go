//go:build !heap

package cpu_test

import (
	"os"
	"syscall"
)

// guard copies data between two pages that are not mapped: to the start of
// the first mapped page, or to the end of the last. The memory is good until
// releaseGuards.
func guard(data []byte, atTheEnd bool) []byte {
	page := os.Getpagesize()
	count := max(1, (len(data)+page-1)/page)
	if len(freePages[count]) == 0 {
		all, err := syscall.Mmap(-1, 0, (count+2)*page, syscall.PROT_NONE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
		if err == nil {
			err = syscall.Mprotect(all[page:(count+1)*page], syscall.PROT_READ|syscall.PROT_WRITE)
		}
		if err != nil {
			panic(err)
		}
		freePages[count] = append(freePages[count], all[page:(count+1)*page])
	}
	last := len(freePages[count]) - 1
	pages := freePages[count][last]
	freePages[count] = freePages[count][:last]
	usedPages = append(usedPages, pages)
	if atTheEnd {
		pages = pages[len(pages)-len(data):]
	}
	copy(pages, data)
	return pages[:len(data):len(data)]
}

// Guarded pages by their number.
var (
	freePages = map[int][][]byte{}
	usedPages [][]byte
)

func releaseGuards() {
	for _, pages := range usedPages {
		count := len(pages) / os.Getpagesize()
		freePages[count] = append(freePages[count], pages)
	}
	usedPages = nil
}
