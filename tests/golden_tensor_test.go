package tests

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"unsafe"

	"github.com/isobit-ml/isobit/tensor"
)

// placed is a tensor somewhere in a larger memory.
type placed struct {
	view   tensor.View
	memory []byte
	at     []int64 // per element in row-major order, its byte in memory
}

const untouched = 0xA5

func compact(dtype tensor.DType, shape []int64) placed {
	n := tensor.NumElements(shape)
	p := place(dtype, shape, nil, n, 0)
	for i := range n {
		p.at = append(p.at, i*dtype.Size())
	}
	return p
}

// strided places a tensor column by column, the first dimension backwards,
// with a gap after every element.
func strided(dtype tensor.DType, shape []int64) placed {
	strides := make([]int64, len(shape))
	step := int64(2)
	for i, d := range shape {
		strides[i] = step
		step *= max(d, 1)
	}
	first := int64(1)
	if len(shape) > 0 && shape[0] > 0 {
		first += (shape[0] - 1) * strides[0]
		strides[0] = -strides[0]
	}
	p := place(dtype, shape, strides, step+2, first)
	index := make([]int64, len(shape))
	for range tensor.NumElements(shape) {
		at := first
		for i := range shape {
			at += index[i] * strides[i]
		}
		p.at = append(p.at, at*dtype.Size())
		for i := len(shape) - 1; i >= 0; i-- {
			if index[i]++; index[i] < shape[i] {
				break
			}
			index[i] = 0
		}
	}
	return p
}

// place makes a memory of n elements with a tensor whose first element is at
// `first`, filled with a pattern that shows what a run has touched.
func place(dtype tensor.DType, shape, strides []int64, n, first int64) placed {
	whole := tensor.New(dtype, max(n, 1))
	memory := tensor.Bytes(whole)
	for i := range memory {
		memory[i] = untouched
	}
	v := tensor.View{DType: dtype, Shape: shape, Strides: strides}
	v.Data = unsafe.Pointer(&memory[first*dtype.Size()])
	v.Low, v.High = -first*dtype.Size(), int64(len(memory))-first*dtype.Size()
	return placed{view: v, memory: memory}
}

// place lays a golden tensor out, with its values if it is to be filled.
func (g *goldenTensor) place(layout func(tensor.DType, []int64) placed, fill bool) (placed, error) {
	if g == nil {
		return placed{}, nil
	}
	dtype, ok := tensor.ParseDType(g.DType)
	if !ok {
		return placed{}, fmt.Errorf("no dtype %q", g.DType)
	}
	shape := g.Shape
	if shape == nil {
		shape = []int64{}
	}
	p := layout(dtype, shape)
	if !fill {
		return p, nil
	}
	data, err := g.bytes(dtype)
	if err != nil {
		return p, err
	}
	size := dtype.Size()
	if int64(len(data)) != int64(len(p.at))*size {
		return p, fmt.Errorf("%d bytes for shape %v of %s", len(data), shape, dtype)
	}
	native := tensor.New(dtype, int64(len(p.at)))
	tensor.SetLittleEndian(native, data)
	for i, at := range p.at {
		copy(p.memory[at:at+size], tensor.Bytes(native)[int64(i)*size:])
	}
	return p, nil
}

// bytes returns the compact bytes of an input.
func (g *goldenTensor) bytes(dtype tensor.DType) ([]byte, error) {
	if g.Data != nil {
		return hex.DecodeString(*g.Data)
	}
	if g.Make == nil {
		return nil, fmt.Errorf("neither data nor a recipe")
	}
	data := g.Make.bytes(dtype, tensor.NumElements(g.Shape))
	if sum := digest(data); sum != g.SHA256 {
		return nil, fmt.Errorf("the recipe makes %s, want %s", sum, g.SHA256)
	}
	return data, nil
}

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// bytes makes n elements.
func (r *goldenRecipe) bytes(dtype tensor.DType, n int64) (data []byte) {
	for i := range n {
		z := r.Seed + uint64(i+1)*0x9E3779B97F4A7C15
		z = (z ^ z>>30) * 0xBF58476D1CE4E5B9
		z = (z ^ z>>27) * 0x94D049BB133111EB
		z ^= z >> 31
		switch r.Kind {
		case "patterns":
			data = appendBits(data, uint64(i), dtype.Size())
		case "integers":
			data = appendBits(data, uint64(r.Low+int64(z>>32%r.Count)), dtype.Size())
		default:
			whole := int64(z>>(64-r.Bits)) - 1<<(r.Bits-1)
			data = appendBits(data, floatBits(math.Ldexp(float64(whole), r.Exponent), dtype), dtype.Size())
		}
	}
	return data
}

func floatBits(value float64, dtype tensor.DType) uint64 {
	switch dtype {
	case tensor.F64:
		return math.Float64bits(value)
	case tensor.F16:
		return uint64(tensor.ToF16(float32(value)))
	case tensor.BF16:
		return uint64(tensor.ToBF16(float32(value)))
	}
	return uint64(math.Float32bits(float32(value)))
}

func appendBits(data []byte, bits uint64, size int64) []byte {
	var word [8]byte
	binary.LittleEndian.PutUint64(word[:], bits)
	return append(data, word[:size]...)
}

// compare compares a result bit for bit, any NaN equal to any NaN, and checks
// that nothing beside it was written.
func (g *goldenTensor) compare(p placed) error {
	if g == nil {
		return nil
	}
	size := p.view.DType.Size()
	native := tensor.New(p.view.DType, int64(len(p.at)))
	for i, at := range p.at {
		copy(tensor.Bytes(native)[int64(i)*size:], p.memory[at:at+size])
		copy(p.memory[at:at+size], bytes.Repeat([]byte{untouched}, int(size)))
	}
	for i, b := range p.memory {
		if b != untouched {
			return fmt.Errorf("byte %d between the elements was written", i)
		}
	}
	got := tensor.LittleEndian(native)
	if g.Data == nil {
		if sum := digest(got); sum != g.SHA256 {
			return fmt.Errorf("digest %s, want %s", sum, g.SHA256)
		}
		return nil
	}
	want, err := hex.DecodeString(*g.Data)
	if err != nil || len(want) != len(got) {
		return fmt.Errorf("%d bytes, want %d (%v)", len(got), len(want), err)
	}
	wrong, first := 0, ""
	for i := int64(0); i < int64(len(got)); i += size {
		a, b := bitsAt(got[i:i+size]), bitsAt(want[i:i+size])
		if a == b || isNaN(a, p.view.DType) && isNaN(b, p.view.DType) {
			continue
		}
		if wrong++; wrong <= 3 {
			first += fmt.Sprintf("; element %d is %s, want %s", i/size, show(a, p.view.DType), show(b, p.view.DType))
		}
	}
	if wrong > 0 {
		return fmt.Errorf("%d of %d elements differ%s", wrong, len(p.at), first)
	}
	return nil
}

func bitsAt(data []byte) uint64 {
	var word [8]byte
	copy(word[:], data)
	return binary.LittleEndian.Uint64(word[:])
}

// isNaN says whether a bit pattern has all exponent bits and some fraction bit.
func isNaN(bits uint64, dtype tensor.DType) bool {
	fraction := map[tensor.DType]uint64{tensor.F64: 52, tensor.F32: 23, tensor.F16: 10, tensor.BF16: 7}[dtype]
	if fraction == 0 {
		return false
	}
	exponent := uint64(1)<<(uint64(dtype.Size())*8-1-fraction) - 1
	return bits>>fraction&exponent == exponent && bits&(1<<fraction-1) != 0
}

// show writes a value with its bits.
func show(bits uint64, dtype tensor.DType) string {
	switch dtype {
	case tensor.F64:
		return fmt.Sprintf("%v (%016x)", math.Float64frombits(bits), bits)
	case tensor.F32:
		return fmt.Sprintf("%v (%08x)", math.Float32frombits(uint32(bits)), bits)
	case tensor.BF16:
		return fmt.Sprintf("%v (%04x)", math.Float32frombits(uint32(bits)<<16), bits)
	}
	return fmt.Sprintf("%x", bits)
}
