package cpu_test

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/isobit-ml/isobit/cpu"
	"github.com/isobit-ml/isobit/internal/testcase"
	"github.com/isobit-ml/isobit/tensor"
)

// A float64 is rounded to 16 bits once: not by way of float32, which would
// take what lies just beside the middle of two values for the middle.
func TestStoreRoundsOnce(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, dtype := range []tensor.DType{tensor.F16, tensor.BF16} {
		var bits uint16
		out := cpu.Span{P: unsafe.Pointer(&bits), Stride: 2, DType: dtype}
		twice := 0 // values that two roundings get wrong
		check := func(v float64) {
			want := testcase.NearestHalf(dtype, v)
			if cpu.Store(out, []float64{v}); bits != want {
				t.Fatalf("%s of %v (%x): %#x, want %#x", dtype, v, v, bits, want)
			}
			if testcase.NearestHalf(dtype, float64(float32(v))) != want {
				twice++
			}
		}
		for i := range 1 << 16 {
			a, b := testcase.HalfValue(dtype, uint16(i)), testcase.HalfValue(dtype, uint16(i+1))
			if math.IsNaN(a) || math.IsNaN(b) || math.IsInf(a, 0) || math.IsInf(b, 0) {
				continue
			}
			middle := (a + b) / 2
			for _, v := range []float64{a, middle, middle + (b-a)*0x1p-40, middle - (b-a)*0x1p-40, middle + (b-a)*0x1p-20, a + (b-a)*r.Float64()} {
				check(v)
			}
		}
		for _, v := range []float64{65519.999999999, 65520, math.MaxFloat64, math.SmallestNonzeroFloat64, 0x1p-25, 0x1.0000000001p-25, 3.3961775292304e38, 3.39617752923046e38, math.Inf(-1)} {
			check(v)
			check(-v)
		}
		if twice < 10000 {
			t.Errorf("%s: only %d values would suffer from rounding twice", dtype, twice)
		}
	}
}

// What is loaded of whole numbers is rounded once, on machines of 32 bits too, where Go's
// own conversion of an int64 to a float32 takes another neighbour.
func TestWholeNumbersRoundOnce(t *testing.T) {
	numbers := []int64{0, 1, -1, 1<<24 + 1, 70643622084609, math.MaxInt64, math.MinInt64, math.MinInt64 + 1}
	for e := 23; e < 63; e++ {
		for _, tie := range []int{24, 53} { // half an ulp of f32, f64
			v := int64(1) << e
			if e >= tie {
				v |= int64(1) << (e - tie)
			}
			numbers = append(numbers, v, v+1, v-1, -v, -v-1, 1-v)
		}
	}
	span := cpu.Span{P: unsafe.Pointer(&numbers[0]), Stride: 8, DType: tensor.I64}
	f32, f64 := make([]float32, len(numbers)), make([]float64, len(numbers))
	cpu.Load(f32, span)
	cpu.Load(f64, span)
	for i, v := range numbers {
		want32, _ := new(big.Float).SetInt64(v).Float32()
		want64, _ := new(big.Float).SetInt64(v).Float64()
		if f32[i] != want32 || f64[i] != want64 {
			t.Errorf("%d: %v and %v, want %v and %v", v, f32[i], f64[i], want32, want64)
		}
	}
}
