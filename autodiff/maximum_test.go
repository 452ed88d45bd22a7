package autodiff

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// A NaN is no larger and no smaller than another: both get the gradient, as in PyTorch. Of
// equals it is the first one's.
func TestGradientsOfMaximumAtNaN(t *testing.T) {
	nan := math.NaN()
	forStrategies(t, func(t *testing.T, s Strategy) {
		for _, f := range []func(x, y Float[adf]) Float[adf]{Float[adf].Maximum, Float[adf].Minimum} {
			ad := over(s)
			x, y := leaf(ad, []float64{1, nan, 1, nan, 0}), leaf(ad, []float64{1, 1, nan, nan, math.Copysign(0, -1)})
			g, err := ad.Backward(f(x, y), WithSum())
			require.NoError(t, err)
			dx, _ := ad.Grad(x, g)
			dy, _ := ad.Grad(y, g)
			require.Equal(t, []float64{1, 1, 1, 1, 1}, list(t, dx))
			require.Equal(t, []float64{0, 1, 1, 1, 0}, list(t, dy))
		}
	})
}
