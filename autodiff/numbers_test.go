package autodiff

import (
	"math"
	"math/big"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/isobit-ml/isobit/tensor"
)

// Numbers that a tensor's type does not hold.

func truths[B Backend](t *testing.T, x Bool[B]) []bool {
	t.Helper()
	v, err := x.Values()
	require.NoError(t, err)
	return v
}

// A number beyond 32 bits equals no i32, and divides it.
func TestNumbersBeyondInt32(t *testing.T) {
	be := NewCPU()
	x := Ints(be, []int32{0, -7, math.MinInt32, math.MaxInt32})
	for _, v := range []int64{1 << 32, -1 << 32, 1<<32 - 7, 1 << 31, math.MinInt64} {
		require.Equal(t, []bool{false, false, false, false}, truths(t, x.EqualScalar(v)), v)
		q := x.DivScalar(v)
		require.NoError(t, q.Err())
		require.Equal(t, tensor.I32, q.DType())
		got, err := q.Int64s()
		require.NoError(t, err)
		want := []int64{0, 0, math.MinInt32 / v, 0}
		require.Equal(t, want, got, v)
	}
	require.Equal(t, []bool{false, true, false, false}, truths(t, x.EqualScalar(-7)))
	require.ErrorContains(t, x.DivScalar(0).Err(), "the divisor i32[] is 0")
	sum, err := x.AddScalar(1<<32 + 1).Int64s()
	require.NoError(t, err)
	require.Equal(t, []int64{1, -6, math.MinInt32 + 1, math.MinInt32}, sum, "sums wrap around")
}

// 16 bits are compared with a number in f32, as they are added to one.
func TestNumbersBeyondSixteenBits(t *testing.T) {
	be := NewCPU()
	for _, d := range []tensor.DType{tensor.F16, tensor.BF16} {
		x := Floats(be, []float32{1, 1 + 0x1p-7, 0x1p15}).Cast(d)
		for v, want := range map[float64][3][]bool{ // less, equal, greater
			1 + 0x1p-12: {{true, false, false}, {false, false, false}, {false, true, true}},
			1 - 0x1p-13: {{false, false, false}, {false, false, false}, {true, true, true}},
			1:           {{false, false, false}, {true, false, false}, {false, true, true}},
			1e30:        {{true, true, true}, {false, false, false}, {false, false, false}},
			math.Inf(1): {{true, true, true}, {false, false, false}, {false, false, false}},
			math.NaN():  {{false, false, false}, {false, false, false}, {false, false, false}},
		} {
			require.Equal(t, want, [3][]bool{truths(t, x.LessScalar(v)), truths(t, x.EqualScalar(v)), truths(t, x.GreaterScalar(v))}, "%v and %v", d, v)
			for i := range want[0] {
				less, equal, greater := want[0][i], want[1][i], want[2][i]
				require.Equal(t, []bool{!equal, less || equal, greater || equal},
					[]bool{truths(t, x.NotEqualScalar(v))[i], truths(t, x.LessEqualScalar(v))[i], truths(t, x.GreaterEqualScalar(v))[i]}, "%v and %v", d, v)
			}
		}
	}
}

// Squares may leave the range of their type where the norm does not.
func TestNormsOfLargeAndSmallGradients(t *testing.T) {
	for _, c := range []struct {
		d    tensor.DType
		x    []float64
		norm float64
	}{
		{tensor.F32, []float64{0x1.8p65, 0x1p66}, 0x1.4p66},
		{tensor.F32, []float64{0x1.8p-140, 0x1p-139}, 0x1.4p-139},
		{tensor.BF16, []float64{0x1.8p65, 0x1p66}, 0x1.4p66},
		{tensor.F64, []float64{0x1.8p600, 0x1p601}, 0x1.4p601},
		{tensor.F64, []float64{0x1.8p-1060, 0x1p-1059}, 0x1.4p-1059},
		{tensor.F64, []float64{0, 0}, 0},
		{tensor.F64, []float64{math.Inf(-1), 0}, math.Inf(1)},
		{tensor.F16, []float64{}, 0},
	} {
		ad := New(NewCPU(), None{})
		x := ad.Track(Floats(ad, c.x).Cast(c.d))
		y := ad.Track(Zeros(ad, 0))
		seed := Cat(0, Floats(ad.InnerBackend(), c.x)).Cast(c.d)
		g, err := ad.Backward(x, WithSeed(seed))
		require.NoError(t, err)
		more, err := ad.Backward(y, WithSum())
		require.NoError(t, err)
		require.NoError(t, g.Merge(more))
		norm, err := g.Norm()
		require.NoError(t, err)
		require.Equal(t, c.norm, norm, "%v %v", c.d, c.x)
		if math.IsInf(norm, 1) || norm == 0 {
			continue
		}
		_, err = g.ClipNorm(norm / 4)
		require.NoError(t, err)
		dx, _ := ad.Grad(x, g)
		require.Equal(t, []float64{c.x[0] / 4, c.x[1] / 4}, list(t, dx), "%v %v", c.d, c.x)
	}
	ad := New(NewCPU(), None{})
	x := ad.Track(Floats(ad, []float64{1, 2}))
	g, err := ad.Backward(x, WithSeed(Floats(ad.InnerBackend(), []float64{1, math.NaN()})))
	require.NoError(t, err)
	norm, err := g.Norm()
	require.NoError(t, err)
	require.True(t, math.IsNaN(norm))
}

func TestComparisonsAndPositions(t *testing.T) {
	be := NewCPU()
	x := Floats(be, []float64{3, 1, 2, 1, 5, math.NaN()}, 2, 3)
	require.Equal(t, []bool{false, true, true, true, false, false}, truths(t, x.LessEqual(Floats(be, []float64{2, 1, 2}))))
	require.Equal(t, []bool{true, false, false, false, true, false}, truths(t, x.GreaterScalar(2)))
	for axis, want := range [][]int64{{1, 0, 1}, {1, 2}} {
		got, err := x.ArgMin(axis).Int64s()
		require.NoError(t, err)
		require.Equal(t, want, got, "the first of equals, a NaN before all")
	}
}

// A cast rounds once: of a whole number with more bits than a float64, too.
func TestCastRoundsOnce(t *testing.T) {
	be := NewCPU()
	numbers := []int64{0, 1, -1, 2049, 65519, 65520, 1<<24 + 1, 1<<53 + 1, math.MaxInt64, math.MinInt64, math.MinInt64 + 1}
	for e := range 63 {
		for _, tie := range []int{8, 11, 24, 53} { // half an ulp of bf16, f16, f32, f64
			v := int64(1) << e
			if e >= tie {
				v |= int64(1) << (e - tie)
			}
			numbers = append(numbers, v, v+1, v-1, -v, -v-1, 1-v)
		}
	}
	exact := make([]*big.Float, len(numbers))
	for i, v := range numbers {
		exact[i] = new(big.Float).SetInt64(v)
	}
	for d, precision := range map[tensor.DType]uint{tensor.F64: 53, tensor.F32: 24, tensor.BF16: 8, tensor.F16: 11} {
		cast := Float[*CPU]{Ints(be, numbers).run(OpCast, &Attr{DType: d})}
		got, err := cast.Float64s()
		require.NoError(t, err)
		for i := range numbers {
			want, _ := new(big.Float).SetPrec(precision).Set(exact[i]).Float64()
			if d == tensor.F16 && math.Abs(want) >= 65520 {
				want = math.Inf(int(numbers[i]>>63) | 1)
			}
			require.Equal(t, want, got[i], "%d as %v", numbers[i], d)
		}
	}
}
