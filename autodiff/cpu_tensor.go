package autodiff

import (
	"errors"
	"fmt"
	"sync/atomic"
	"unsafe"

	"github.com/isobit-ml/isobit/autodiff/internal/kernel"
	"github.com/isobit-ml/isobit/tensor"
)

// cpuTensor is the CPU backend's Value: compact, row-major.
type cpuTensor struct {
	dtype    tensor.DType
	shape    []int64
	n        int
	buf      *buffer
	released atomic.Bool
}

var errReleased = errors.New("the tensor was released")

// DType returns the element type.
func (t *cpuTensor) DType() tensor.DType { return t.dtype }

// Shape returns the extents.
func (t *cpuTensor) Shape() []int64 { return t.shape }

// Share returns another handle on the elements.
func (t *cpuTensor) Share() (Value, error) {
	if t.released.Load() {
		return nil, fmt.Errorf("autodiff: %v: %w", infoOf(t), errReleased)
	}
	return t.alias(t.shape), nil
}

// alias is another handle, with another shape.
func (t *cpuTensor) alias(shape []int64) *cpuTensor {
	t.buf.holders.Add(1)
	return &cpuTensor{dtype: t.dtype, shape: shape, n: t.n, buf: t.buf}
}

// Release ends this handle.
func (t *cpuTensor) Release() {
	if t.released.CompareAndSwap(false, true) {
		t.buf.release()
	}
}

// Alone reports whether no other handle shares the elements.
func (t *cpuTensor) Alone() bool { return t.buf.holders.Load() == 1 }

func (t *cpuTensor) shares(v Value) bool {
	o, ok := v.(*cpuTensor)
	return ok && o.buf == t.buf
}

// Version counts changes in place.
func (t *cpuTensor) Version() int64 { return t.buf.version.Load() }

// elements reads a tensor as elements of a type of its size.
func elements[T any](t *cpuTensor) []T {
	if t == nil {
		return nil
	}
	var one T
	if int64(unsafe.Sizeof(one)) != t.dtype.Size() {
		panic(fmt.Sprintf("autodiff: %v read as elements of %T", infoOf(t), one))
	}
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(t.buf.mem))), t.n)
}

// arrayOf is elements with their shape.
func arrayOf[T any](t *cpuTensor) kernel.Array[T] {
	return kernel.Array[T]{Data: elements[T](t), Shape: t.shape}
}

func (t *cpuTensor) view() tensor.View {
	if t == nil {
		return tensor.View{}
	}
	size := int64(t.n) * t.dtype.Size()
	return tensor.View{Data: unsafe.Pointer(unsafe.SliceData(t.buf.mem)), DType: t.dtype, Shape: t.shape, High: size}
}

// new makes a tensor with arbitrary content.
func (c *CPU) new(i Info) *cpuTensor {
	n := int(tensor.NumElements(i.Shape))
	return &cpuTensor{dtype: i.DType, shape: i.Shape, n: n, buf: c.pool.get(n * int(i.DType.Size()))}
}

// scratch lends memory for the time of a call.
func scratch[T any](c *CPU) func(n int) ([]T, func()) {
	return func(n int) ([]T, func()) {
		var t T
		b := c.pool.get(n * int(unsafe.Sizeof(t)))
		return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b.mem))), n), b.release
	}
}
