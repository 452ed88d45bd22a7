package cpu_test

import (
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/isobit-ml/isobit/cpu"
	"github.com/stretchr/testify/require"
)

// Rows of all lengths around those of moves are copied, and nothing beside them: both sides are at one end of pages that
// cannot be read or written beyond. Of many rows later ones are asked for, which may lie before the first or be none.
func TestCopyRows(t *testing.T) {
	defer cpu.Limit(cpu.Allowed())
	for _, isa := range []cpu.ISA{cpu.Go, cpu.Allowed()} {
		cpu.Limit(isa)
		for _, most := range []int64{5, 70} {
			for _, atTheEnd := range []bool{false, true} {
				testCopyRows(t, most, atTheEnd)
			}
		}
	}
}

func testCopyRows(t *testing.T, most int64, atTheEnd bool) {
	r := rand.New(rand.NewPCG(4, uint64(most)))
	for bytes := int64(1); bytes <= 300; bytes++ {
		rows, fromGap, toGap := most-r.Int64N(5), r.Int64N(20), r.Int64N(20)
		size := func(gap int64) int64 { return rows*(bytes+gap) - gap }
		from := make([]byte, size(fromGap))
		for i := range from {
			from[i] = byte(r.Uint32())
		}
		from, to := guard(from, atTheEnd), guard(make([]byte, size(toGap)), atTheEnd)
		fromStep, toStep := bytes+fromGap, bytes+toGap
		first, firstTo := int64(0), int64(0)
		if r.IntN(2) == 0 {
			first, fromStep = (rows-1)*fromStep, -fromStep
		}
		if r.IntN(2) == 0 {
			firstTo, toStep = (rows-1)*toStep, -toStep
		}
		want := make([]byte, len(to))
		for i := range rows {
			copy(want[firstTo+i*toStep:][:bytes], from[first+i*fromStep:])
		}
		cpu.CopyRows(unsafe.Pointer(&to[firstTo]), toStep, unsafe.Pointer(&from[first]), fromStep, bytes, rows)
		require.Equal(t, want, to, "%d rows of %d bytes, steps of %d and %d", rows, bytes, fromStep, toStep)
		releaseGuards()
	}
}
