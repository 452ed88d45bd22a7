package cpu_test

import (
	"slices"
	"testing"
	"unsafe"

	"github.com/isobit-ml/isobit/cpu"
	"github.com/isobit-ml/isobit/tensor"
)

// Runs that follow one another share cache lines: stored around the caches, or through other memory, they have the
// definition's bits wherever in a line each begins and ends, also where results take the place of elements, and nothing
// beside them is written.
func TestRunsShareLines(t *testing.T) {
	sharedLines(t, types(tensor.F32, tensor.F32, 2), cpu.DequantizeBackwardInput, float32(1))
	sharedLines(t, types(tensor.F64, tensor.F64, 2), cpu.DequantizeBackwardInput, float64(1))
	sharedLines(t, types(tensor.F32, tensor.F32, 1), cpu.FakeQuantize, float32(1)) // with quick codes
	sharedLines(t, types(tensor.BF16, tensor.BF16, 1), cpu.FakeQuantize, uint16(0x3f80))
	sharedLines(t, types(tensor.F32, tensor.S8, 1), cpu.Quantize, int8(1))
	sharedLines(t, types(tensor.S8, tensor.F32, 1), cpu.Dequantize, float32(1))
}

// types are those of an op whose scale comes after some data.
func types(x, y tensor.DType, data int) cpu.Types {
	t := cpu.Types{Compute: tensor.F32, In: cpu.InTypes{x}, Out: cpu.OutTypes{y}}
	if x == tensor.F64 {
		t.Compute = x
	}
	t.In[data] = t.Compute
	return t
}

func sharedLines[Y comparable](t *testing.T, types cpu.Types, rows []cpu.Row[cpu.Elementwise], unset Y) {
	definition, _ := rows[len(rows)-1].Pick(types)
	d, in, data := types.Out[0], types.In[0], slices.Index(types.In[1:], types.Compute)+1
	size, each, line := int(d.Size()), int(in.Size()), 64/int(d.Size())
	const most, many, around = 5, 700, 2 * 64
	const longest = 127 // of many runs
	x, scales := make([]float32, max(most*4*line, many*longest)), make([]float32, many)
	for i := range scales {
		scales[i] = []float32{0.5, 0.25, 1, 0.125, 2}[i%5]
	}
	for i := range x {
		x[i] = float32(i%100) - 40.25
	}
	elements, scale := asElements(x, in), asElements(scales, types.Compute)
	for _, row := range rows[:len(rows)-1] {
		kernel, ok := row.Pick(types)
		if !ok || row.Needs > cpu.Best() {
			continue
		}
		check := func(steps, length, begin int) {
			inPlace := in == d && (length+begin)%2 == 0
			run := func(kernel cpu.Elementwise) []Y {
				memory := make([]Y, 2*around+steps*length)
				y := memory[(around-int(uintptr(unsafe.Pointer(&memory[0]))%64)/size)%line+begin:]
				for i := range y {
					y[i] = unset
				}
				a := &cpu.Args{Lo: -32, Hi: 32, Scratch: scratch, Stream: !inPlace || begin%3 > 0}
				a.Runs = cpu.Runs{Steps: steps, Strands: 1}
				a.Runs.Step[0], a.Runs.Step[data], a.Runs.Step[len(a.In)] = int64(length*each), types.Compute.Size(), int64(length*size)
				a.In[0] = cpu.Span{P: unsafe.Pointer(&elements[0]), Stride: int64(each), DType: in}
				a.In[data] = cpu.Span{P: unsafe.Pointer(&scale[0]), DType: types.Compute}
				a.Out[0] = cpu.Span{P: unsafe.Pointer(&y[line]), Stride: int64(size), DType: d}
				if inPlace {
					copy(unsafe.Slice((*byte)(a.Out[0].P), steps*length*size), elements)
					a.In[0].P = a.Out[0].P
				}
				kernel(length, a)
				cpu.StoreFence()
				return y[:line+steps*length+line]
			}
			got, want := run(kernel), run(definition)
			for i := range want {
				if got[i] != want[i] {
					t.Fatalf("%s: %s: %d runs of %d, %d elements behind a line, in place %v: element %d is %v, want %v", row.Name, d, steps, length, begin, inPlace, i-line, got[i], want[i])
				}
			}
		}
		for length := 1; length < 4*line; length++ {
			for begin := range line {
				check(1+(length+begin)%most, length, begin)
			}
		}
		for length := 10; length <= longest; length += 13 { // more than are made elsewhere at a time
			check(many, length, length%line)
		}
	}
}

// asElements returns numbers as elements of a type.
func asElements(x []float32, d tensor.DType) []byte {
	to := make([]byte, len(x)*int(d.Size()))
	s := cpu.Span{P: unsafe.Pointer(&to[0]), Stride: d.Size(), DType: d}
	for at := 0; at < len(x); at += cpu.Block {
		v := x[at:min(at+cpu.Block, len(x))]
		cpu.Store(s.At(int64(at)), v)
	}
	return to
}
