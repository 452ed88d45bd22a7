package cpu_test

import (
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/isobit-ml/isobit/cpu"
	"github.com/isobit-ml/isobit/tensor"
	"github.com/stretchr/testify/require"
)

// Every row transposes what the definition does, and nothing beside it: both
// matrices end at pages that cannot be read or written.
func TestTransposes(t *testing.T) {
	forEachSize(t, cpu.Transposes[:len(cpu.Transposes)-1], func(t *testing.T, d tensor.DType, fast cpu.Transpose) {
		slow, _ := cpu.Transposes[len(cpu.Transposes)-1].Pick(cpu.Types{In: cpu.InTypes{d}})
		r, size := rand.New(rand.NewPCG(1, uint64(d))), d.Size()
		for range 300 {
			rows, columns := r.Int64N(40), r.Int64N(40)
			fromStep, toStep := (columns+r.Int64N(3))*size, (rows+r.Int64N(3))*size
			from := make([]byte, max(0, (rows-1)*fromStep+columns*size))
			for i := range from {
				from[i] = byte(r.Uint32())
			}
			from = guard(from, true)
			to := guard(make([]byte, max(0, (columns-1)*toStep+rows*size)), true)
			want := make([]byte, len(to))
			slow(unsafe.Pointer(unsafe.SliceData(want)), toStep, unsafe.Pointer(unsafe.SliceData(from)), fromStep, rows, columns)
			fast(unsafe.Pointer(unsafe.SliceData(to)), toStep, unsafe.Pointer(unsafe.SliceData(from)), fromStep, rows, columns)
			require.Equal(t, want, to, "%d rows, %d columns, steps of %d and %d bytes", rows, columns, fromStep, toStep)
			releaseGuards()
		}
	})
}
