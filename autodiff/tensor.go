package autodiff

import (
	"errors"
	"fmt"

	"github.com/isobit-ml/isobit/tensor"
)

// Tensor is a tensor of backend B, of any element type: what Float, Int and
// Bool have in common. It is a small value that may be copied freely; the
// elements never change, whatever is done with it.
//
// Operations do not return an error each. A failed one gives a tensor that
// holds the error, every operation on that passes it on, and whatever takes
// the result out (Backward, Values, Item, View, Err) returns it. The zero
// Tensor stands for an absent optional argument.
type Tensor[B Backend] struct {
	be  B
	v   Value
	err error
}

var errAbsent = errors.New("autodiff: the tensor is absent (a zero value)")

// Err returns what went wrong on the way to this tensor.
func (t Tensor[B]) Err() error {
	if t.err == nil && t.v == nil {
		return errAbsent
	}
	return t.err
}

// Present reports whether t is a tensor, or an error, at all.
func (t Tensor[B]) Present() bool { return t.v != nil || t.err != nil }

// Backend returns the backend that t belongs to.
func (t Tensor[B]) Backend() B { return t.be }

// DType returns the element type; tensor.None where t holds an error.
func (t Tensor[B]) DType() tensor.DType {
	if t.v == nil {
		return tensor.None
	}
	return t.v.DType()
}

// Shape returns the extents; nil where t holds an error.
func (t Tensor[B]) Shape() []int {
	if t.v == nil {
		return nil
	}
	shape := make([]int, len(t.v.Shape()))
	for i, n := range t.v.Shape() {
		shape[i] = int(n)
	}
	return shape
}

// Rank returns the number of dimensions.
func (t Tensor[B]) Rank() int {
	if t.v == nil {
		return 0
	}
	return len(t.v.Shape())
}

// Len returns the number of elements.
func (t Tensor[B]) Len() int {
	if t.v == nil {
		return 0
	}
	return int(tensor.NumElements(t.v.Shape()))
}

// String returns the type and shape, such as "f32[8, 64]", or the error.
func (t Tensor[B]) String() string {
	if t.v == nil {
		if t.err != nil {
			return "error: " + t.err.Error()
		}
		return "none"
	}
	return infoOf(t.v).String()
}

// View shows the elements in host memory, for reading, until t is released: by Release,
// or by a Backward that consumes the graph of t (see Keep). Others use the memory then. A
// View of a parameter shows what an Optimizer or Load puts there later; Float64s and the
// like copy.
func (t Tensor[B]) View() (tensor.View, error) {
	if err := t.Err(); err != nil {
		return tensor.View{}, err
	}
	return t.be.View(t.v)
}

// copied returns the elements of cast, which is x or was made of it.
func copied[T tensor.Element, B Backend](x, cast Tensor[B]) ([]T, error) {
	v, err := cast.View()
	if err != nil {
		return nil, err
	}
	out := append([]T(nil), tensor.Slice[T](v)...)
	if cast.v != x.v {
		cast.Release()
	}
	return out, nil
}

// Release gives the memory back at once instead of leaving it to the garbage
// collector. Using t, or a copy of it, is an error from then on; what a graph
// of Autodiff needs for its gradients stays.
func (t Tensor[B]) Release() {
	if t.v != nil {
		t.v.Release()
	}
}

func infoOf(v Value) Info {
	if v == nil {
		return Info{}
	}
	return Info{v.DType(), v.Shape()}
}

// runAll applies an operation and returns its outputs.
func (t Tensor[B]) runAll(op Op, at *Attr, rest ...Tensor[B]) (out [3]Tensor[B]) {
	in := make([]Value, 1, 4)
	in[0] = t.v
	err := t.Err()
	for _, r := range rest {
		if err == nil {
			err = r.err
		}
		in = append(in, r.v)
	}
	return results(t.be, op, at, in, err)
}

func results[B Backend](be B, op Op, at *Attr, in []Value, err error) (out [3]Tensor[B]) {
	for i := range out {
		out[i].be = be
	}
	if err == nil && isNil(be) {
		err = errNoBackend
	}
	if err == nil {
		if at == nil {
			at = new(Attr)
		}
		var values Outputs
		values, err = be.Run(op, at, in...)
		for i, v := range values {
			out[i].v = v
		}
	}
	if err != nil {
		for i := range out {
			out[i].err = err
		}
	}
	return out
}

func (t Tensor[B]) run(op Op, at *Attr, rest ...Tensor[B]) Tensor[B] {
	return t.runAll(op, at, rest...)[0]
}

// create1 runs an operation without inputs and with one output.
func create1[B Backend](be B, op Op, at *Attr) Tensor[B] {
	return results(be, op, at, nil, nil)[0]
}

func failed[B Backend](be B, format string, args ...any) Tensor[B] {
	return Tensor[B]{be: be, err: fmt.Errorf("autodiff: "+format, args...)}
}

// wide converts extents to the type that shapes have inside.
func wide(shape []int) []int64 {
	out := make([]int64, len(shape))
	for i, n := range shape {
		out[i] = int64(n)
	}
	return out
}

// FromView copies a tensor from host memory. The bytes of a bool are 0 or 1; others
// are an error.
func FromView[B Backend](be B, v tensor.View) Tensor[B] {
	if isNil(be) {
		return Tensor[B]{err: errNoBackend}
	}
	value, err := be.FromView(v)
	return Tensor[B]{be: be, v: value, err: err}
}

// fromSlice copies a slice; without a shape, as one dimension.
func fromSlice[B Backend, T tensor.Element](be B, data []T, shape []int) Tensor[B] {
	if shape == nil {
		shape = []int{len(data)}
	}
	dims := wide(shape)
	if n := tensor.NumElements(dims); n != int64(len(data)) {
		return failed(be, "a slice of %d elements does not fit shape %s", len(data), tensor.ShapeText(dims))
	}
	return FromView(be, tensor.Of(data, dims...))
}
