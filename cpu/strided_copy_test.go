package cpu_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/isobit-ml/isobit/cpu"
	"github.com/isobit-ml/isobit/tensor"
	"github.com/stretchr/testify/require"
)

// Every row copies the elements of its steps, and touches nothing beyond the first and the last: both
// sides end at pages that cannot be read or written.
func TestStridedCopies(t *testing.T) {
	for _, row := range cpu.StridedCopies {
		for _, d := range []tensor.DType{tensor.S8, tensor.BF16, tensor.F32, tensor.F64} {
			t.Run(fmt.Sprint(row.Name, "/", d), func(t *testing.T) {
				if row.Needs > cpu.Best() {
					t.Skipf("this machine has no %v", row.Needs)
				}
				strided, ok := row.Pick(cpu.Types{In: cpu.InTypes{d}})
				require.True(t, ok)
				r, size := rand.New(rand.NewPCG(2, uint64(d))), d.Size()
				for range 500 {
					n, fromStep, toStep, reversed := r.Int64N(150), (1+r.Int64N(3))*size, (1+r.Int64N(3))*size, r.IntN(2) > 0
					if r.IntN(2) > 0 {
						fromStep, toStep = 2*size, size
					}
					if r.IntN(4) == 0 {
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
	}
}
