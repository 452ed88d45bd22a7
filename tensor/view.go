package tensor

import (
	"fmt"
	"math"
	"math/bits"
	"strconv"
	"strings"
	"unsafe"
)

// MaxRank is the largest number of dimensions that a plan takes.
const MaxRank = 8

// DeviceKind names where memory lies. The values are DLPack's.
type DeviceKind int32

// DLPack's device types that isobit knows.
const (
	CPU  DeviceKind = 1
	CUDA DeviceKind = 2
	// Meta is no memory at all, but a type and a shape: DLPack's type for what
	// extends it. Plan.CanImplement takes such Views.
	Meta DeviceKind = 12
)

// Device is one place where tensors lie. The zero value is the CPU.
type Device struct {
	Kind  DeviceKind
	Index int32
}

// IsCPU reports whether d is host memory.
func (d Device) IsCPU() bool { return d.Kind == 0 || d.Kind == CPU }

// String returns "cpu", or for example "cuda:0".
func (d Device) String() string {
	switch {
	case d.IsCPU():
		return "cpu"
	case d.Kind == CUDA:
		return fmt.Sprintf("cuda:%d", d.Index)
	case d.Kind == Meta:
		return "meta"
	}
	return fmt.Sprintf("device(%d):%d", d.Kind, d.Index)
}

// View describes a tensor in memory that the caller owns. The zero View
// stands for an absent tensor.
type View struct {
	Data    unsafe.Pointer // the element with index 0 in every dimension
	DType   DType
	Device  Device
	Shape   []int64
	Strides []int64 // in elements; nil means compact, row-major
	// Low and High bound the memory around Data that may be touched, in bytes
	// from Data: [Low, High). Both zero means unknown (a DLPack tensor).
	Low, High int64
	ReadOnly  bool // a plan refuses it as an output
}

// Element lists the Go types of a View's elements.
type Element interface {
	float32 | float64 | F16Bits | BF16Bits | int8 | uint8 | int16 | uint16 | int32 | int64 | bool
}

func dtypeOf[T Element]() DType {
	var zero T
	switch any(zero).(type) {
	case float32:
		return F32
	case float64:
		return F64
	case F16Bits:
		return F16
	case BF16Bits:
		return BF16
	case int8:
		return S8
	case uint8:
		return U8
	case int16:
		return S16
	case uint16:
		return U16
	case int32:
		return I32
	case int64:
		return I64
	}
	return Bool
}

// Of views a slice as a compact tensor; without a shape, as one dimension.
// The View keeps the slice's memory alive, and holds the shape that it is given.
// It panics when the shape does not have as many elements as the slice.
func Of[T Element](data []T, shape ...int64) View {
	if shape == nil {
		shape = []int64{int64(len(data))}
	}
	v := View{DType: dtypeOf[T](), Shape: shape, High: int64(len(data)) * dtypeOf[T]().Size()}
	if v.NumElements() != int64(len(data)) {
		panic(fmt.Sprintf("tensor.Of: shape %v is not one of %d elements, which the slice has", shape, len(data)))
	}
	v.Data = unsafe.Pointer(unsafe.SliceData(data))
	return v
}

// Scalar views one value as a tensor of rank 0.
func Scalar[T Element](value T) View { return Of([]T{value}, []int64{}...) }

// New returns a compact tensor of zeros in Go memory, aligned to 8 bytes. The View
// holds the shape that it is given, as Of's does. The shape counts elements; packed
// codes are made as a plan takes them, as bytes: U8 with ceil(D / 2) along the last
// dimension, and a shape of their own. It panics for a negative extent, for packed
// codes without a dimension, for None, and where the tensor exceeds the address space.
func New(dtype DType, shape ...int64) View {
	if dtype.Size() == 0 {
		panic(fmt.Sprintf("tensor.New: %s is not an element type", dtype))
	}
	if dtype.Packed() {
		if len(shape) == 0 {
			panic(fmt.Sprintf("tensor.New: %s has shape []; want at least one dimension to pack along", dtype))
		}
		last := len(shape) - 1
		dtype, shape = U8, append(shape[:last:last], shape[last]/2+shape[last]%2)
	}
	v := View{DType: dtype, Shape: shape}
	n := v.NumElements()
	if n < 0 || n > (math.MaxInt-7)/dtype.Size() {
		panic(fmt.Sprintf("tensor.New: no memory has the shape %v", shape))
	}
	// Words, so that elements of every type are aligned.
	words := make([]uint64, (n*dtype.Size()+7)/8)
	v.Data, v.High = unsafe.Pointer(unsafe.SliceData(words)), n*dtype.Size()
	return v
}

// Present reports whether v is a tensor at all.
func (v View) Present() bool { return v.DType != None }

// NumElements is that of the shape.
func (v View) NumElements() int64 { return NumElements(v.Shape) }

// CeilDiv returns n / d rounded up, 0 for n of at most 0, of any d of at least 1: it does not overflow.
func CeilDiv(n, d int64) int64 {
	if n <= 0 {
		return 0
	}
	return (n-1)/d + 1
}

// NumElements returns the product of a shape's extents (1 for rank 0), or -1
// where it exceeds 64 bits or an extent is negative.
func NumElements(shape []int64) int64 {
	empty := false
	for _, d := range shape {
		if d < 0 {
			return -1
		}
		empty = empty || d == 0
	}
	if empty {
		return 0
	}
	n := int64(1)
	for _, d := range shape {
		high, low := bits.Mul64(uint64(n), uint64(d))
		if high != 0 || int64(low) < 0 {
			return -1
		}
		n = int64(low)
	}
	return n
}

// The methods below that every run of a plan calls take pointers: a View is
// large to copy, beside a call on a few elements.

// Stride returns the distance in elements between neighbours along dimension i.
func (v *View) Stride(i int) int64 {
	if v.Strides != nil {
		return v.Strides[i]
	}
	s := int64(1)
	for _, d := range v.Shape[i+1:] {
		s *= d
	}
	return s
}

// IsContiguous reports whether the elements lie compact and in row-major order, as none do.
func (v *View) IsContiguous() bool {
	if v.Strides == nil {
		return true
	}
	s := int64(1)
	for i := len(v.Shape) - 1; i >= 0; i-- {
		if v.Shape[i] != 1 && v.Strides[i] != s {
			return NumElements(v.Shape) == 0
		}
		s *= v.Shape[i]
	}
	return true
}

// farthest is a distance in elements beyond which no memory lies. Sums of a
// few such distances in bytes stay within 64 bits.
const farthest = 1 << 56

// Extent returns the bytes that the elements span, from lo (inclusive, zero
// or negative) to hi (exclusive), relative to Data; both are 0 when v is
// empty. Strides that no memory has give all of 64 bits.
func (v *View) Extent() (lo, hi int64) {
	if v.NumElements() == 0 {
		return 0, 0
	}
	for i, d := range v.Shape {
		s := v.Stride(i)
		over, span := bits.Mul64(uint64(max(s, -s)), uint64(d-1)) // -s of the smallest number is itself, and right
		switch {
		case over != 0 || span > farthest:
			return math.MinInt64, math.MaxInt64
		case s < 0:
			lo -= int64(span)
		default:
			hi += int64(span)
		}
	}
	size := v.DType.Size()
	return lo * size, (hi + 1) * size
}

// String returns the type and shape as in a problem's text, such as "f32[8,64]".
func (v View) String() string {
	if !v.Present() {
		return "none"
	}
	return v.DType.String() + ShapeString(v.Shape)
}

// ShapeString writes a shape as in a problem's text, "[8,64]".
func ShapeString(shape []int64) string { return joined(shape, ",") }

// ShapeText writes a shape as errors do, "[8, 64]".
func ShapeText(shape []int64) string { return joined(shape, ", ") }

func joined(shape []int64, separator string) string {
	parts := make([]string, len(shape))
	for i, d := range shape {
		parts[i] = strconv.FormatInt(d, 10)
	}
	return "[" + strings.Join(parts, separator) + "]"
}

// Bytes returns the memory of a compact CPU tensor. It panics for any other, and
// where the memory is not all there: by Low and High, a nil pointer or the shape.
func Bytes(v View) []byte {
	if !v.IsContiguous() || !v.Device.IsCPU() {
		panic("tensor.Bytes: the tensor is not compact in host memory")
	}
	lo, hi := v.Extent()
	switch {
	case hi > lo && (v.Low != 0 || v.High != 0) && (lo < v.Low || hi > v.High):
		panic(fmt.Sprintf("tensor.Bytes: %s spans bytes [%d, %d) of its memory, which has [%d, %d)", v, lo, hi, v.Low, v.High))
	case hi > lo && v.Data == nil, hi == math.MaxInt64:
		panic(fmt.Sprintf("tensor.Bytes: %s has no memory", v))
	}
	return unsafe.Slice((*byte)(v.Data), hi-lo)
}

// Slice returns the elements of a compact CPU tensor. It panics when T is not
// the tensor's element type.
func Slice[T Element](v View) []T {
	if dtypeOf[T]() != v.DType {
		panic(fmt.Sprintf("tensor.Slice: the tensor is %s, not %s", v.DType, dtypeOf[T]()))
	}
	Bytes(v)
	return unsafe.Slice((*T)(v.Data), v.NumElements())
}
