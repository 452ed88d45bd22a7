package plans_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/isobit-ml/isobit/internal/testcase"
	"github.com/isobit-ml/isobit/plans"
	"github.com/isobit-ml/isobit/tensor"
)

// evaluate runs a problem on inputs, on every row that takes it, and asks for
// the given output.
func evaluate(t *testing.T, text string, inputs []tensor.View, want func(out tensor.View) []byte) {
	t.Helper()
	p, err := plans.Parse(text)
	require.NoError(t, err)
	var expected []byte
	for _, row := range rowsOf(p.Op()) {
		plan, err := plans.Select(0, p, plans.Preference{Row: row})
		if err != nil {
			requireKind(t, err, plans.Unsupported)
			continue
		}
		args := append([]tensor.View{}, inputs...)
		for _, a := range plans.Describe(plan).Args[len(inputs):] {
			dtype, _ := tensor.ParseDType(a.DType)
			args = append(args, tensor.New(dtype, a.Shape...))
		}
		require.NoError(t, plan.Run(0, make([]byte, plan.WorkspaceSize()), args), text)
		out := args[len(inputs)]
		if expected == nil {
			expected = want(out)
		}
		require.NoError(t, testcase.Same(out.DType, tensor.Bytes(out), expected), "%s row=%s", text, row)
	}
	require.NotEmpty(t, expected)
}

// rowsOf lists the rows of an op.
func rowsOf(op string) []string { return supportOf(op).Rows }

var support = sync.OnceValue(plans.Support)

func supportOf(op string) plans.SupportOp {
	for _, s := range support() {
		if s.Op == op {
			return s
		}
	}
	return plans.SupportOp{}
}

// every returns a tensor of all patterns of a type of 8 or 16 bits, and their
// values.
func every(dtype tensor.DType) (v tensor.View, values []float64) {
	v = tensor.New(dtype, 1<<(8*dtype.Size()))
	data := make([]byte, v.NumElements()*dtype.Size())
	for i := range v.NumElements() {
		data[i*dtype.Size()] = byte(i)
		switch dtype {
		case tensor.S8:
			values = append(values, float64(int8(i)))
		case tensor.U8:
			values = append(values, float64(i))
		case tensor.F8E4M3, tensor.F8E5M2:
			values = append(values, testcase.Float8Value(dtype, uint8(i)))
		default:
			data[2*i+1] = byte(i >> 8)
			values = append(values, testcase.HalfValue(dtype, uint16(i)))
		}
	}
	tensor.SetLittleEndian(v, data)
	return v, values
}

// one is a tensor of one element.
func one(dtype tensor.DType, value float64) tensor.View {
	v := tensor.New(dtype, 1)
	copy(tensor.Bytes(v), testcase.EncodeExact(nil, dtype, value))
	return v
}

// encoded returns what a function of every value is stored as.
func encoded(values []float64, f func(x float64) float64) func(out tensor.View) []byte {
	return func(out tensor.View) (data []byte) {
		for _, x := range values {
			data = testcase.EncodeExact(data, out.DType, f(x))
		}
		return data
	}
}

// quantizer is the rule of quantize and dequantize, in exact arithmetic.
type quantizer struct {
	testcase.Exact
	s, z, lo, hi float64
	reciprocal   bool
}

func (q *quantizer) quotient(x float64) float64 {
	if q.reciprocal {
		return q.Mul(x, q.Quo(1, q.s))
	}
	return q.Quo(x, q.s)
}

func (q *quantizer) code(x float64) float64 {
	u := q.quotient(x)
	if u != u {
		return testcase.Clamp(q.z, q.lo, q.hi)
	}
	return testcase.Clamp(q.Add(testcase.Rint(u), q.z), q.lo, q.hi) + 0
}

func (q *quantizer) value(code float64) float64 { return q.Mul(q.Sub(code, q.z), q.s) }

var scales = []float64{0.5, float64(float32(0.1)), float64(float32(1.0 / 3)), 37, 0x1p-20, -2, 0, 1e-40, math.Inf(1), math.NaN()}

// All 65,536 values of f16 and of bf16 through quantize and fake-quantize.
func TestEveryHalfQuantized(t *testing.T) {
	for _, x := range []tensor.DType{tensor.F16, tensor.BF16} {
		all, values := every(x)
		for i, s := range scales {
			q := quantizer{testcase.Exact{Type: tensor.F32}, float64(float32(s)), float64(i - 4), -8, 120, i%3 == 1}
			keys := fmt.Sprintf(" x=%s qmin=%v qmax=%v rounding=%s", &all, q.lo, q.hi, map[bool]string{true: "reciprocal", false: "nearest"}[q.reciprocal])
			inputs := []tensor.View{all, one(tensor.F32, q.s), one(tensor.I32, q.z)}
			want := make([]float64, len(values))
			for k, v := range values {
				want[k] = q.code(v)
			}
			at := func(f func(code float64) float64) func(out tensor.View) []byte { return encoded(want, f) }
			same := func(code float64) float64 { return code }
			evaluate(t, "quantize_per_tensor q=s8"+keys, inputs, at(same))
			evaluate(t, "quantize_per_tensor q=bf16"+keys, inputs, at(same))
			evaluate(t, "fake_quantize_per_tensor"+keys, inputs, at(q.value))
		}
	}
}

// All 65,536 values as codes, and all bytes, through dequantize.
func TestEveryCodeDequantized(t *testing.T) {
	for _, code := range []tensor.DType{tensor.S8, tensor.U8, tensor.F16, tensor.BF16} {
		all, values := every(code)
		for i, s := range scales {
			q := quantizer{testcase.Exact{Type: tensor.F32}, float64(float32(s)), float64(i), 0, 100, false}
			inputs := []tensor.View{all, one(tensor.F32, q.s), one(tensor.U8, q.z)}
			for _, y := range []tensor.DType{tensor.F32, tensor.F16, tensor.BF16} {
				if i%3 == 0 || y == tensor.F32 {
					evaluate(t, fmt.Sprintf("dequantize_per_tensor q=%s zero_point=u8 y=%s qmin=0 qmax=100", &all, y), inputs, encoded(values, q.value))
				}
			}
		}
	}
}

// Quotients of random values, ties, denormals and large numbers against
// arbitrary precision: codes as wide as the type has exact whole numbers.
func TestQuotientsAreExact(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, dtype := range []tensor.DType{tensor.F32, tensor.F64} {
		q := quantizer{Exact: testcase.Exact{Type: dtype}, lo: -1 << 22, hi: 1 << 22}
		for i := range 60 {
			q.s = q.Round(math.Ldexp(r.Float64()+0.5, r.IntN(40)-20))
			q.z = float64(r.IntN(7) - 3)
			q.reciprocal = i%4 == 0
			var data []byte
			var values []float64
			for range 300 {
				whole := float64(r.Int64N(1<<23)-1<<22) / float64(int64(1)<<r.IntN(22))
				x := q.Mul(math.Trunc(whole)+0.5, q.s) // close to a tie or on one
				switch r.IntN(4) {
				case 0:
					x = q.Mul(whole, q.s)
				case 1:
					x = q.Round(math.Ldexp(r.NormFloat64(), r.IntN(280)-140))
				}
				values = append(values, x)
				data = testcase.EncodeExact(data, dtype, x)
			}
			x := tensor.New(dtype, int64(len(values)))
			copy(tensor.Bytes(x), data)
			rounding := map[bool]string{true: "reciprocal", false: "nearest"}[q.reciprocal]
			inputs := []tensor.View{x, one(dtype, q.s), one(tensor.I64, q.z)}
			keys := fmt.Sprintf(" x=%s scale=%s zero_point=i64 qmin=%d qmax=%d rounding=%s", &x, dtype, int(q.lo), int(q.hi), rounding)
			evaluate(t, strings.Join([]string{"quantize_per_tensor q=", dtype.String(), keys}, ""), inputs, encoded(values, q.code))
			evaluate(t, "fake_quantize_per_tensor"+keys, inputs, encoded(values, func(x float64) float64 { return q.value(q.code(x)) }))
		}
	}
}
