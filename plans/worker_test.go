package plans_test

import (
	"testing"

	"github.com/isobit-ml/isobit/plans"
)

// Accumulators lay 16 bytes behind a cache line: every second vector was on two lines, and sums stored around the
// caches took up to 1.8 times as long.
func TestWorkerMemoryIsAligned(t *testing.T) {
	plans.EachLongArray(func(name string, at uintptr) {
		if at%64 != 0 {
			t.Errorf("%s begins %d bytes behind a cache line", name, at%64)
		}
	})
}
