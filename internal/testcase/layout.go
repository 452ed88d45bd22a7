package testcase

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"unsafe"

	"github.com/isobit-ml/isobit/tensor"
)

// Layout places a tensor's elements: it returns strides and the position of
// the first element, both in elements, in memory of n elements. Dimensions
// marked as expanded may get stride 0. A nil Layout is compact.
type Layout func(shape []int64, expanded []bool) (strides []int64, first, n int64)

// Compact has the elements one after the other.
func Compact(shape []int64, _ []bool) (strides []int64, first, n int64) {
	return nil, 0, tensor.NumElements(shape)
}

// Strided has the same order as Compact, written as strides.
func Strided(shape []int64, _ []bool) (strides []int64, first, n int64) {
	return spread(shape, nil, inOrder(len(shape)), func() int64 { return 1 }, func() bool { return false })
}

// Transposed has the dimensions the other way round.
func Transposed(shape []int64, _ []bool) (strides []int64, first, n int64) {
	order := inOrder(len(shape))
	slices.Reverse(order)
	return spread(shape, nil, order, func() int64 { return 1 }, func() bool { return false })
}

// Sliced leaves every other element out, along the last two dimensions.
func Sliced(shape []int64, _ []bool) (strides []int64, first, n int64) {
	return spread(shape, nil, inOrder(len(shape)), func() int64 { return 2 }, func() bool { return false })
}

// Reversed steps backwards along every dimension.
func Reversed(shape []int64, _ []bool) (strides []int64, first, n int64) {
	return spread(shape, nil, inOrder(len(shape)), func() int64 { return 1 }, func() bool { return true })
}

// Expanded has stride 0 wherever it may.
func Expanded(shape []int64, expanded []bool) (strides []int64, first, n int64) {
	return spread(shape, expanded, inOrder(len(shape)), func() int64 { return 1 }, func() bool { return false })
}

// Mixed draws order, gaps, directions and expansion for every tensor.
func Mixed(r *rand.Rand) Layout {
	return func(shape []int64, expanded []bool) (strides []int64, first, n int64) {
		return spread(shape, expanded, r.Perm(len(shape)), func() int64 { return 1 + r.Int64N(3) }, func() bool { return r.IntN(2) == 0 })
	}
}

// Alike draws an order of dimensions which all tensors of a rank have in
// common, and at times a gap behind each run along the innermost: rows other
// than the definition go on being used, along any dimension.
func Alike(r *rand.Rand) Layout {
	orders, behind := map[int][]int{}, 1+r.Int64N(2)
	return func(shape []int64, _ []bool) (strides []int64, first, n int64) {
		rank := len(shape)
		if orders[rank] == nil {
			orders[rank] = r.Perm(rank)
		}
		innermost := true
		gap := func() int64 {
			if innermost {
				innermost = false
				return 1
			}
			return behind
		}
		return spread(shape, nil, orders[rank], gap, func() bool { return false })
	}
}

// ofRows lays out whole rows: the last dimension stays compact.
func (l Layout) ofRows(shape []int64, expanded []bool) (strides []int64, first, n int64) {
	last := len(shape) - 1
	strides, first, n = l(shape[:last], expanded[:last])
	if strides != nil {
		for i := range strides {
			strides[i] *= shape[last]
		}
		strides = append(strides, 1)
	}
	return strides, first * shape[last], n * shape[last]
}

func inOrder(n int) []int {
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	return order
}

// spread lays out dimensions, the last of order innermost.
func spread(shape []int64, expanded []bool, order []int, gap func() int64, backwards func() bool) (strides []int64, first, n int64) {
	strides, n = make([]int64, len(shape)), 1
	for i := len(order) - 1; i >= 0; i-- {
		d := order[i]
		if expanded != nil && expanded[d] {
			continue
		}
		step := n
		if i >= len(order)-2 { // gaps in all of many dimensions would be mostly gaps
			step *= gap()
		}
		reach := (max(shape[d], 1) - 1) * step
		n += reach
		if strides[d] = step; backwards() {
			strides[d] = -step
			first += reach
		}
	}
	if tensor.NumElements(shape) == 0 {
		return strides, 0, 0
	}
	return strides, first, n
}

// canary fills memory beside a tensor's elements.
const canary = 0xA5

// paint does it, as fast as memory is copied.
func paint(memory []byte) {
	if len(memory) == 0 {
		return
	}
	memory[0] = canary
	for done := 1; done < len(memory); done *= 2 {
		copy(memory[done:], memory[:done])
	}
}

// Placed is a tensor in memory.
type Placed struct {
	View    tensor.View
	Memory  []byte  // all that may be read
	offsets []int64 // by element in row-major order, where in Memory it lies; nil where it is compact
	free    func()
}

func newPlaced(a *Arg, o Options, readOnly bool) *Placed {
	layout := o.Layout
	if a.IsParam() && o.Params != nil {
		layout = o.Params
	}
	if layout == nil {
		layout = Compact
	}
	if a.Packed {
		layout = layout.ofRows
	}
	strides, first, n := layout(a.Shape, a.Expanded)
	size := a.DType.Size()
	p := &Placed{}
	p.Memory, p.free = o.Memory.get(n * size)
	p.View = tensor.View{DType: a.DType, Shape: a.Shape, Strides: strides, ReadOnly: readOnly}
	p.View.Data = unsafe.Add(unsafe.Pointer(unsafe.SliceData(p.Memory)), first*size)
	p.View.Low, p.View.High = -first*size, (n-first)*size
	paint(p.Memory)
	if strides != nil {
		p.offsets = offsets(&p.View, first)
	}
	p.fill(a)
	if readOnly {
		o.Memory.protect(p.Memory)
	}
	return p
}

// fill gives the elements the values that they have before a run.
func (p *Placed) fill(a *Arg) {
	if p.offsets == nil {
		copy(p.Memory, a.Before)
		return
	}
	size := p.View.DType.Size()
	for i, at := range p.offsets {
		copy(p.Memory[at:], a.Before[int64(i)*size:int64(i+1)*size])
	}
}

// offsets lists where the elements lie, in bytes.
func offsets(v *tensor.View, first int64) []int64 {
	size := v.DType.Size()
	list := []int64{first * size}
	for d, extent := range v.Shape {
		step, next := v.Stride(d)*size, make([]int64, 0, int64(len(list))*extent)
		for _, at := range list {
			for range extent {
				next = append(next, at)
				at += step
			}
		}
		list = next
	}
	return list
}

// Read returns the elements, compact.
func (p *Placed) Read() []byte {
	if p.offsets == nil {
		return bytes.Clone(p.Memory)
	}
	size := p.View.DType.Size()
	data := make([]byte, 0, int64(len(p.offsets))*size)
	for _, at := range p.offsets {
		data = append(data, p.Memory[at:at+size]...)
	}
	return data
}

// Stray returns an error if memory beside the elements was written.
func (p *Placed) Stray() error {
	if p.offsets == nil {
		return nil
	}
	rest, size := bytes.Clone(p.Memory), p.View.DType.Size()
	for _, at := range p.offsets {
		for i := range size {
			rest[at+i] = canary
		}
	}
	if bytes.Count(rest, []byte{canary}) < len(rest) {
		i := slices.IndexFunc(rest, func(b byte) bool { return b != canary })
		return fmt.Errorf("byte %d of %d, beside the elements, was written", i, len(rest))
	}
	return nil
}
