package autodiff

import (
	"errors"
	"reflect"
	"slices"

	"github.com/isobit-ml/isobit/tensor"
)

// Value is one tensor of a backend, as the backend sees it. Users hold Float,
// Int, Bool and Quantized instead, which know their backend.
//
// A Value is one handle on the elements, which only operations in place
// change. Several handles may share them. Whoever forgets to release a handle
// leaves it to the garbage collector; releasing lets the backend use the
// memory again at once.
type Value interface {
	// DType returns the element type.
	DType() tensor.DType
	// Shape returns the extents. Callers do not change it.
	Shape() []int64
	// Share returns another handle on the same elements, or the error of
	// using a released one.
	Share() (Value, error)
	// Release ends this handle: using it from then on is an error. A second
	// call does nothing.
	Release()
	// Alone reports whether no other handle shares the elements.
	Alone() bool
	// Version counts how often the elements were changed in place, through
	// whichever handle.
	Version() int64
}

// Outputs are an operation's results: the first, and for some operations one
// or two more (see the list of Ops).
type Outputs [3]Value

// first returns the number of the first result that was wanted (see
// Attr.Skip), or -1.
func (o *Outputs) first() int {
	return slices.IndexFunc(o[:], func(v Value) bool { return v != nil })
}

// Backend runs operations. CPU is one; Autodiff is one that decorates another.
//
// Inputs are checked by the backend: errors name the operation, what came and
// what was wanted. An absent optional input is nil. A Backend is safe for use
// by many goroutines at once, and an operation never changes its inputs: only
// OpSGD, OpAdam, OpStep and those named InPlace change their first one.
type Backend interface {
	// Name says what the backend is, such as "cpu".
	Name() string
	// Device says where its tensors lie.
	Device() tensor.Device
	// Run applies an operation. The attributes are its own from then on: it may complete
	// them, and a graph holds them.
	Run(op Op, at *Attr, in ...Value) (Outputs, error)
	// FromView copies a tensor from host memory.
	FromView(v tensor.View) (Value, error)
	// View shows a tensor in host memory, for reading and as long as the
	// Value is held.
	View(v Value) (tensor.View, error)
	// Owns reports whether v is a tensor of this backend.
	Owns(v Value) bool
}

var errNoBackend = errors.New("autodiff: the backend is nil; want one, such as NewCPU makes")

// isNil reports whether there is nothing: an interface or a pointer that is nil, or
// an Autodiff that New did not make.
func isNil(it any) bool {
	switch v := reflect.ValueOf(it); v.Kind() {
	case reflect.Invalid:
		return true
	case reflect.Pointer:
		if v.IsNil() {
			return true
		}
	}
	zero, ok := it.(interface{ unmade() bool })
	return ok && zero.unmade()
}

// noBackend stands for an inner backend that is nil, so that using it is an error.
type noBackend struct{}

func (noBackend) Name() string                                      { return "nil" }
func (noBackend) Device() tensor.Device                             { return tensor.Device{} }
func (noBackend) Run(op Op, at *Attr, in ...Value) (Outputs, error) { return Outputs{}, errNoBackend }
func (noBackend) FromView(v tensor.View) (Value, error)             { return nil, errNoBackend }
func (noBackend) View(v Value) (tensor.View, error)                 { return tensor.View{}, errNoBackend }
func (noBackend) Owns(v Value) bool                                 { return false }

// Scheme says how a tensor is quantized; see the problem texts of plans for
// the meaning of each granularity.
type Scheme struct {
	Granularity string       // per_tensor, per_channel, per_token, per_group or per_block
	Axis        int          // of per_channel
	GroupSize   int          // of per_group
	BlockSize   []int64      // of per_block: an extent per dimension
	QMin, QMax  int64        // codes
	Storage     tensor.DType // of the codes, 8-bit floats included; None: s8 where they fit, else u8
	Reciprocal  bool         // round x * (1/scale), as PyTorch does on the CPU
	Asymmetric  bool         // parameters that are chosen from the data have zero points
	GradFactor  float64      // of FakeQuantize's gradients of the parameters; 0 means 1
}

// PerTensor quantizes with one scale.
func PerTensor(qmin, qmax int64) Scheme {
	return Scheme{Granularity: "per_tensor", QMin: qmin, QMax: qmax}
}

// PerChannel quantizes with a scale for each index along an axis.
func PerChannel(axis int, qmin, qmax int64) Scheme {
	return Scheme{Granularity: "per_channel", Axis: axis, QMin: qmin, QMax: qmax}
}

// PerToken quantizes with a scale for each row of the last dimension.
func PerToken(qmin, qmax int64) Scheme {
	return Scheme{Granularity: "per_token", QMin: qmin, QMax: qmax}
}

// PerGroup quantizes with a scale for every size elements of a row.
func PerGroup(size int, qmin, qmax int64) Scheme {
	return Scheme{Granularity: "per_group", GroupSize: size, QMin: qmin, QMax: qmax}
}

// storage is the type of the codes: s8 where they fit, else u8.
func (s *Scheme) storage() tensor.DType {
	switch {
	case s.Storage != tensor.None:
		return s.Storage
	case s.QMax > 127:
		return tensor.U8
	}
	return tensor.S8
}

// Window is the geometry of a convolution or of pooling; zero values mean a
// stride, a dilation and a group count of 1, and no padding.
type Window struct {
	Kernel   [2]int // of pooling
	Stride   [2]int // of pooling: the kernel where 0
	Pad      [2]int // on either side
	Dilation [2]int // of a convolution: the step between the elements of its kernel
	Groups   int    // of a convolution: parts of the channels that do not mix
	NoPad    bool   // an average leaves the padding out of its count
	CeilMode bool   // of pooling: the last window may reach beyond the padding, if it begins before it
	// OutputPad, of a transposed convolution, is how many lines and columns more its result has.
	OutputPad [2]int
}

// Attr holds an operation's attributes; each operation reads its own.
type Attr struct {
	Axis         int          // one dimension
	Axes         []int        // several; nil for all
	Shape        []int64      // of the result
	Starts       []int        // of a slice, for each dimension
	Steps        []int        // of a slice, likewise
	Floats       [10]float64  // numbers
	Seed         uint64       // of random numbers
	DType        tensor.DType // of the result
	KeepDim      bool         // a reduction leaves extents of 1
	FromEnd      bool         // of CumSum
	AroundZero   bool         // of Normalize: the mean counts as 0
	Descending   bool         // of Sort
	AlignCorners bool         // of GridSample and AffineGrid
	Nesterov     bool         // of SGD
	Decoupled    bool         // of Adam: AdamW's weight decay
	TransA       bool         // the first matrix is transposed
	TransB       bool         // the second is
	Window       Window
	Scheme       *Scheme
	Mode         string  // of GridSample, EmbeddingBag and Step
	Padding      string  // of GridSample
	PaddingIdx   *int64  // of Embedding and EmbeddingBag: the row of indices that do not count; nil: none
	ByFrequency  bool    // of Embedding and EmbeddingBag: gradients of rows are divided by the number of their terms
	Renorm       bool    // of them, likewise: rows are scaled first, down to a norm of Floats[0], which is of the order Floats[1]
	LastOffset   bool    // of EmbeddingBag: the offsets end with where the last bag does
	Skip         [3]bool // of a backward's gradients: those that are not wanted
}
