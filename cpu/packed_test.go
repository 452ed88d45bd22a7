package cpu_test

import (
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/isobit-ml/isobit/cpu"
	"github.com/isobit-ml/isobit/tensor"
	"github.com/stretchr/testify/require"
)

// Every way to pack takes rows apart and puts them together as the definition does, and touches nothing beside them: both
// sides end, or begin, at pages that cannot be read or written.
func TestPackedRows(t *testing.T) {
	slow, _ := cpu.PackingRows[len(cpu.PackingRows)-1].Pick(cpu.Types{})
	for _, row := range cpu.PackingRows[:len(cpu.PackingRows)-1] {
		if row.Needs > cpu.Best() {
			continue
		}
		fast, _ := row.Pick(cpu.Types{})
		r := rand.New(rand.NewPCG(5, 6))
		for n := 1; n < 100; n++ {
			for i := range 12 {
				rows, d := r.IntN(40), []tensor.DType{tensor.S4, tensor.U4}[i%2]
				width := (n + 1) / 2
				packed, codes := make([]byte, rows*width), make([]byte, rows*n)
				for i := range packed {
					packed[i] = byte(r.Uint32())
				}
				slow.UnpackRows(asCodes(codes), unsafe.Pointer(unsafe.SliceData(packed)), n, d)
				from, to := guard(packed, i%4 < 2), guard(make([]byte, len(codes)), i%4 < 2)
				fast.UnpackRows(asCodes(to), unsafe.Pointer(unsafe.SliceData(from)), n, d)
				require.Equal(t, codes, to, "%d rows of %d codes", rows, n)

				slow.PackRows(unsafe.Pointer(unsafe.SliceData(packed)), asCodes(codes), n)
				for i := range from {
					from[i] = 0xff // also the half byte that no code is in
				}
				fast.PackRows(unsafe.Pointer(unsafe.SliceData(from)), asCodes(to), n)
				require.Equal(t, packed, from, "%d rows of %d codes", rows, n)
				releaseGuards()
			}
		}
	}
}

func asCodes(bytes []byte) []int8 {
	return unsafe.Slice((*int8)(unsafe.Pointer(unsafe.SliceData(bytes))), len(bytes))
}
