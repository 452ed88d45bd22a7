//go:build !linux || heap

package cpu_test

import "github.com/isobit-ml/isobit/internal/testcase"

// guard copies data to the end of an object of Go's heap, or to its start.
func guard(data []byte, atTheEnd bool) []byte {
	memory := testcase.Heap(int64(len(data)), atTheEnd)
	copy(memory, data)
	return memory
}

func releaseGuards() {}
