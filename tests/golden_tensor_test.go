package tests

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"slices"

	"github.com/isobit-ml/isobit/internal/testcase"
	"github.com/isobit-ml/isobit/tensor"
)

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

// lend gives an argument the tensor's shape, which may be the second one that it has, and its elements.
func (g *goldenTensor) lend(a *testcase.Arg, elements bool) error {
	if dtype, _ := tensor.ParseDType(g.DType); dtype != a.DType {
		return fmt.Errorf("dtype %s, want %s", g.DType, a.DType)
	}
	a.Shape, a.Expanded = slices.Clone(g.Shape), make([]bool, len(g.Shape))
	if !elements {
		return nil
	}
	data, err := g.bytes(a.DType)
	if err != nil {
		return err
	}
	if a.Before, err = native(a.DType, data); err == nil && int64(len(data)) != tensor.NumElements(a.Shape)*a.DType.Size() {
		err = fmt.Errorf("%d bytes for shape %v of %s", len(data), a.Shape, a.DType)
	}
	return err
}

// native returns elements in the machine's order.
func native(dtype tensor.DType, data []byte) ([]byte, error) {
	v := tensor.New(dtype, int64(len(data))/dtype.Size())
	if len(tensor.Bytes(v)) != len(data) {
		return nil, fmt.Errorf("%d bytes of %s", len(data), dtype)
	}
	tensor.SetLittleEndian(v, data)
	return tensor.Bytes(v), nil
}

// compare compares a result bit for bit, any NaN equal to any NaN.
func (g *goldenTensor) compare(dtype tensor.DType, got []byte) error {
	if g.Data == nil {
		v := tensor.New(dtype, int64(len(got))/dtype.Size())
		copy(tensor.Bytes(v), got)
		if sum := digest(tensor.LittleEndian(v)); sum != g.SHA256 {
			return fmt.Errorf("digest %s, want %s", sum, g.SHA256)
		}
		return nil
	}
	want, err := hex.DecodeString(*g.Data)
	if err != nil {
		return err
	}
	if want, err = native(dtype, want); err != nil {
		return err
	}
	return testcase.Same(dtype, got, want)
}
