package cpu_test

import (
	"testing"
	"unsafe"

	"github.com/isobit-ml/isobit/cpu"
	"github.com/isobit-ml/isobit/tensor"
)

// Runs that follow one another share cache lines: stored around the caches they have the definition's bits wherever in a
// line each begins and ends, and nothing beside them is written.
func TestRunsShareLines(t *testing.T) {
	sharedLines[float32](t, tensor.F32, cpu.DequantizeBackwardInput, 2)
	sharedLines[float64](t, tensor.F64, cpu.DequantizeBackwardInput, 2)
	sharedLines[float32](t, tensor.F32, cpu.FakeQuantize, 1) // with quick codes
}

func sharedLines[C cpu.Compute](t *testing.T, d tensor.DType, rows []cpu.Row[cpu.Elementwise], data int) {
	types := cpu.Types{Compute: d, In: cpu.InTypes{d}, Out: cpu.OutTypes{d}}
	types.In[data] = d
	definition, _ := rows[len(rows)-1].Pick(types)
	size, shortest, line := int(d.Size()), 256/int(d.Size()), 64/int(d.Size())
	const most, around = 5, 64
	x, scales := make([]C, most*(shortest+2*line)), []C{0.5, 0.25, 1, 0.125, 2}
	for i := range x {
		x[i] = C(i%100) - 40.25
	}
	for _, row := range rows[:len(rows)-1] {
		kernel, ok := row.Pick(types)
		if !ok || row.Needs > cpu.Best() {
			continue
		}
		for length := shortest; length < shortest+2*line; length++ {
			for begin := range line {
				steps := 1 + (length+begin)%most
				run := func(kernel cpu.Elementwise) []C {
					memory := make([]C, 2*around+steps*length)
					y := memory[(around-int(uintptr(unsafe.Pointer(&memory[0]))%64)/size)%line+begin:]
					for i := range y {
						y[i] = -1
					}
					a := &cpu.Args{Lo: -32, Hi: 32, Scratch: scratch, Stream: true}
					a.Runs = cpu.Runs{Steps: steps, Strands: 1}
					a.Runs.Step[0], a.Runs.Step[data], a.Runs.Step[len(a.In)] = int64(length*size), int64(size), int64(length*size)
					a.In[0] = cpu.Span{P: unsafe.Pointer(&x[0]), Stride: int64(size), DType: d}
					a.In[data] = cpu.Span{P: unsafe.Pointer(&scales[0]), DType: d}
					a.Out[0] = cpu.Span{P: unsafe.Pointer(&y[line]), Stride: int64(size), DType: d}
					kernel(length, a)
					cpu.StoreFence()
					return y[:line+steps*length+line]
				}
				got, want := run(kernel), run(definition)
				for i := range want {
					if got[i] != want[i] {
						t.Fatalf("%s: %s: %d runs of %d, %d elements behind a line: element %d is %v, want %v", row.Name, d, steps, length, begin, i-line, got[i], want[i])
					}
				}
			}
		}
	}
}
