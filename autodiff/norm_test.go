package autodiff

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestNormalizations holds each, with its gradients, to the operations that it stands for, bit for bit.
func TestNormalizations(t *testing.T) {
	splitFinely(t)
	ad := over(None{})
	for _, c := range []struct {
		name       string
		one, steps func(x, w, b Float[adf]) Float[adf]
	}{
		{"layer_norm", func(x, w, b Float[adf]) Float[adf] { return x.LayerNorm(w, b, 1e-3) }, func(x, w, b Float[adf]) Float[adf] {
			return stepwise(x, 1e-3).Mul(w).Add(b)
		}},
		{"rms_norm", func(x, w, b Float[adf]) Float[adf] { return x.RMSNorm(w, 1e-3).Add(b) }, func(x, w, b Float[adf]) Float[adf] {
			return x.Div(x.PowScalar(2).MeanKeep(-1).AddScalar(1e-3).Sqrt()).Mul(w).Add(b)
		}},
		{"group_norm", func(x, w, b Float[adf]) Float[adf] {
			n := x.Shape()
			return x.Reshape(n[0]/4, 2, n[1], 2).Permute(0, 2, 1, 3).GroupNorm(1, w, b, 1e-3)
		}, func(x, w, b Float[adf]) Float[adf] {
			n := x.Shape()
			y := x.Reshape(n[0]/4, 2, n[1], 2).Permute(0, 2, 1, 3)
			return stepwise(y.Flatten(1), 1e-3).Reshape(y.Shape()...).Mul(w.Reshape(-1, 1, 1)).Add(b.Reshape(-1, 1, 1))
		}},
	} {
		for _, n := range []int{1, 2, 7, 64, 100, 513} {
			x := Normal(ad, uint64(n), 1, 3, 4, n)
			if n == 100 {
				x = Where(Bools(ad, []bool{true, false, false, false}, 4, 1), Full(ad, math.Copysign(0, -1), 4, n), x)
			}
			if n == 7 {
				x = x.MulScalar(1e-30)
			}
			leaves := []Float[adf]{ad.Track(x), ad.Track(Normal(ad, 1, 1, 1, n)), ad.Track(Normal(ad, 2, 0, 1, n))}
			var all [2][]any
			for i, f := range []func(x, w, b Float[adf]) Float[adf]{c.one, c.steps} {
				y := f(leaves[0], leaves[1], leaves[2])
				all[i] = append(all[i], list(t, y))
				g, err := ad.Backward(y.Mul(Normal(ad, 3, 0, 1, y.Shape()...)), WithSum())
				require.NoError(t, err)
				for _, x := range leaves {
					dx, _ := ad.Grad(x, g)
					all[i] = append(all[i], list(t, dx))
				}
			}
			require.Equal(t, all[1], all[0], "%s of %d", c.name, n)
		}
	}
}

func stepwise(x Float[adf], eps float64) Float[adf] {
	centered := x.Sub(x.MeanKeep(-1))
	return centered.Div(centered.PowScalar(2).MeanKeep(-1).AddScalar(eps).Sqrt())
}
