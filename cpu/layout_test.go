package cpu_test

import (
	"bytes"
	"math/rand/v2"
	"unsafe"

	"github.com/isobit-ml/isobit/cpu"
	"github.com/isobit-ml/isobit/tensor"
)

// How the operands of a run lie in memory.

// dataStep draws that of elements: mostly 1, which is what kernels take.
func dataStep(r *rand.Rand) int {
	if r.IntN(8) > 0 {
		return 1
	}
	return oneOf(r, 2, 3, -1, -2)
}

func oneOf[T any](r *rand.Rand, list ...T) T { return list[r.IntN(len(list))] }

// canary fills memory between elements.
const canary = 0xA5

// spread lays out elements a step apart, the last first where it is negative.
func spread(data []byte, size, step int) []byte {
	if step == 0 {
		return bytes.Clone(data[:size])
	}
	n, gap := len(data)/size, max(step, -step)*size
	memory := bytes.Repeat([]byte{canary}, (n-1)*gap+size)
	for i := range n {
		at := i * gap
		if step < 0 {
			at = (n - 1 - i) * gap
		}
		copy(memory[at:], data[i*size:][:size])
	}
	return memory
}

// gather is the inverse of spread.
func gather(memory []byte, size, step, n int) (data []byte) {
	for i := range n {
		at := i * step * size
		if step < 0 {
			at -= (n - 1) * step * size
		}
		data = append(data, memory[at:at+size]...)
	}
	return data
}

// prepared returns a parameter as plans prepare it: in the compute type, zero
// points rounded.
func (x *run) prepared(k int, a *cpu.Args) ([]byte, tensor.DType) {
	s := cpu.Span{DType: x.types.In[k]}
	if x.in[k] != nil {
		s.P, s.Stride = unsafe.Pointer(&x.in[k][0]), s.DType.Size()
	}
	data := make([]byte, x.n*int(x.types.Compute.Size()))
	if x.types.Compute == tensor.F64 {
		cpu.LoadParams(unsafe.Slice((*float64)(unsafe.Pointer(&data[0])), x.n), s, k > x.table.data, a)
	} else {
		cpu.LoadParams(unsafe.Slice((*float32)(unsafe.Pointer(&data[0])), x.n), s, k > x.table.data, a)
	}
	return data, x.types.Compute
}
