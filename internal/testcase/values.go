package testcase

import (
	"encoding/binary"
	"math"
	"strconv"
	"strings"

	"github.com/isobit-ml/isobit/tensor"
)

// floatBits are the float types' numbers as bits, and back.
var floatBits = map[tensor.DType]struct {
	of    func(value float64) uint64
	value func(bits uint64) float64
}{
	tensor.F64: {math.Float64bits, math.Float64frombits},
	tensor.F32: {
		func(v float64) uint64 { return uint64(math.Float32bits(float32(v))) },
		func(bits uint64) float64 { return float64(math.Float32frombits(uint32(bits))) },
	},
	tensor.F16: {
		func(v float64) uint64 { return uint64(tensor.ToF16(float32(v))) },
		func(bits uint64) float64 { return float64(tensor.F16Bits(bits).Float32()) },
	},
	tensor.BF16: {
		func(v float64) uint64 { return uint64(tensor.ToBF16(float32(v))) },
		func(bits uint64) float64 { return float64(tensor.BF16Bits(bits).Float32()) },
	},
}

// Encode appends a value to data as an element of a type; of an 8-bit float,
// the value is the byte.
func Encode(data []byte, dtype tensor.DType, value float64) []byte {
	if f, ok := floatBits[dtype]; ok {
		return appendWhole(data, int64(f.of(value)), dtype.Size())
	}
	return appendWhole(data, int64(value), dtype.Size())
}

// appendWhole appends the lower bytes of a whole number, in the machine's order.
func appendWhole(data []byte, value, size int64) []byte {
	switch size {
	case 1:
		return append(data, byte(value))
	case 2:
		return binary.NativeEndian.AppendUint16(data, uint16(value))
	case 4:
		return binary.NativeEndian.AppendUint32(data, uint32(value))
	}
	return binary.NativeEndian.AppendUint64(data, uint64(value))
}

// Decode returns the values of compact elements.
func Decode(data []byte, dtype tensor.DType) (values []float64) {
	value, size := valueOf(dtype), int(dtype.Size())
	for ; len(data) > 0; data = data[size:] {
		values = append(values, value(bitsOf(data[:size])))
	}
	return values
}

// valueOf returns the values of a type's bits.
func valueOf(dtype tensor.DType) func(bits uint64) float64 {
	switch shift := 64 - 8*dtype.Size(); {
	case dtype.IsFloat():
		return floatBits[dtype].value
	case dtype.IsFloat8():
		values := tensor.Float8Values(dtype)
		return func(bits uint64) float64 { return float64(values[bits]) }
	case dtype == tensor.U8 || dtype == tensor.U16:
		return func(bits uint64) float64 { return float64(bits) }
	default:
		return func(bits uint64) float64 { return float64(int64(bits<<shift) >> shift) }
	}
}

func bitsOf(element []byte) uint64 {
	switch len(element) {
	case 1:
		return uint64(element[0])
	case 2:
		return uint64(binary.NativeEndian.Uint16(element))
	case 4:
		return uint64(binary.NativeEndian.Uint32(element))
	}
	return binary.NativeEndian.Uint64(element)
}

// key returns the value of a key in a problem's text, or "".
func key(text, name string) string {
	_, value, _ := strings.Cut(text, " "+name+"=")
	value, _, _ = strings.Cut(value, " ")
	return value
}

func number(text, name string) float64 {
	v, _ := strconv.ParseFloat(key(text, name), 64)
	return v
}

// values returns how the elements of an argument are drawn. Its name says
// what it means, and means the same in every op.
func (s *Source) values(c *Case, a *Arg) func() float64 {
	switch a.Name {
	case "scale", "x_scale", "weight_scale":
		return s.scale
	case "zero_point":
		return s.zeroPoint(c.Text, a.DType)
	case "q":
		return s.code(c.Text, a.DType)
	case "indices":
		return s.index(c)
	case "offsets":
		return s.offsets(c, a)
	case "chosen":
		return s.positions(c, a)
	case "grid":
		return s.coordinate
	case "theta":
		return s.NormFloat64
	}
	if a.DType.IsInt() { // codes of a linear layer, or their zero points
		lo, hi := a.DType.WholeRange()
		lo, hi = max(lo, -300), min(hi, 300)
		return func() float64 { return float64(lo + s.Int64N(hi-lo+1)) }
	}
	return s.number
}

// scale draws a scale: mostly a power of two, where ties are, or any.
func (s *Source) scale() float64 {
	switch special := s.IntN(8); {
	case special == 0 && s.Finite:
		return oneOf(s, -0.5, 3, 0.001)
	case special == 0:
		return oneOf(s, -0.5, 0, math.Inf(1), math.NaN(), 1e-40, 65504, math.SmallestNonzeroFloat64)
	case special < 4:
		return math.Ldexp(1, s.IntN(7)-5)
	}
	return s.Float64() + 0.01
}

// zeroPoint draws zero points: whole numbers within the range of codes, and
// where they are learned anything.
func (s *Source) zeroPoint(text string, dtype tensor.DType) func() float64 {
	lo, hi := number(text, "qmin"), number(text, "qmax")
	if dtype.IsFloat() {
		return func() float64 {
			if s.IntN(3) == 0 {
				return oneOf(s, lo-0.5, hi+1, 0.5, -1.5, math.NaN(), math.Inf(-1), math.Copysign(0, -1))
			}
			return s.number()
		}
	}
	typeLo, typeHi := dtype.WholeRange()
	lo, hi = max(lo, float64(typeLo)), min(hi, float64(typeHi))
	hi = max(hi, lo) // where the type has none within the range, the run is refused
	return func() float64 { return lo + float64(s.Int64N(int64(hi-lo)+1)) }
}

// code draws codes: any that the type has, and among floats now and then one
// that is no code at all.
func (s *Source) code(text string, dtype tensor.DType) func() float64 {
	lo, hi := dtype.WholeRange()
	switch {
	case dtype.IsFloat8():
		return func() float64 { return float64(s.IntN(256)) } // a byte
	case dtype.IsInt():
		return func() float64 { return float64(lo + s.Int64N(hi-lo+1)) }
	}
	return func() float64 {
		if s.IntN(6) == 0 {
			return s.number()
		}
		return math.Trunc(number(text, "qmin") + s.Float64()*(number(text, "qmax")-number(text, "qmin")))
	}
}

// index draws row numbers, some often; where the op leaves out those out of
// range, they occur.
func (s *Source) index(c *Case) func() float64 {
	rows := int64(0)
	for _, a := range c.Args {
		if a.Name == "weight" || a.Name == "grad_weight" {
			rows = a.Shape[0]
		}
	}
	lenient := strings.HasSuffix(c.Op.Name, "_backward") || key(c.Text, "bounds") == "skip"
	return func() float64 {
		switch {
		case lenient && s.IntN(8) == 0 || rows == 0:
			return float64(oneOf(s, -1, rows, rows+5, math.MinInt32))
		case s.IntN(2) == 0:
			return 0
		}
		return float64(s.Int64N(rows))
	}
}

// coordinate draws places inside and outside of an image, pixel centres,
// edges and special values.
func (s *Source) coordinate() float64 {
	switch s.IntN(12) {
	case 0:
		return oneOf(s, math.NaN(), math.Inf(1), math.Inf(-1), 1e30, -1e9, 3.4e7)
	case 1, 2:
		return oneOf(s, -1, 1, 0, -0.5, 0.5, 3, -2)
	}
	return s.Float64()*3 - 1.5
}
