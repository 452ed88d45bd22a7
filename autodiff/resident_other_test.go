//go:build !linux

package autodiff

import (
	"runtime"
	"testing"
)

func residentBytes(*testing.T) int64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapSys)
}
