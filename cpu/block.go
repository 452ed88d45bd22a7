package cpu

import (
	"math"
	"unsafe"

	"github.com/isobit-ml/isobit/tensor"
)

// Compute is the set of types that arithmetic is done in. Other storage types
// are widened when a block is loaded and rounded once when it is stored.
type Compute interface{ float32 | float64 }

// Block is the number of elements that definitions handle at a time.
const Block = 256

// Span is one operand of a run: elements of a storage type, Stride bytes
// apart. A nil P is an absent operand: it loads as zeros and is not stored.
type Span struct {
	P      unsafe.Pointer
	Stride int64
	DType  tensor.DType
}

// At returns the span that starts i elements further on.
func (s Span) At(i int64) Span {
	if s.P != nil {
		s.P = unsafe.Add(s.P, i*s.Stride)
	}
	return s
}

// Contiguous reports whether the elements lie one after the other.
func (s Span) Contiguous() bool { return s.Stride == s.DType.Size() }

// numeric lists the storage types that Go converts itself.
type numeric interface {
	float32 | float64 | int8 | uint8 | int16 | uint16 | int32 | int64
}

// same reports whether T is the compute type: of its size, and no integer.
func same[C Compute, T numeric]() bool {
	half := C(0.5)
	return unsafe.Sizeof(half) == unsafe.Sizeof(T(0)) && T(half) != 0
}

func loadNumeric[C Compute, T numeric](dst []C, p unsafe.Pointer, stride int64) {
	if stride == int64(unsafe.Sizeof(T(0))) && same[C, T]() {
		copy(dst, unsafe.Slice((*C)(p), len(dst)))
		return
	}
	if stride == int64(unsafe.Sizeof(T(0))) {
		for i, v := range unsafe.Slice((*T)(p), len(dst)) {
			dst[i] = C(v)
		}
		return
	}
	for i := range dst {
		dst[i] = C(*(*T)(unsafe.Add(p, int64(i)*stride)))
	}
}

// FewerBits returns a float64 that rounds to every narrower type as n does: where n has
// more bits than a float64 and any of the last ten is set, one sticky bit stands for them.
func FewerBits(n int64) float64 {
	const last = 1 << 10
	if n&(last-1) != 0 && (n > 1<<53 || n < -1<<53) {
		n = n&^(last-1) | last
	}
	return float64(n)
}

// fromInt converts with one rounding. On 32-bit machines Go's own conversion of an int64
// to a float32 may take the other neighbour.
func fromInt[C Compute](n int64) C {
	if unsafe.Sizeof(C(0)) == 8 {
		return C(n)
	}
	return C(FewerBits(n))
}

func loadI64[C Compute](dst []C, p unsafe.Pointer, stride int64) {
	for i := range dst {
		dst[i] = fromInt[C](*(*int64)(unsafe.Add(p, int64(i)*stride)))
	}
}

// The two types of 16 bits have loops of their own: in a generic one Go would look up the method Float32 for each element.
func loadF16[C Compute](dst []C, p unsafe.Pointer, stride int64) {
	for i := range dst {
		dst[i] = C((*(*tensor.F16Bits)(unsafe.Add(p, int64(i)*stride))).Float32())
	}
}

func loadBF16[C Compute](dst []C, p unsafe.Pointer, stride int64) {
	for i := range dst {
		dst[i] = C((*(*tensor.BF16Bits)(unsafe.Add(p, int64(i)*stride))).Float32())
	}
}

func storeNumeric[C Compute, T numeric](p unsafe.Pointer, stride int64, src []C) {
	if stride == int64(unsafe.Sizeof(T(0))) && same[C, T]() {
		copy(unsafe.Slice((*C)(p), len(src)), src)
		return
	}
	if stride == int64(unsafe.Sizeof(T(0))) {
		dst := unsafe.Slice((*T)(p), len(src))
		for i, v := range src {
			dst[i] = T(v)
		}
		return
	}
	for i, v := range src {
		*(*T)(unsafe.Add(p, int64(i)*stride)) = T(v)
	}
}

// storeI32 stores 2^31 as the largest i32, which no float32 holds.
func storeI32[C Compute](p unsafe.Pointer, stride int64, src []C) {
	for i, v := range src {
		code := int32(math.MaxInt32)
		if v < 1<<31 {
			code = int32(v)
		}
		*(*int32)(unsafe.Add(p, int64(i)*stride)) = code
	}
}

func storeF16[C Compute](p unsafe.Pointer, stride int64, src []C) {
	for i, v := range src {
		*(*tensor.F16Bits)(unsafe.Add(p, int64(i)*stride)) = tensor.ToF16(ToOdd(v))
	}
}

func storeBF16[C Compute](p unsafe.Pointer, stride int64, src []C) {
	if values, ok := any(src).([]float32); ok && stride == 2 {
		dst := unsafe.Slice((*tensor.BF16Bits)(p), len(values))
		for i, v := range values {
			dst[i] = tensor.ToBF16(v)
		}
		return
	}
	for i, v := range src {
		*(*tensor.BF16Bits)(unsafe.Add(p, int64(i)*stride)) = tensor.ToBF16(ToOdd(v))
	}
}

func loadFloat8[C Compute](d tensor.DType) func(dst []C, p unsafe.Pointer, stride int64) {
	values := tensor.Float8Values(d)
	return func(dst []C, p unsafe.Pointer, stride int64) {
		for i := range dst {
			dst[i] = C(values[*(*uint8)(unsafe.Add(p, int64(i)*stride))])
		}
	}
}

func storeFloat8[C Compute](d tensor.DType) func(p unsafe.Pointer, stride int64, src []C) {
	return func(p unsafe.Pointer, stride int64, src []C) {
		for i, v := range src {
			*(*uint8)(unsafe.Add(p, int64(i)*stride)) = tensor.ToFloat8(d, float64(v))
		}
	}
}

// outside is the offset of an element that is not there; it gathers as +0.
const outside = math.MinInt64

func gatherNumeric[C Compute, T float32 | float64](dst []C, p unsafe.Pointer, offsets []int64) {
	for i, o := range offsets {
		dst[i] = 0
		if o != outside {
			dst[i] = C(*(*T)(unsafe.Add(p, o)))
		}
	}
}

func gatherF16[C Compute](dst []C, p unsafe.Pointer, offsets []int64) {
	for i, o := range offsets {
		dst[i] = 0
		if o != outside {
			dst[i] = C((*(*tensor.F16Bits)(unsafe.Add(p, o))).Float32())
		}
	}
}

func gatherBF16[C Compute](dst []C, p unsafe.Pointer, offsets []int64) {
	for i, o := range offsets {
		dst[i] = 0
		if o != outside {
			dst[i] = C((*(*tensor.BF16Bits)(unsafe.Add(p, o))).Float32())
		}
	}
}

// ToOdd narrows to float32 so that a further rounding to 16 bits is as if the
// value had been rounded once: an inexact result takes the neighbour with an
// odd last bit, which no 16-bit rounding mistakes for a tie.
func ToOdd[C Compute](v C) float32 {
	f := float32(v)
	if C(f) == v || v != v {
		return f
	}
	bits := math.Float32bits(f)
	if bits&1 == 0 {
		if math.Abs(float64(f)) > math.Abs(float64(v)) {
			bits--
		} else {
			bits++
		}
	}
	return math.Float32frombits(bits)
}

type converters[C Compute] struct {
	load   func(dst []C, p unsafe.Pointer, stride int64)
	store  func(p unsafe.Pointer, stride int64, src []C)
	gather func(dst []C, p unsafe.Pointer, offsets []int64)
}

func convertersFor[C Compute]() [tensor.Count]converters[C] {
	return [tensor.Count]converters[C]{
		tensor.F32:  {loadNumeric[C, float32], storeNumeric[C, float32], gatherNumeric[C, float32]},
		tensor.F64:  {loadNumeric[C, float64], storeNumeric[C, float64], gatherNumeric[C, float64]},
		tensor.F16:  {loadF16[C], storeF16[C], gatherF16[C]},
		tensor.BF16: {loadBF16[C], storeBF16[C], gatherBF16[C]},
		tensor.S8:   {loadNumeric[C, int8], storeNumeric[C, int8], nil},
		tensor.U8:   {loadNumeric[C, uint8], storeNumeric[C, uint8], nil},
		tensor.S16:  {loadNumeric[C, int16], storeNumeric[C, int16], nil},
		tensor.U16:  {loadNumeric[C, uint16], storeNumeric[C, uint16], nil},
		tensor.I32:  {loadNumeric[C, int32], storeI32[C], nil},
		tensor.I64:  {loadI64[C], storeNumeric[C, int64], nil},

		tensor.F8E4M3: {loadFloat8[C](tensor.F8E4M3), storeFloat8[C](tensor.F8E4M3), nil},
		tensor.F8E5M2: {loadFloat8[C](tensor.F8E5M2), storeFloat8[C](tensor.F8E5M2), nil},
	}
}

// The tables of conversions: the one place that knows how a storage type is
// read and written.
var (
	converters32 = convertersFor[float32]()
	converters64 = convertersFor[float64]()
)

func converterOf[C Compute](d tensor.DType) *converters[C] {
	return &ofCompute[C, [tensor.Count]converters[C]](&converters32, &converters64)[d]
}

// Load fills dst with the span's elements, widened or rounded once to C.
func Load[C Compute](dst []C, s Span) {
	switch {
	case s.P == nil:
		clear(dst)
	case s.Stride == 0 && len(dst) > 1:
		converterOf[C](s.DType).load(dst[:1], s.P, 0)
		for i := range dst {
			dst[i] = dst[0]
		}
	default:
		converterOf[C](s.DType).load(dst, s.P, s.Stride)
	}
}

// Store writes src to the span's elements, rounded once. It does nothing for
// an absent operand.
func Store[C Compute](s Span, src []C) {
	if s.P != nil {
		converterOf[C](s.DType).store(s.P, s.Stride, src)
	}
}

// gather fills dst with the elements at the given offsets from p, in bytes.
func gather[C Compute](dst []C, d tensor.DType, p unsafe.Pointer, offsets []int64) {
	converterOf[C](d).gather(dst, p, offsets)
}
