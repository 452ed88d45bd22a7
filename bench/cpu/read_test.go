package bench

import (
	"unsafe"

	"github.com/isobit-ml/isobit/cpu"
	"github.com/isobit-ml/isobit/tensor"
)

// read reads memory with the fastest row that does little else.
func read(data []byte) {
	t := cpu.Types{Compute: tensor.F32}
	t.In[0] = tensor.F32
	for _, row := range cpu.MinMax {
		if kernel, ok := row.Pick(t); ok && row.Needs <= cpu.Best() {
			a := &cpu.Args{Scratch: new(cpu.Scratch)}
			a.In[0] = cpu.Span{P: unsafe.Pointer(unsafe.SliceData(data)), Stride: 4, DType: tensor.F32}
			kernel(len(data)/4, 0, a)
			return
		}
	}
}
