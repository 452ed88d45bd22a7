package autodiff

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestSchedules holds schedules to what PyTorch 2.15 gave for steps 0 to 6.
func TestSchedules(t *testing.T) {
	for name, c := range map[string]struct {
		of   func(step int) float64
		want []float64
	}{
		"CosineAnnealingLR": {func(step int) float64 { return CosineAnnealingLR(step, 5, 0.5, 0.1) },
			[]float64{0.5, 0.461803398875, 0.361803398875, 0.238196601125, 0.138196601125, 0.1, 0.1}}, // the last stays
		"StepLR":       {func(step int) float64 { return StepLR(step, 2, 0.5, 0.3) }, []float64{0.5, 0.5, 0.15, 0.15, 0.045, 0.045, 0.0135}},
		"MultiStepLR":  {func(step int) float64 { return MultiStepLR(step, []int{4, 1}, 0.5, 0.1) }, []float64{0.5, 0.05, 0.05, 0.05, 0.005, 0.005, 0.005}},
		"exponential":  {func(step int) float64 { return StepLR(step, 1, 0.5, 0.9) }, []float64{0.5, 0.45, 0.405, 0.3645, 0.32805, 0.295245, 0.2657205}},
		"LinearLR":     {func(step int) float64 { return LinearLR(step, 4, 0.5/3, 0.5) }, []float64{0.166666666667, 0.25, 0.333333333333, 0.416666666667, 0.5, 0.5, 0.5}},
		"PolynomialLR": {func(step int) float64 { return PolynomialLR(step, 5, 0.5, 2) }, []float64{0.5, 0.32, 0.18, 0.08, 0.02, 0, 0}},
	} {
		for step, want := range c.want {
			require.InDelta(t, want, c.of(step), 1e-12, "%s, step %d", name, step)
		}
		require.Equal(t, c.of(0), c.of(-3), name)
	}
	for _, steps := range []int{0, -1} { // as if there were one
		require.Equal(t, 0.5, CosineAnnealingLR(0, steps, 0.5, 0.1))
		require.Equal(t, 0.1, CosineAnnealingLR(1, steps, 0.5, 0.1))
		require.Equal(t, 0.05, StepLR(1, steps, 0.5, 0.1))
	}
}

// A plateau is as long as PyTorch's.
func TestReduceLROnPlateau(t *testing.T) {
	p := ReduceLROnPlateau{Factor: 0.5, Patience: 2, Low: 0.1}
	rate, rates := 1.0, []float64{}
	for _, loss := range []float64{3, 2, 2, 1.9999, 2, 1, 1, 1, math.NaN(), 2, 2, 2, 2, 2, 2, 2, 2, 2, 2} {
		rate = p.Step(loss, rate)
		rates = append(rates, rate)
	}
	require.Equal(t, []float64{1, 1, 1, 1, 0.5, 0.5, 0.5, 0.5, 0.25, 0.25, 0.25, 0.125, 0.125, 0.125, 0.1, 0.1, 0.1, 0.1, 0.1}, rates)
	best := ReduceLROnPlateau{Max: true, Patience: -1}
	require.Equal(t, 1.0, best.Step(-5, 1))
	require.Equal(t, 1.0, best.Step(3, 1))
	require.Equal(t, 0.1, best.Step(3.0001, 1))
	require.Equal(t, 0.05, (&ReduceLROnPlateau{Patience: -1, Low: 2, Seen: 1}).Step(1, 0.05), "a rate never rises")
	late := ReduceLROnPlateau{Patience: -1}
	require.Equal(t, 0.1, late.Step(math.NaN(), 1))
	require.Equal(t, 0.1, late.Step(5, 0.1), "any number is better than NaN")
	require.Equal(t, 5.0, late.Best)
	def := ReduceLROnPlateau{}
	for i := range 12 {
		require.Equal(t, i == 11, def.Step(1, 1) < 1)
	}
}

func TestClipValue(t *testing.T) {
	ad := over(None{})
	x := leaf(ad, []float64{1, 2, 3, 4})
	g, err := ad.Backward(x.Mul(Floats(ad, []float64{-3, 0.5, math.Inf(1), math.NaN()})).Sum())
	require.NoError(t, err)
	require.ErrorContains(t, g.ClipValue(-1), "clip_value: the limit is -1; want 0 or more")
	require.ErrorContains(t, g.ClipValue(math.NaN()), "clip_value: the limit is NaN")
	require.NoError(t, g.ClipValue(0.75))
	dx, _ := ad.Grad(x, g)
	v := list(t, dx)
	require.Equal(t, []float64{-0.75, 0.5, 0.75}, v[:3])
	require.True(t, math.IsNaN(v[3]))
	require.NoError(t, (*Gradients[*CPU])(nil).ClipValue(1))
}

// What Interpolate gives is released by itself, of the same size, too.
func TestInterpolateToTheSameSize(t *testing.T) {
	ad := over(None{})
	for _, m := range []SampleMode{{}, {Mode: "nearest"}, {AlignCorners: true}} {
		x := ad.Track(Ones(ad, 1, 1, 2, 2))
		x.Interpolate(2, 2, m).Release()
		require.Equal(t, []float64{1, 1, 1, 1}, list(t, x))
		y := x.Interpolate(2, 2, m)
		x.Release()
		require.Equal(t, []float64{1, 1, 1, 1}, list(t, y))
	}
}
