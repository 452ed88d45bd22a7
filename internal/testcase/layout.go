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

// Columns has the last two dimensions the other way round.
func Columns(shape []int64, _ []bool) (strides []int64, first, n int64) {
	order, last := inOrder(len(shape)), len(shape)-1
	order[last-1], order[last] = last, last-1
	return spread(shape, nil, order, func() int64 { return 1 }, func() bool { return false })
}

// Scattered has the dimensions the other way round and backwards, with gaps.
func Scattered(shape []int64, _ []bool) (strides []int64, first, n int64) {
	order := inOrder(len(shape))
	slices.Reverse(order)
	return spread(shape, nil, order, func() int64 { return 2 }, func() bool { return true })
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

// paint does it, as fast as memory is copied: from the first cache.
func paint(memory []byte) {
	if len(memory) == 0 {
		return
	}
	memory[0] = canary
	for done := 1; done < len(memory); done += min(done, 8192) {
		copy(memory[done:], memory[:min(done, 8192)])
	}
}

// Placed is a tensor in memory.
type Placed struct {
	View      tensor.View
	Memory    []byte  // all that may be read
	offsets   []int64 // by element in row-major order, where in Memory it lies, in elements; nil where it is compact
	protected bool    // the system ends who writes it
	free      func()
}

func newPlaced(a *Arg, o Options, readOnly bool) *Placed {
	layout := o.Layout
	if a.IsParam() && o.Params != nil {
		layout = o.Params
	}
	if own := o.Layouts[a.Name]; own != nil {
		layout = own
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
	if strides != nil {
		paint(p.Memory)
		p.offsets = offsets(&p.View, first)
	}
	p.fill(a)
	if readOnly {
		p.protected = o.Memory.protect(p.Memory)
	}
	return p
}

// fill gives the elements the values that they have before a run.
func (p *Placed) fill(a *Arg) {
	if p.offsets == nil {
		copy(p.Memory, a.Before)
		return
	}
	p.move(a.Before, fromCompact)
}

// Which way move copies.
const toCompact, fromCompact = false, true

// move copies the elements from or to compact ones.
func (p *Placed) move(compact []byte, from bool) {
	switch p.View.DType.Size() {
	case 1:
		move(p.Memory, compact, p.offsets, from)
	case 2:
		move(wordsOf[uint16](p.Memory), wordsOf[uint16](compact), p.offsets, from)
	case 4:
		move(wordsOf[uint32](p.Memory), wordsOf[uint32](compact), p.offsets, from)
	default:
		move(wordsOf[uint64](p.Memory), wordsOf[uint64](compact), p.offsets, from)
	}
}

func wordsOf[T any](b []byte) []T {
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/int(unsafe.Sizeof(*new(T))))
}

func move[T any](memory, compact []T, offsets []int64, from bool) {
	compact = compact[:len(offsets)]
	if from {
		for i, at := range offsets {
			memory[at] = compact[i]
		}
		return
	}
	for i, at := range offsets {
		compact[i] = memory[at]
	}
}

// offsets lists where the elements lie.
func offsets(v *tensor.View, first int64) []int64 {
	list := []int64{first}
	for d, extent := range v.Shape {
		step, next := v.Stride(d), make([]int64, int64(len(list))*extent)
		for i, at := range list {
			for j := range extent {
				next[int64(i)*extent+j] = at + j*step
			}
		}
		list = next
	}
	return list
}

// Read returns the elements, compact, in memory of their own.
func (p *Placed) Read() []byte {
	if p.offsets == nil {
		return bytes.Clone(p.Memory)
	}
	return p.elements()
}

// elements returns the elements, compact, which may be the tensor's memory.
func (p *Placed) elements() []byte {
	if p.offsets == nil {
		return p.Memory
	}
	data := make([]byte, int64(len(p.offsets))*p.View.DType.Size())
	p.move(data, toCompact)
	return data
}

// Stray returns an error if memory beside the elements was written.
func (p *Placed) Stray() error {
	if p.offsets == nil || p.protected {
		return nil
	}
	rest, painted := bytes.Clone(p.Memory), make([]byte, int64(len(p.offsets))*p.View.DType.Size())
	paint(painted)
	(&Placed{View: p.View, Memory: rest, offsets: p.offsets}).move(painted, fromCompact)
	if bytes.Count(rest, []byte{canary}) < len(rest) {
		i := slices.IndexFunc(rest, func(b byte) bool { return b != canary })
		return fmt.Errorf("byte %d of %d, beside the elements, was written", i, len(rest))
	}
	return nil
}
