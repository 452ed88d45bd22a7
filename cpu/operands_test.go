package cpu_test

import (
	"bytes"
	"math"
	"math/rand/v2"
	"unsafe"

	"github.com/isobit-ml/isobit/cpu"
	"github.com/isobit-ml/isobit/tensor"
)

// What operands hold, and how they lie in memory.

// boundsOf are those of codes; of None, whole numbers.
var boundsOf = map[tensor.DType][][2]float64{
	tensor.None:   {{-128, 127}, {-127, 127}, {-8, 7}, {0, 127}, {3, 90}},
	tensor.U8:     {{0, 255}, {0, 15}, {3, 200}},
	tensor.S16:    {{-32768, 32767}, {-2047, 2047}, {3, 90}},
	tensor.U16:    {{0, 65535}, {3, 200}},
	tensor.I32:    {{-1 << 31, 1<<31 - 1}, {-1 << 31, 1<<31 - 1}, {-1 << 24, 1 << 24}, {-8, 7}},
	tensor.F8E4M3: {{-448, 448}, {-448, 448}, {-127, 127}, {0, 300}, {3, 90}},
	tensor.F8E5M2: {{-57344, 57344}, {-57344, 57344}, {-1000, 999}, {0, 300}, {3, 90}},
}

// noNegativeZero replaces what no sum ever is.
func noNegativeZero(data []byte, d tensor.DType) {
	v := make([]float64, 1)
	for i := range len(data) / int(d.Size()) {
		cpu.Load(v, cpu.Span{P: unsafe.Pointer(&data[i*int(d.Size())]), DType: d})
		if v[0] == 0 {
			put(data, d, i, 0)
		}
	}
}

var special = []float64{0, math.Copysign(0, -1), math.Inf(1), math.Inf(-1), math.NaN(), 1e-45, -1e-45, 1e-40, 6e-8, -6e-8, 3e-5, 65504, -65520, 3e38, -3e38, 1e300, 5e-324, 0.5, -0.5, 1, 8388607.5, 16777216}

// values draws n elements. With ties, many lie halfway between codes.
func values(r *rand.Rand, d tensor.DType, n int, scale float64, ties bool) []byte {
	data := make([]byte, n*int(d.Size()))
	for i := range data {
		data[i] = byte(r.Uint32()) // any bits
	}
	if d.IsInt() {
		return data
	}
	for i := range n {
		switch r.IntN(8) {
		case 0:
			put(data, d, i, special[r.IntN(len(special))])
		case 1:
		case 2, 3:
			if ties {
				put(data, d, i, (float64(r.IntN(300)-150)+0.5)*scale)
			}
		default:
			put(data, d, i, r.NormFloat64()*60*scale)
		}
	}
	return data
}

// put stores a value as element i.
func put(data []byte, d tensor.DType, i int, v float64) {
	cpu.Store(cpu.Span{P: unsafe.Pointer(&data[i*int(d.Size())]), Stride: d.Size(), DType: d}, []float64{v})
}

// dataStep draws that of elements: mostly 1, which is what kernels take.
func dataStep(r *rand.Rand) int {
	if r.IntN(8) > 0 {
		return 1
	}
	return oneOf(r, 2, 3, -1, -2)
}

// middles puts values in that lie halfway between two 8-bit floats, or next to
// there.
func middles(r *rand.Rand, data []byte, d tensor.DType, n int, scale float64, code tensor.DType) {
	all := tensor.Float8Values(code)
	for i := range n {
		if b := r.IntN(255); r.IntN(3) == 0 && all[b]-all[b+1] != 0 {
			middle := (float64(all[b]) + float64(all[b+1])) / 2 * (1 + float64(r.IntN(3)-1)*0x1p-22)
			put(data, d, i, middle*scale)
		}
	}
}

func oneOf[T any](r *rand.Rand, list ...T) T { return list[r.IntN(len(list))] }

// canary fills memory between elements.
const canary = 0xA5

// spread lays out elements a step apart, the last first where it is negative.
func spread(data []byte, size, step int) []byte {
	switch step {
	case 0:
		return bytes.Clone(data[:size])
	case 1:
		return bytes.Clone(data)
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
	if step == 1 {
		return bytes.Clone(memory)
	}
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
		cpu.LoadParams(unsafe.Slice((*float64)(unsafe.Pointer(&data[0])), x.n), s, k > x.table.data, a.Lo, a.Hi)
	} else {
		cpu.LoadParams(unsafe.Slice((*float32)(unsafe.Pointer(&data[0])), x.n), s, k > x.table.data, a.Lo, a.Hi)
	}
	return data, x.types.Compute
}
