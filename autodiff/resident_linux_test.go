package autodiff

import (
	"bytes"
	"os"
	"strconv"
	"testing"
)

// residentBytes reads the resident set's size from the kernel.
func residentBytes(t *testing.T) int64 {
	data, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Skip(err)
	}
	pages, err := strconv.ParseInt(string(bytes.Fields(data)[1]), 10, 64)
	if err != nil {
		t.Skip(err)
	}
	return pages * int64(os.Getpagesize())
}
