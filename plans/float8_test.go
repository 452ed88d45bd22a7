package plans_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/isobit-ml/isobit/internal/testcase"
	"github.com/isobit-ml/isobit/tensor"
)

var float8s = tensor.Float8s()

// float8Inputs are all values of a 16-bit type; of a wider one those around
// every boundary of rounding to codes, times a scale, and special ones.
func float8Inputs(x, code tensor.DType, scale float64) (tensor.View, []float64) {
	if x.Size() == 2 {
		return every(x)
	}
	next := math.Nextafter
	if x == tensor.F32 {
		next = func(v, to float64) float64 { return float64(math.Nextafter32(float32(v), float32(to))) }
	}
	values := []float64{0, math.NaN(), math.Inf(1), math.MaxFloat32, 1e30, 65536, 61440, 464, 480, 1e-30, 1e-40, math.SmallestNonzeroFloat32}
	if x == tensor.F64 {
		values = append(values, math.MaxFloat64, math.SmallestNonzeroFloat64, 1e-310)
	}
	for b := range uint8(0x7f) {
		v, above := testcase.Float8Value(code, b), testcase.Float8Value(code, b+1)
		for _, around := range []float64{v * scale, (v + above) / 2 * scale} {
			if math.IsInf(around, 0) || around != around {
				continue
			}
			down, up := next(around, math.Inf(-1)), next(around, math.Inf(1))
			values = append(values, next(down, math.Inf(-1)), down, around, up, next(up, math.Inf(1)))
		}
	}
	var data []byte
	for i, v := range values {
		values[i] = testcase.Exact{Type: x}.Round(v)
		values = append(values, -values[i])
	}
	for _, v := range values {
		data = testcase.EncodeExact(data, x, v)
	}
	view := tensor.New(x, int64(len(values)))
	copy(tensor.Bytes(view), data)
	return view, values
}

// Every rounding to 8-bit floats, by quantize and its relatives, is that of
// exact arithmetic.
func TestEveryRoundingToFloat8(t *testing.T) {
	for _, code := range float8s {
		lowest, highest := code.WholeRange()
		for _, x := range []tensor.DType{tensor.F32, tensor.F64, tensor.F16, tensor.BF16} {
			for i, s := range []float64{1, float64(float32(0.1)), -0.5, 0x1p-20, math.Inf(1)} {
				q := quantizer{testcase.Exact{Type: tensor.F32}, s, 0, float64(lowest), float64(highest), i == 1}
				if x == tensor.F64 {
					q.Type = tensor.F64
				}
				if i == 2 {
					q.lo, q.hi = -100, 37
				}
				all, values := float8Inputs(x, code, s)
				want := make([]float64, len(values))
				for k, v := range values {
					want[k] = testcase.Float8Value(code, testcase.NearestFloat8(code, testcase.Clamp(q.quotient(v), q.lo, q.hi)))
				}
				inside := encoded(values, func(v float64) float64 {
					if u := q.quotient(v); u >= q.lo && u <= q.hi {
						return q.Quo(v, q.s)
					}
					return 0
				})
				keys := fmt.Sprintf("=%s scale=f64 zero_point=none qmin=%v qmax=%v rounding=%s", &all, q.lo, q.hi, map[bool]string{true: "reciprocal", false: "nearest"}[q.reciprocal])
				inputs := []tensor.View{all, one(tensor.F64, s), {}}
				evaluate(t, fmt.Sprintf("quantize_per_tensor q=%s x%s", code, keys), inputs, encoded(want, func(v float64) float64 { return v }))
				evaluate(t, fmt.Sprintf("fake_quantize_per_tensor code=%s x%s", code, keys), inputs, encoded(want, func(v float64) float64 { return q.Mul(v, q.s) }))
				inputs = []tensor.View{all, all, one(tensor.F64, s), {}}
				evaluate(t, fmt.Sprintf("quantize_per_tensor_backward code=%s grad_output%s", code, keys), inputs, inside)
			}
		}
	}
}

// All 256 codes through dequantize.
func TestEveryFloat8Dequantized(t *testing.T) {
	for _, code := range float8s {
		all, values := every(code)
		for _, s := range scales {
			for _, y := range []tensor.DType{tensor.F32, tensor.F64, tensor.F16, tensor.BF16} {
				q := quantizer{Exact: testcase.Exact{Type: tensor.F32}, s: float64(float32(s))}
				if y == tensor.F64 {
					q.Exact.Type, q.s = tensor.F64, s
				}
				inputs := []tensor.View{all, one(tensor.F64, q.s), {}}
				evaluate(t, fmt.Sprintf("dequantize_per_tensor q=%s y=%s scale=f64 zero_point=none qmin=-1 qmax=1", &all, y), inputs, encoded(values, q.value))
			}
		}
	}
}
