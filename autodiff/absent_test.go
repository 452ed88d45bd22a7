package autodiff

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/isobit-ml/isobit/tensor"
)

// What is nil or never made is an error of whatever meets it, and no panic.
func TestAbsentBackends(t *testing.T) {
	var cpu *CPU
	var any Backend
	var ad *Autodiff[*CPU, None]
	for name, err := range map[string]error{
		"pointer":   Floats(cpu, []float32{1}).Err(),
		"interface": Floats(any, []float32{1}).Add(Floats(any, []float32{1})).Err(),
		"autodiff":  Full(ad, 1, 2).Exp().Err(),
		"ints":      Arange(cpu, 0, 1, 2).Err(),
		"random":    Normal(any, 1, 0, 1, 2).Err(),
		"shape":     Floats(cpu, []float32{1}, 2).Err(),
		"inner":     Floats(New[*CPU](nil, None{}), []float32{1}).Exp().Err(),
		"interface within": func() error {
			ad := New[Backend](nil, None{})
			_, err := ad.Backward(ad.Track(Full(ad, 1)).Exp())
			return err
		}(),
	} {
		if name == "shape" {
			require.ErrorContains(t, err, "does not fit shape [2]")
			continue
		}
		require.ErrorIs(t, err, errNoBackend, name)
	}
	require.Equal(t, "autodiff(nil)", New[*CPU](nil, None{}).Name())

	sum, err := Floats(&CPU{}, []float32{1, 2}).Sum().Item()
	require.NoError(t, err, "the zero value")
	require.Equal(t, 3.0, sum)
}

func TestAbsentStrategyAndOptions(t *testing.T) {
	ad := New[*CPU, Strategy](NewCPU(), nil)
	require.Equal(t, "none", ad.Strategy())
	x := ad.Track(Floats(ad, []float32{1, 2}))
	_, err := ad.Backward(x.Exp(), WithSum(), nil)
	require.EqualError(t, err, "autodiff: backward: option 1 is nil; want WithSum, WithSeed or KeepGraph")
	g, err := ad.Backward(x.Exp(), WithSum())
	require.NoError(t, err)
	require.Equal(t, 1, g.Len())
	require.NoError(t, ad.GradReplace(x, g, FloatView(ad.InnerBackend(), tensor.Of([]float32{5, 6}))))
}

// No rate is NaN: at warm = 1/steps the first step is the highest, and steps out of range count as the nearest.
func TestOneCycleAtItsEnds(t *testing.T) {
	require.Equal(t, 1.0, OneCycle(0, 10, 1, 0.1))
	require.Equal(t, OneCycle(0, 10, 1, 0.3), OneCycle(-5, 10, 1, 0.3))
	require.Equal(t, OneCycle(9, 10, 1, 0.3), OneCycle(50, 10, 1, 0.3))
	for _, steps := range []int{-1, 0, 1, 2, 10} {
		for _, warm := range []float64{-1, 0, 0.1, 0.5, 1, 2} {
			for step := -2; step < steps+3; step++ {
				rate := OneCycle(step, steps, 1, warm)
				require.False(t, math.IsNaN(rate) || rate < 0 || rate > 1, "OneCycle(%d, %d, 1, %g) = %g", step, steps, warm, rate)
			}
		}
	}
}
