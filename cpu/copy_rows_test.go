package cpu_test

import (
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/isobit-ml/isobit/cpu"
	"github.com/stretchr/testify/require"
)

// Rows of all lengths around those of moves are copied, and nothing beside them: both sides end at pages that cannot be
// read or written.
func TestCopyRows(t *testing.T) {
	defer cpu.Limit(cpu.Allowed())
	for _, isa := range []cpu.ISA{cpu.Go, cpu.Allowed()} {
		cpu.Limit(isa)
		testCopyRows(t)
	}
}

func testCopyRows(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 1))
	for bytes := int64(1); bytes <= 300; bytes++ {
		rows, fromGap, toGap := 1+r.Int64N(5), r.Int64N(20), r.Int64N(20)
		size := func(gap int64) int64 { return rows*(bytes+gap) - gap }
		from := make([]byte, size(fromGap))
		for i := range from {
			from[i] = byte(r.Uint32())
		}
		from, to := guard(from, true), guard(make([]byte, size(toGap)), true)
		want := make([]byte, len(to))
		for i := range rows {
			copy(want[i*(bytes+toGap):][:bytes], from[i*(bytes+fromGap):])
		}
		cpu.CopyRows(unsafe.Pointer(unsafe.SliceData(to)), bytes+toGap, unsafe.Pointer(unsafe.SliceData(from)), bytes+fromGap, bytes, rows)
		require.Equal(t, want, to, "%d rows of %d bytes", rows, bytes)
		releaseGuards()
	}
}
