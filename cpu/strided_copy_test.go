package cpu_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/isobit-ml/isobit/cpu"
	"github.com/isobit-ml/isobit/tensor"
	"github.com/stretchr/testify/require"
)

// forEachSize runs a test of every row of a table, on elements of every size.
func forEachSize[F any](t *testing.T, rows []cpu.Row[F], test func(t *testing.T, d tensor.DType, f F)) {
	for _, row := range rows {
		for _, d := range []tensor.DType{tensor.S8, tensor.BF16, tensor.F32, tensor.F64} {
			t.Run(fmt.Sprint(row.Name, "/", d), func(t *testing.T) {
				if row.Needs > cpu.Best() {
					t.Skipf("this machine has no %v", row.Needs)
				}
				f, ok := row.Pick(cpu.Types{In: cpu.InTypes{d}})
				require.True(t, ok)
				test(t, d, f)
			})
		}
	}
}

// Every row copies the elements of its steps, and touches nothing beyond the first and the last: both
// sides end at pages that cannot be read or written.
func TestStridedCopies(t *testing.T) {
	forEachSize(t, cpu.StridedCopies, func(t *testing.T, d tensor.DType, strided cpu.StridedCopy) {
		r, size := rand.New(rand.NewPCG(2, uint64(d))), d.Size()
		for range 500 {
			n, fromStep, toStep, reversed := r.Int64N(150), (1+r.Int64N(3))*size, (1+r.Int64N(3))*size, r.IntN(2) > 0
			if r.IntN(2) > 0 {
				fromStep, toStep = 2*size, size
			}
			if r.IntN(8) == 0 {
				fromStep, toStep = 0, size // one element, expanded
			}
			bytes := func(step int64) []byte { return make([]byte, max(0, (n-1)*step+size)) }
			from := bytes(fromStep)
			for i := range from {
				from[i] = byte(r.Uint32())
			}
			from = guard(from, true)
			to := guard(bytes(toStep), true)
			want := make([]byte, len(to))
			for i := range n {
				at := i
				if reversed {
					at = n - 1 - i
				}
				copy(want[i*toStep:][:size], from[at*fromStep:])
			}
			start, step := unsafe.Pointer(unsafe.SliceData(from)), fromStep
			if reversed && n > 0 { // as a flipped view has it
				start, step = unsafe.Add(start, (n-1)*fromStep), -fromStep
			}
			strided(unsafe.Pointer(unsafe.SliceData(to)), toStep, start, step, n)
			require.Equal(t, want, to, "%d elements, steps of %d and %d bytes, reversed: %v", n, fromStep, toStep, reversed)
			releaseGuards()
		}
	})
}

// Likewise copies of each element.
func TestRepeatsEach(t *testing.T) {
	forEachSize(t, cpu.RepeatsEach, func(t *testing.T, d tensor.DType, each cpu.RepeatEach) {
		r, size := rand.New(rand.NewPCG(3, uint64(d))), d.Size()
		for range 300 {
			count, times, step := 1+r.Int64N(5), 1+r.Int64N(150), r.Int64N(4)*size
			from := make([]byte, (count-1)*step+size)
			for i := range from {
				from[i] = byte(r.Uint32())
			}
			var want []byte
			for i := range count {
				want = append(want, bytes.Repeat(from[i*step:][:size], int(times))...)
			}
			for _, ends := range []bool{false, true} {
				in, out := guard(from, ends), guard(make([]byte, len(want)), ends)
				each(unsafe.Pointer(unsafe.SliceData(out)), unsafe.Pointer(unsafe.SliceData(in)), step, count, times)
				require.Equal(t, want, out, "%d elements, %d bytes apart, %d times", count, step, times)
				releaseGuards()
			}
		}
	})
}
