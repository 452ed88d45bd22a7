package cpu

import (
	"unsafe"

	"github.com/isobit-ml/isobit/tensor"
)

// TileSize is how many elements' parameters a Scratch holds, one for each.
// They stay in the first level of caches beside the elements.
const TileSize = 2048

// tileSlack is how far an expansion may write past its end, in elements.
const tileSlack = 16

// ParamTile has the parameters of consecutive elements, as LoadParams makes
// them. Where one holds for many elements it is loaded once and repeated, so
// that a kernel can go on through short groups without stopping.
type ParamTile struct {
	memory [2][TileSize + tileSlack]float64
	loaded [2][TileSize + tileSlack]float64
}

// Expand fills dst with each of count elements of src, run times. It may
// write tileSlack elements more.
type Expand func(dst, src unsafe.Pointer, count, run int)

// ExpandRows are the ways to expand parameters.
var ExpandRows = append(expandRows, Row[Expand]{"go", Go, ByCompute[Expand](expandGo[float32], expandGo[float64])})

func expandGo[C Compute](dst, src unsafe.Pointer, count, run int) {
	to := unsafe.Slice((*C)(dst), count*run)
	for i, v := range unsafe.Slice((*C)(src), count) {
		part := to[i*run:][:run]
		for j := range part {
			part[j] = v
		}
	}
}

// Add gives the elements from at on the next count parameters, each for run
// elements. In a are the spans of scale and zero point, operands number and
// number+1.
func (t *ParamTile) Add(a *Args, number, at, count, run int, compute tensor.DType, expand Expand) {
	if compute == tensor.F64 {
		addParams[float64](t, a, number, at, count, run, expand)
	} else {
		addParams[float32](t, a, number, at, count, run, expand)
	}
}

func addParams[C Compute](t *ParamTile, a *Args, number, at, count, run int, expand Expand) {
	in := func(memory *[TileSize + tileSlack]float64) unsafe.Pointer { return unsafe.Pointer(memory) }
	s, z := in(&t.loaded[0]), in(&t.loaded[1])
	if run == 1 {
		s, z = unsafe.Add(in(&t.memory[0]), at*int(unsafe.Sizeof(C(0)))), unsafe.Add(in(&t.memory[1]), at*int(unsafe.Sizeof(C(0))))
	}
	LoadParams(unsafe.Slice((*C)(s), count), unsafe.Slice((*C)(z), count), a.In[number], a.In[number+1], a)
	if run == 1 {
		return
	}
	for i, from := range []unsafe.Pointer{s, z} {
		expand(unsafe.Add(in(&t.memory[i]), at*int(unsafe.Sizeof(C(0)))), from, count, run)
	}
}

// Repeat copies the parameters of the first n elements behind them, so that
// there are copies of them in all.
func (t *ParamTile) Repeat(n, copies int, compute tensor.DType) {
	size := int(compute.Size())
	for i := range t.memory {
		all := unsafe.Slice((*byte)(unsafe.Pointer(&t.memory[i])), n*copies*size)
		for done := n * size; done < len(all); done *= 2 {
			copy(all[done:], all[:done])
		}
	}
}

// Use makes a kernel read its parameters here.
func (t *ParamTile) Use(a *Args, number int, compute tensor.DType) {
	for i := range t.memory {
		a.In[number+i] = Span{P: unsafe.Pointer(&t.memory[i]), Stride: compute.Size(), DType: compute}
	}
	a.Ready = true
}
