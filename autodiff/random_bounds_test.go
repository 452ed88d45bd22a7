package autodiff

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/isobit-ml/isobit/tensor"
)

// Bounds beyond the type's range gave infinities and NaN.
func TestBoundsOfRandomNumbers(t *testing.T) {
	ad := over(None{})
	inf, nan := math.Inf(1), math.NaN()
	for want, y := range map[string]Float[adf]{
		"uniform: the bounds are 0 and +Inf; want them, and what is between them, finite in f32":       Uniform(ad, 1, 0, inf, 3),
		"uniform: the bounds are -Inf and 0; want them":                                                Uniform(ad, 1, -inf, 0, 3),
		"uniform: the bounds are 0 and 1e+39; want them, and what is between them, finite in f32":      Uniform(ad, 1, 0, 1e39, 3),
		"uniform: the bounds are -3e+38 and 3e+38; want them, and what is between them, finite in f32": Uniform(ad, 1, -3e38, 3e38, 3),
		"normal: std is +Inf; want 0 or more, and finite in f32":                                       Normal(ad, 1, 0, inf, 3),
		"normal: std is NaN; want 0 or more":                                                           Normal(ad, 1, 0, nan, 3),
		"normal: the mean is NaN; want a number that is finite in f32":                                 Normal(ad, 1, nan, 1, 3),
		"normal: the mean is -Inf; want a number":                                                      Normal(ad, 1, -inf, 1, 3),
		"uniform: the bounds are 1 and -1; want the first not above the second":                        NewParams(ad, 1).Uniform("a", -1, 3),
		"normal: std is -2; want 0 or more":                                                            NewParams(ad, 1).Normal("a", -2, 3),
	} {
		require.ErrorContains(t, y.Err(), "autodiff: "+want)
	}
	for _, c := range []struct {
		op   Op
		at   Attr
		want string
	}{
		{OpUniform, Attr{DType: tensor.F16, Floats: [10]float64{-1e5, 0}}, "uniform: the bounds are -100000 and 0; want them, and what is between them, finite in f16"},
		{OpUniform, Attr{DType: tensor.F64, Floats: [10]float64{-1e308, 1e308}}, "finite in f64"},
		{OpUniform, Attr{DType: tensor.F64, Floats: [10]float64{2, 1}}, "the bounds are 2 and 1"},
		{OpNormal, Attr{DType: tensor.BF16, Floats: [10]float64{0, -1}}, "std is -1"},
	} {
		_, err := ad.Run(c.op, &c.at)
		require.ErrorContains(t, err, c.want)
	}
	require.Equal(t, []float64{5, 5}, list(t, Uniform(ad, 1, 5, 5, 2)))
	require.Equal(t, []float64{5, 5}, list(t, Normal(ad, 1, 5, 0, 2)))
	for _, v := range list(t, Uniform(ad, 1, 0, math.MaxFloat32, 100)) {
		require.False(t, math.IsInf(v, 0))
	}
}
